//! Call by call: each time the kernel's scheduler was asked, ours is asked too. After a difference the kernel's choice is
//! taken over, so that one miss does not spoil what follows.

use dumbwaiter_block::{Scheduler, Setup, State};
use serde::Serialize;

use crate::recording::{Recording, Row, RowKind};
use crate::row_order::in_order_of_events;
use crate::state::{ReplayState, is_direct, setup_of};

/// One call at which we and the kernel differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Number of the call, from 0.
    pub call: u64,
    /// Line in the recording.
    pub line: u64,
    /// Nanoseconds since the recording's first event.
    pub ts_ns: u64,
    /// The kernel's request; `null` where it returned nothing.
    pub kernel: Option<u32>,
    /// Ours.
    pub ours: Option<u32>,
}

/// Result of a call-by-call replay.
#[derive(Clone, Debug, Default)]
pub struct CallByCall {
    /// Calls that returned a request.
    pub dispatches: u64,
    /// Of these, those where ours is the same.
    pub same: u64,
    /// Calls that returned nothing.
    pub nones: u64,
    /// Of these, those where ours is nothing too.
    pub none_same: u64,
    /// Calls with a choice: not one of those at which nothing was queued, or at which the only queued request went.
    pub choices: u64,
    /// Of these, those with the same answer.
    pub choice_same: u64,
    /// Every difference.
    pub differences: Vec<Difference>,
    /// State before and rows around the difference whose number was given.
    pub explanation: Option<String>,
}

impl CallByCall {
    /// All calls.
    pub fn calls(&self) -> u64 {
        self.dispatches + self.nones
    }

    /// Share of calls with the same answer; 1 without calls.
    pub fn agreement(&self) -> f64 {
        share(self.same + self.none_same, self.calls())
    }

    /// Share of dispatches with the same request.
    pub fn dispatch_agreement(&self) -> f64 {
        share(self.same, self.dispatches)
    }

    /// Share of empty answers that were empty here too.
    pub fn none_agreement(&self) -> f64 {
        share(self.none_same, self.nones)
    }

    /// Share of calls with a choice that have the same answer.
    pub fn choice_agreement(&self) -> f64 {
        share(self.choice_same, self.choices)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

/// Replays call by call. `explain` is the number of the difference (from 1) to describe.
pub fn call_by_call(
    recording: &Recording,
    make: &dyn Fn(Setup) -> Box<dyn Scheduler>,
    explain: Option<u64>,
) -> CallByCall {
    let setup = setup_of(recording);
    let state = ReplayState::new(setup, recording);
    let scheduler = make(setup);
    let mut replay = Replay { recording, explain, state, scheduler, found: CallByCall::default() };
    let direct = is_direct(recording);
    for (i, row) in &in_order_of_events(&recording.rows) {
        let i = *i;
        replay.state.pass_time(&mut *replay.scheduler, row.at);
        replay.state.arrive(&mut *replay.scheduler, row, direct);
        match row.kind {
            RowKind::Dispatch => replay.call(i, row, Some(row.req), 0),
            RowKind::DispatchNone => replay.call(i, row, None, 0),
            RowKind::Issue if direct => replay.call(i, row, Some(row.req), usize::from(row.cpu % setup.cpus)),
            _ => {}
        }
        replay.progress(row);
    }
    replay.found
}

struct Replay<'a> {
    recording: &'a Recording,
    explain: Option<u64>,
    state: ReplayState,
    scheduler: Box<dyn Scheduler>,
    found: CallByCall,
}

impl Replay<'_> {
    /// The kernel's scheduler was asked in row `i` and answered with `kernel`.
    fn call(&mut self, i: usize, row: &Row, kernel: Option<u32>, hw: usize) {
        let before = self.scheduler.clone();
        let ours = self.state.ask(&mut *self.scheduler, hw, row.at).map(|(_, number)| number);
        let (asked, same) = match kernel {
            Some(_) => (&mut self.found.dispatches, &mut self.found.same),
            None => (&mut self.found.nones, &mut self.found.none_same),
        };
        *asked += 1;
        *same += u64::from(ours == kernel);
        // `none` has no dispatch function: its order is that of arrival.
        let forced = is_direct(self.recording) || self.state.queued() <= usize::from(kernel.is_some());
        self.found.choices += u64::from(!forced);
        self.found.choice_same += u64::from(!forced && ours == kernel);
        let chosen = kernel.and_then(|number| self.state.id(number));
        if ours != kernel {
            let call = self.found.calls() - 1;
            self.found.differences.push(Difference { call, line: row.line, ts_ns: row.at.0, kernel, ours });
            if self.explain == Some(self.found.differences.len() as u64) {
                let text = explanation(self.recording, i, &*before, &self.state, kernel, ours);
                self.found.explanation = Some(text);
            }
            self.scheduler = before;
            // A scheduler that cannot be corrected goes on without this dispatch.
            if let Some(id) = chosen.filter(|id| self.state.requests[*id].state == State::Queued)
                && let Some(replayed) = self.scheduler.replayable()
            {
                replayed.take(id, hw, &self.state.context(row.at));
            }
        }
        if let Some(id) = chosen.filter(|id| self.state.requests[*id].state == State::Queued) {
            self.state.dispatched(id, row.at);
        }
    }

