//! The state of a replay: what a recording's rows do to requests, tasks and a scheduler, whichever way its answers are used.

use std::collections::BTreeMap;

use dumbwaiter_block::{
    Context, Event, Io, Ioprio, Join, Nanos, Next, Place, Request, RequestId, Requests, Scheduler, Setup, Side, State,
    TaskId, Tenant, TenantId, Tenants,
};

use crate::recording::{Recording, Row, RowKind};

/// Requests, tasks and clock of a replay, the requests by their numbers in the recording.
pub(crate) struct ReplayState {
    pub(crate) requests: Requests,
    tenants: Tenants,
    ids: BTreeMap<u32, RequestId>,
    numbers: Vec<u32>,
    /// By the request's index: whether the scheduler received it. Flushes and what a driver inserts itself pass it by.
    received: Vec<bool>,
    tasks: BTreeMap<i32, TaskId>,
    setup: Setup,
    /// Tenants of the recording's groups, in their order.
    groups: Vec<TenantId>,
    /// The tenant of processes in no recorded group.
    root: TenantId,
    /// Tenants of processes, by their number.
    homes: BTreeMap<i32, TenantId>,
    /// Requests that the scheduler has.
    queued: usize,
    /// The plug of each CPU's running process.
    plugs: BTreeMap<u16, Plug>,
    reads_clock_in_plug: bool,
    /// Requests held back by a process's plug, where the scheduler does no inserting of its own (`none`).
    plugged: BTreeMap<i32, Vec<u32>>,
}

/// Requests that a process holds back.
#[derive(Clone, Copy, Debug, Default)]
struct Plug {
    /// When its first request was allocated.
    began: Option<Nanos>,
    /// Its requests go to the scheduler now.
    flushed: bool,
}

impl ReplayState {
    pub(crate) fn new(setup: Setup, recording: &Recording) -> ReplayState {
        let mut tenants = Tenants::default();
        let root = tenants.add_root(Tenant::default().weight);
        let mut groups: Vec<TenantId> = Vec::new();
        let mut homes = BTreeMap::new();
        for group in &recording.groups {
            let parent = group.path.rsplit_once('/').map(|(above, _)| above);
            let parent = parent.and_then(|above| recording.groups.iter().position(|other| other.path == above));
            let tenant = match group.path.as_str() {
                "" => root,
                _ => tenants.add_tenant(Tenant { weight: group.weight, parent: parent.map(|i| groups[i]) }),
            };
            groups.push(tenant);
            homes.extend(group.pids.iter().map(|pid| (*pid, tenant)));
        }
        ReplayState {
            requests: Requests::default(),
            tenants,
            ids: BTreeMap::new(),
            numbers: Vec::new(),
            received: Vec::new(),
            tasks: BTreeMap::new(),
            setup,
            groups,
            root,
            homes,
            queued: 0,
            plugs: BTreeMap::new(),
            reads_clock_in_plug: recording.scheduler == "bfq",
            plugged: BTreeMap::new(),
        }
    }

