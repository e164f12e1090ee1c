//! The state of a replay: what a recording's rows do to requests, tasks and a scheduler, whichever way its answers are used.

use std::collections::BTreeMap;

use dumbwaiter_block::{
    Context, Event, Io, Ioprio, Join, Nanos, Next, Place, Request, RequestId, Requests, Scheduler, Setup, Side, State,
    TaskId, Tenant, Tenants,
};

use crate::recording::{Recording, Row, RowKind};

/// A recording does not tell when a process ends; fio's do about this long after their last I/O.
const EXIT_DELAY: Nanos = Nanos::from_us(1500);

/// Requests, tasks and clock of a replay, the requests by their numbers in the recording.
pub(crate) struct ReplayState {
    pub(crate) requests: Requests,
    tenants: Tenants,
    ids: BTreeMap<u32, RequestId>,
    numbers: Vec<u32>,
    tasks: BTreeMap<i32, TaskId>,
    setup: Setup,
    /// When each process ends, the first to end last.
    exits: Vec<(Nanos, i32)>,
    /// Requests held back by a process's plug, where the scheduler does no inserting of its own (`none`).
    plugged: BTreeMap<i32, Vec<u32>>,
}

impl ReplayState {
    pub(crate) fn new(setup: Setup, rows: &[Row]) -> ReplayState {
        let mut last = BTreeMap::new();
        for row in rows {
            last.insert(row.pid, row.at + EXIT_DELAY);
        }
        let mut exits: Vec<(Nanos, i32)> = last.into_iter().map(|(pid, at)| (at, pid)).collect();
        exits.sort_unstable_by(|a, b| b.cmp(a));
        let mut tenants = Tenants::default();
        tenants.add_tenant(Tenant::default());
        ReplayState {
            requests: Requests::default(),
            tenants,
            ids: BTreeMap::new(),
            numbers: Vec::new(),
            tasks: BTreeMap::new(),
            setup,
            exits,
            plugged: BTreeMap::new(),
        }
    }

