//! Free running: nothing is corrected. Our k-th dispatch is issued and completed when the kernel's k-th was.

use std::collections::BTreeMap;

use dumbwaiter_block::{Nanos, Scheduler, Setup, State};

use crate::recording::{Recording, Row, RowKind};
use crate::row_order::in_order_of_events;
use crate::state::{ReplayState, is_direct, setup_of};

/// Replays without correction; answers the requests in the order in which ours dispatched them.
pub fn free_running(recording: &Recording, make: &dyn Fn(Setup) -> Box<dyn Scheduler>) -> Vec<u32> {
    let setup = setup_of(recording);
    let direct = is_direct(recording);
    let state = ReplayState::new(setup, recording);
    let scheduler = make(setup);
    let mut run = FreeRun {
        scheduler,
        state,
        order: Vec::new(),
        place_of: BTreeMap::new(),
        kernel: 0,
        issued: Vec::new(),
        completed: Vec::new(),
    };
    for (_, row) in &in_order_of_events(&recording.rows) {
        run.state.pass_time(&mut *run.scheduler, row.at);
        run.state.arrive(&mut *run.scheduler, row, direct);
        match row.kind {
            RowKind::Dispatch => run.kernel_dispatched(row, 0),
            RowKind::Issue if direct => {
                run.kernel_dispatched(row, usize::from(row.cpu % setup.cpus));
                run.progress(row, true);
            }
            RowKind::DispatchNone => run.ask(row.at, 0),
            RowKind::Issue => run.progress(row, true),
            RowKind::Complete => run.progress(row, false),
            _ => {}
        }
    }
    run.order
}

struct FreeRun {
    scheduler: Box<dyn Scheduler>,
    state: ReplayState,
    /// Our scheduler's dispatches, in order.
    order: Vec<u32>,
    /// The kernel's place of each request it dispatched and has not completed.
    place_of: BTreeMap<u32, usize>,
    /// Dispatches of the kernel so far.
    kernel: usize,
    /// Per place: the kernel's request of this place has been issued, completed.
    issued: Vec<bool>,
    completed: Vec<bool>,
}

impl FreeRun {
    /// The kernel's call returned a request: ours is asked until it has dispatched as many, or has none.
    fn kernel_dispatched(&mut self, row: &Row, hw: usize) {
        self.place_of.insert(row.req, self.kernel);
        self.kernel += 1;
        self.issued.push(false);
        self.completed.push(false);
        while self.order.len() < self.kernel {
            let before = self.order.len();
            self.ask(row.at, hw);
            if self.order.len() == before {
                break;
            }
        }
    }

    fn ask(&mut self, now: Nanos, hw: usize) {
        let Some((id, number)) = self.state.ask(&mut *self.scheduler, hw, now) else { return };
        let place = self.order.len();
        self.order.push(number);
        self.state.dispatched(id, now);
        if self.issued.get(place) == Some(&true) {
            self.apply(place, now, true);
        }
        if self.completed.get(place) == Some(&true) {
            self.apply(place, now, false);
        }
    }

    /// The kernel's request was issued or completed: so is ours of the same place.
    fn progress(&mut self, row: &Row, issue: bool) {
        let Some(place) = self.place_of.get(&row.req).copied() else {
            return; // It never went through the scheduler (a flush).
        };
        let flags = if issue { &mut self.issued } else { &mut self.completed };
        flags[place] = true;
        if !issue {
            self.place_of.remove(&row.req);
        }
        self.apply(place, row.at, issue);
    }

    fn apply(&mut self, place: usize, now: Nanos, issue: bool) {
        let Some(number) = self.order.get(place).copied() else { return };
        let Some(id) = self.state.id(number) else { return };
        if issue && self.state.is_free(id) {
            self.state.requests[id].issue = now;
            self.state.requests[id].state = State::Issued;
            self.scheduler.issued(id, &self.state.context(now));
        } else if !issue && self.state.requests[id].state == State::Issued {
            self.scheduler.complete(id, &self.state.context(now));
            self.state.remove(number);
        }
    }
}

/// The kernel's order of dispatch (of issue, under `none`).
pub fn kernel_order(recording: &Recording) -> Vec<u32> {
    let direct = is_direct(recording);
    let wanted = if direct { RowKind::Issue } else { RowKind::Dispatch };
    let mut seen = std::collections::BTreeSet::new();
    recording.rows.iter().filter(|r| r.kind == wanted && seen.insert(r.req)).map(|r| r.req).collect()
}