    pub(crate) fn context(&self, now: Nanos) -> Context<'_> {
        Context { now, requests: &self.requests, tenants: &self.tenants, busy: true }
    }

    fn allocate(&mut self, row: &Row) {
        let tenant = self.home_of(row.pid);
        let tenants = &mut self.tenants;
        let task = *self.tasks.entry(row.pid).or_insert_with(|| tenants.add_task(tenant, Ioprio::DEFAULT));
        let io = Io {
            op: row.op,
            flags: row.flags,
            ioprio: row.ioprio,
            sector: row.sector,
            sectors: (row.bytes / 512) as u32,
            task,
            tenant,
            cpu: row.cpu % self.setup.cpus,
            ..Io::default()
        };
        let id = self.requests.insert(Request::new(io, row.at));
        self.ids.insert(row.req, id);
        if id.index() >= self.numbers.len() {
            self.numbers.resize(id.index() + 1, 0);
            self.received.resize(id.index() + 1, false);
        }
        self.received[id.index()] = false;
        self.numbers[id.index()] = row.req;
    }

    /// The request of a row; a recording that starts late may mention unknown ones.
    pub(crate) fn id(&self, number: u32) -> Option<RequestId> {
        self.ids.get(&number).copied()
    }

    /// Whether the scheduler knows a request.
    pub(crate) fn was_received(&self, id: RequestId) -> bool {
        self.received[id.index()]
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

    /// Follows the plugs: which began with which request, and when.
    fn note_plug(&mut self, row: &Row) {
        match row.kind {
            RowKind::Allocated => {
                let plug = self.plugs.entry(row.cpu).or_default();
                if std::mem::take(&mut plug.flushed) || plug.began.is_none() {
                    plug.began = Some(row.at);
                }
            }
            RowKind::Unplug => self.plugs.entry(row.cpu).or_default().flushed = true,
            RowKind::Arrival if self.plugs.get(&row.cpu).is_some_and(|plug| plug.flushed) => {
                self.plugs.remove(&row.cpu);
            }
            _ => {}
        }
    }

    /// The time that `bfq` sees at an insertion. Linux, from 6.9 on, reads the clock once for all requests of a plug; the
    /// other schedulers count ticks.
    fn time_of_insertion(&self, row: &Row) -> Nanos {
        let plug = self.plugs.get(&row.cpu).filter(|plug| plug.flushed && self.reads_clock_in_plug);
        plug.and_then(|plug| plug.began).unwrap_or(row.at)
    }

    /// Requests that the scheduler has.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// The scheduler gave this request away.
    pub(crate) fn dispatched(&mut self, id: RequestId, now: Nanos) {
        let request = &mut self.requests[id];
        self.queued -= usize::from(request.state == State::Queued);
        request.state = State::Dispatched;
        request.dispatch = now;
    }

    fn home_of(&self, pid: i32) -> TenantId {
        self.homes.get(&pid).copied().unwrap_or(self.root)
    }

    /// The groups and processes of a row.
    fn administer(&mut self, scheduler: &mut dyn Scheduler, row: &Row) {
        match row.kind {
            RowKind::GroupWeight { group, weight } => {
                let tenant = self.groups[group as usize];
                if let Some(own) = self.tenants.tenant_mut(tenant) {
                    own.weight = weight;
                }
                scheduler.event(Event::TenantChanged(tenant), &self.context(row.at));
            }
            RowKind::TaskMoved(group) => {
                let tenant = self.groups[group as usize];
                self.homes.insert(row.pid, tenant);
                let Some(task) = self.tasks.get(&row.pid).copied() else { return };
                if let Some(own) = self.tenants.task_mut(task) {
                    own.tenant = tenant;
                }
                scheduler.event(Event::TaskChanged(task), &self.context(row.at));
            }
            RowKind::TaskExited => {
                // The number is not used again: a process of the same number gets a new task.
                if let Some(task) = self.tasks.remove(&row.pid) {
                    scheduler.event(Event::TaskExited(task), &self.context(row.at));
                }
            }
            _ => {}
        }
    }

    /// Fires the timers that are due at `now`.
    pub(crate) fn pass_time(&mut self, scheduler: &mut dyn Scheduler, now: Nanos) {
        if scheduler.timer().is_some_and(|t| t <= now) {
            scheduler.event(Event::Timer, &self.context(now));
        }
    }

    fn insert(&mut self, scheduler: &mut dyn Scheduler, row: &Row, number: u32) {
        if let Some(id) = self.id(number).filter(|id| self.is_free(*id)) {
            let request = &mut self.requests[id];
            request.insert = row.at;
            request.state = State::Queued;
            self.queued += 1;
            self.received[id.index()] = true;
            scheduler.insert(id, Place::Tail, &self.context(self.time_of_insertion(row)));
        }
    }

    /// A row's arrivals and merges, for a scheduler that the kernel asks or, under `none` (`direct`), does not.
    pub(crate) fn arrive(&mut self, scheduler: &mut dyn Scheduler, row: &Row, direct: bool) {
        self.administer(scheduler, row);
        self.note_plug(row);
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
                    self.queued -= 1;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Group;

    fn recording(groups: &[(&str, u32, &[i32])]) -> Recording {
        let group = |(path, weight, pids): &(&str, u32, &[i32])| Group {
            path: (*path).into(),
            weight: *weight,
            pids: (*pids).into(),
        };
        Recording {
            path: Default::default(),
            scheduler: "bfq".to_owned(),
            kernel: "6.12".to_owned(),
            iosched: BTreeMap::new(),
            setup: Setup::default(),
            groups: groups.iter().map(group).collect(),
            rows: Vec::new(),
        }
    }

    fn row(us: u64, kind: RowKind, pid: i32) -> Row {
        let at = Nanos::from_us(us);
        let op = dumbwaiter_block::Op::Read;
        let flags = dumbwaiter_block::Flags::NONE;
        Row { at, kind, req: 1, sector: 0, bytes: 4096, op, flags, pid, ioprio: Ioprio::DEFAULT, cpu: 0, line: 1 }
    }

    fn new() -> ReplayState {
        let recording = recording(&[("a", 300, &[]), ("a/x", 50, &[1]), ("", 100, &[2])]);
        ReplayState::new(recording.setup, &recording)
    }

    #[test]
    fn groups_are_tenants_and_processes_of_no_group_are_in_the_root() {
        let state = new();
        let weight = |id: TenantId| state.tenants.tenant(id).unwrap().weight;
        let [a, x] = [state.groups[0], state.groups[1]];
        assert_eq!((weight(a), weight(x)), (300, 50));
        assert_eq!(state.tenants.tenant(x).unwrap().parent, Some(a));
        assert!(state.tenants.is_root(state.home_of(2)) && state.tenants.is_root(state.home_of(9)));
        assert_eq!(state.home_of(1), x);
    }

    #[test]
    fn rows_change_weights_and_move_and_end_processes() {
        let mut state = new();
        let mut scheduler = dumbwaiter_schedulers::Choice::parse("bfq").unwrap().scheduler(Setup::default());
        let [a, x] = [state.groups[0], state.groups[1]];
        state.arrive(&mut *scheduler, &row(0, RowKind::Allocated, 1), false);
        state.arrive(&mut *scheduler, &row(1, RowKind::GroupWeight { group: 1, weight: 70 }, 0), false);
        assert_eq!(state.tenants.tenant(x).unwrap().weight, 70);
        state.arrive(&mut *scheduler, &row(2, RowKind::TaskMoved(0), 1), false);
        assert_eq!((state.home_of(1), state.tenants.task(state.tasks[&1]).unwrap().tenant), (a, a));
        state.arrive(&mut *scheduler, &row(3, RowKind::TaskExited, 1), false);
        assert!(!state.tasks.contains_key(&1));
    }

    #[test]
    fn requests_of_one_plug_are_inserted_at_the_time_of_the_first() {
        let mut state = new();
        let mut see = |us, kind| {
            state.note_plug(&row(us, kind, 1));
            state.time_of_insertion(&row(us, kind, 1))
        };
        see(10, RowKind::Allocated);
        see(12, RowKind::Allocated);
        see(14, RowKind::Unplug);
        assert_eq!(see(15, RowKind::Insert), Nanos::from_us(10));
        see(16, RowKind::Arrival);
        assert_eq!(see(17, RowKind::Insert), Nanos::from_us(17), "the plug is over");
    }
}