    /// The driver took a request, or the device finished it or gave it back.
    fn progress(&mut self, row: &Row) {
        let Some(id) = self.state.id(row.req) else { return };
        match row.kind {
            RowKind::Issue if self.state.is_free(id) => {
                self.state.requests[id].issue = row.at;
                self.state.requests[id].state = State::Issued;
                if self.state.was_received(id) {
                    self.scheduler.issued(id, &self.state.context(row.at));
                }
            }
            // A request that the scheduler still holds was never dispatched: the recording contradicts itself.
            RowKind::Complete if self.state.requests[id].state != State::Queued => {
                if self.state.requests[id].state == State::Issued && self.state.was_received(id) {
                    self.scheduler.complete(id, &self.state.context(row.at));
                }
                self.state.remove(row.req);
            }
            RowKind::Requeue if self.state.requests[id].state == State::Issued => {
                if self.state.was_received(id) {
                    self.scheduler.requeued(id, &self.state.context(row.at));
                }
                self.state.requests[id].state = State::Dispatched;
            }
            _ => {}
        }
    }
}

/// State before and rows around a difference, for debugging.
fn explanation(
    recording: &Recording,
    at: usize,
    before: &dyn Scheduler,
    state: &ReplayState,
    kernel: Option<u32>,
    ours: Option<u32>,
) -> String {
    let describe = |n: Option<u32>| match n.and_then(|n| Some((n, state.id(n)?))) {
        Some((n, id)) => {
            let r = &state.requests[id];
            format!(
                "request {n}: {} {}+{} {} id {} inserted at {}",
                r.io.op, r.sector, r.sectors, r.io.ioprio, id.0, r.insert.0
            )
        }
        None => n.map_or("nothing".into(), |n| format!("request {n} (unknown)")),
    };
    let row = &recording.rows[at];
    let mut text = format!(
        "{} line {} at {} ns\nkernel: {}\nours:   {}\n{}",
        recording.path.display(),
        row.line,
        row.at.0,
        describe(kernel),
        describe(ours),
        before.describe(&state.context(row.at))
    );
    for row in &recording.rows[at.saturating_sub(12)..(at + 4).min(recording.rows.len())] {
        text += &format!(
            "{}{:>14} {:?} req {} {} {}+{} prio {} cpu {}\n",
            if row.line == recording.rows[at].line { ">" } else { " " },
            row.at.0,
            row.kind,
            row.req,
            row.op,
            row.sector,
            row.bytes / 512,
            row.ioprio,
            row.cpu
        );
    }
    text
}