    pub(crate) fn context(&self, now: Nanos) -> Context<'_> {
        Context { now, requests: &self.requests, tenants: &self.tenants, busy: true }
    }

    fn allocate(&mut self, row: &Row) {
        let next = self.tasks.len() as u32;
        let tenants = &mut self.tenants;
        let task = *self.tasks.entry(row.pid).or_insert_with(|| {
            tenants.add_task(Default::default(), Ioprio::DEFAULT);
            TaskId(next)
        });
        let io = Io {
            op: row.op,
            flags: row.flags,
            ioprio: row.ioprio,
            sector: row.sector,
            sectors: (row.bytes / 512) as u32,
            task,
            cpu: row.cpu % self.setup.cpus,
            ..Io::default()
        };
        let id = self.requests.insert(Request::new(io, row.at));
        self.ids.insert(row.req, id);
        if id.index() >= self.numbers.len() {
            self.numbers.resize(id.index() + 1, 0);
        }
        self.numbers[id.index()] = row.req;
    }

    /// The request of a row; a recording that starts late may mention unknown ones.
    pub(crate) fn id(&self, number: u32) -> Option<RequestId> {
        self.ids.get(&number).copied()
    }

    /// Whether neither a scheduler nor the driver holds a request.
    pub(crate) fn is_free(&self, id: RequestId) -> bool {
        !matches!(self.requests[id].state, State::Queued | State::Issued)
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(id) = self.ids.remove(&number) {
            self.requests.remove(id);
        }
    }

    /// What happens by itself until `now`: processes end, timers fire.
    pub(crate) fn pass_time(&mut self, scheduler: &mut dyn Scheduler, now: Nanos) {
        while let Some((_, pid)) = self.exits.pop_if(|(at, _)| *at <= now) {
            if let Some(task) = self.tasks.get(&pid) {
                scheduler.event(Event::TaskExited(*task), &self.context(now));
            }
        }
        if scheduler.timer().is_some_and(|t| t <= now) {
            scheduler.event(Event::Timer, &self.context(now));
        }
    }

    fn insert(&mut self, scheduler: &mut dyn Scheduler, row: &Row, number: u32) {
        if let Some(id) = self.id(number).filter(|id| self.is_free(*id)) {
            let request = &mut self.requests[id];
            request.insert = row.at;
            request.state = State::Queued;
            scheduler.insert(id, Place::Tail, &self.context(row.at));
        }
    }

    /// A row's arrivals and merges, for a scheduler that the kernel asks or, under `none` (`direct`), does not.
    pub(crate) fn arrive(&mut self, scheduler: &mut dyn Scheduler, row: &Row, direct: bool) {
        if !direct {
            self.arrivals(scheduler, row);
            return;
        }
        self.direct_arrivals(scheduler, row);
        if row.kind == RowKind::Issue && self.plugged.values().any(|held| held.contains(&row.req)) {
            self.unplug(scheduler, row, row.pid);
        }
    }

    /// The request that a scheduler answers with, by its number; `None` for no request.
    pub(crate) fn ask(&self, scheduler: &mut dyn Scheduler, hw: usize, now: Nanos) -> Option<(RequestId, u32)> {
        if !scheduler.has_work(hw) {
            return None;
        }
        match scheduler.next(hw, &self.context(now)) {
            Next::Dispatch(id) => Some((id, self.numbers[id.index()])),
            _ => None,
        }
    }

    fn arrivals(&mut self, scheduler: &mut dyn Scheduler, row: &Row) {
        match row.kind {
            RowKind::Allocated => self.allocate(row),
            RowKind::Insert => {
                if let Some(id) = self.id(row.req) {
                    let request = &mut self.requests[id];
                    // Priority is known from insertion on; the extent includes what merged in the plug.
                    request.io.ioprio = row.ioprio;
                    request.sector = row.sector;
                    request.sectors = (row.bytes / 512) as u32;
                }
                self.insert(scheduler, row, row.req);
            }
            RowKind::BackMerge | RowKind::FrontMerge => {
                let Some(id) = self.id(row.req) else { return };
                let request = &mut self.requests[id];
                request.sectors = request.sectors.saturating_add((row.bytes / 512) as u32);
                let side = if row.kind == RowKind::FrontMerge {
                    request.sector = row.sector;
                    Side::Front
                } else {
                    Side::Back
                };
                if request.state == State::Queued {
                    scheduler.merged(Join { into: id, side }, &self.context(row.at));
                }
            }
            RowKind::Absorb(other) => {
                let (Some(survivor), Some(absorbed)) = (self.id(row.req), self.id(other)) else { return };
                let queued = |id: RequestId| self.requests[id].state == State::Queued;
                // The scheduler still holds it: the recording contradicts itself.
                if survivor == absorbed || queued(absorbed) && !queued(survivor) {
                    return;
                }
                let sectors = self.requests[absorbed].sectors;
                self.requests[survivor].sectors = self.requests[survivor].sectors.saturating_add(sectors);
                if self.requests[absorbed].state == State::Queued {
                    scheduler.absorbed(survivor, absorbed, &self.context(row.at));
                }
                self.remove(other);
            }
            _ => {}
        }
    }

    /// Under `none` nothing is inserted: a plug's requests go out when it ends.
    fn direct_arrivals(&mut self, scheduler: &mut dyn Scheduler, row: &Row) {
        match row.kind {
            RowKind::Allocated => {
                self.allocate(row);
                self.plugged.entry(row.pid).or_default().push(row.req);
            }
            RowKind::Unplug => self.unplug(scheduler, row, row.pid),
            RowKind::BackMerge | RowKind::FrontMerge | RowKind::Absorb(_) => self.arrivals(scheduler, row),
            _ => {}
        }
    }

    fn unplug(&mut self, scheduler: &mut dyn Scheduler, row: &Row, pid: i32) {
        for number in self.plugged.remove(&pid).unwrap_or_default() {
            self.insert(scheduler, row, number);
        }
    }
}

/// Under `none` no dispatch function is called: there the driver's taking of a request counts as the call.
pub(crate) fn is_direct(recording: &Recording) -> bool {
    recording.scheduler == "none"
}

/// A replayed scheduler gets one hardware queue, `none` one per CPU.
pub(crate) fn setup_of(recording: &Recording) -> Setup {
    let hw_queues = if is_direct(recording) { recording.setup.cpus } else { 1 };
    Setup { hw_queues, ..recording.setup }
}
