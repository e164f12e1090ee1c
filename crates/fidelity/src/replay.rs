//! How a scheduler of ours agrees with a kernel's: a recording's arrivals and completions are fed in, and its answers
//! are held against the kernel's.
//!
//! *Call by call*: after a difference the kernel's choice is taken, so that one does not spoil what follows.
//! *Free running*: no correction; our k-th dispatch is issued and completed when the kernel's k-th was.

use std::collections::BTreeMap;

use dumbwaiter_block::{
    Context, Event, Io, Ioprio, Join, Nanos, Next, Place, Request, RequestId, Requests, Scheduler, Setup, Side, State,
    TaskId, Tenant, Tenants,
};
use serde::Serialize;

use crate::recording::{Recording, Row, What};

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

/// A recording does not tell when a process ends; fio's do about this long after their last I/O.
const EXIT_DELAY: Nanos = Nanos::from_us(1500);

/// What a call-by-call replay found.
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
    /// Every difference.
    pub differences: Vec<Difference>,
    /// State before and rows around the difference that was asked to be explained.
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
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

/// How two orders of the same requests compare.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Order {
    /// Share of positions with the same request.
    pub identical_share: f64,
    /// Share of pairs in the other order: 0 the same, 1 reversed.
    pub kendall_tau_distance: f64,
    /// Mean distance in positions between a request's two places.
    pub mean_displacement: f64,
}

/// The world of a replay: the requests of a recording, by the recording's numbers.
struct World {
    requests: Requests,
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

impl World {
    fn new(setup: Setup, rows: &[Row]) -> World {
        let mut last = BTreeMap::new();
        for row in rows {
            last.insert(row.pid, row.at + EXIT_DELAY);
        }
        let mut exits: Vec<(Nanos, i32)> = last.into_iter().map(|(pid, at)| (at, pid)).collect();
        exits.sort_unstable_by(|a, b| b.cmp(a));
        let mut tenants = Tenants::default();
        tenants.add_tenant(Tenant::default());
        World {
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

    fn context(&self, now: Nanos) -> Context<'_> {
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
    fn id(&self, number: u32) -> Option<RequestId> {
        self.ids.get(&number).copied()
    }

    fn remove(&mut self, number: u32) {
        if let Some(id) = self.ids.remove(&number) {
            self.requests.remove(id);
        }
    }

    /// What happens by itself until `now`: processes end, timers fire.
    fn pass_time(&mut self, scheduler: &mut dyn Scheduler, now: Nanos) {
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
        if let Some(id) = self.id(number) {
            let request = &mut self.requests[id];
            request.insert = row.at;
            request.state = State::Queued;
            scheduler.insert(id, Place::Tail, &self.context(row.at));
        }
    }

    /// Everything that is the same in both kinds of replay: arrivals and merges.
    fn arrivals(&mut self, scheduler: &mut dyn Scheduler, row: &Row) {
        match row.what {
            What::Allocated => self.allocate(row),
            What::Insert => {
                if let Some(id) = self.id(row.req) {
                    let request = &mut self.requests[id];
                    // Priority is known from insertion on; the extent includes what merged in the plug.
                    request.io.ioprio = row.ioprio;
                    request.sector = row.sector;
                    request.sectors = (row.bytes / 512) as u32;
                }
                self.insert(scheduler, row, row.req);
            }
            What::BackMerge | What::FrontMerge => {
                let Some(id) = self.id(row.req) else { return };
                let request = &mut self.requests[id];
                request.sectors += (row.bytes / 512) as u32;
                let side = if row.what == What::FrontMerge {
                    request.sector = row.sector;
                    Side::Front
                } else {
                    Side::Back
                };
                if request.state == State::Queued {
                    scheduler.merged(Join { into: id, side }, &self.context(row.at));
                }
            }
            What::Absorb(other) => {
                let (Some(survivor), Some(absorbed)) = (self.id(row.req), self.id(other)) else { return };
                self.requests[survivor].sectors += self.requests[absorbed].sectors;
                if self.requests[absorbed].state == State::Queued && self.requests[survivor].state == State::Queued {
                    scheduler.absorbed(survivor, absorbed, &self.context(row.at));
                }
                self.remove(other);
            }
            _ => {}
        }
    }

    /// Under `none` nothing is inserted: a plug's requests go out when it ends.
    fn direct_arrivals(&mut self, scheduler: &mut dyn Scheduler, row: &Row) {
        match row.what {
            What::Allocated => {
                self.allocate(row);
                self.plugged.entry(row.pid).or_default().push(row.req);
            }
            What::Unplug => self.let_go(scheduler, row, row.pid),
            What::BackMerge | What::FrontMerge | What::Absorb(_) => self.arrivals(scheduler, row),
            _ => {}
        }
    }

    fn let_go(&mut self, scheduler: &mut dyn Scheduler, row: &Row, pid: i32) {
        for number in self.plugged.remove(&pid).unwrap_or_default() {
            self.insert(scheduler, row, number);
        }
    }
}

/// Does the recording hold calls of a dispatch function? `none` has none: there the driver's taking of a request counts.
fn is_direct(recording: &Recording) -> bool {
    recording.scheduler == "none"
}

/// A scheduler for the replay is told one hardware queue, but `none` is asked per CPU.
fn setup_of(recording: &Recording) -> Setup {
    let hw_queues = if is_direct(recording) { recording.setup.cpus } else { 1 };
    Setup { hw_queues, ..recording.setup }
}

/// A scheduler as the recorder attached it: to flash, which may have been declared rotational afterwards.
fn attach(make: &dyn Fn(Setup) -> Box<dyn Scheduler>, world: &World) -> Box<dyn Scheduler> {
    let mut scheduler = make(Setup { rotational: false, ..world.setup });
    if world.setup.rotational {
        scheduler.event(Event::RotationalChanged(true), &world.context(Nanos::ZERO));
    }
    scheduler
}

/// Replays call by call. `explain` is the number of the difference (from 1) to describe.
pub fn call_by_call(
    recording: &Recording,
    make: &dyn Fn(Setup) -> Box<dyn Scheduler>,
    explain: Option<u64>,
) -> CallByCall {
    let setup = setup_of(recording);
    let direct = is_direct(recording);
    let mut world = World::new(setup, &recording.rows);
    let mut scheduler = attach(make, &world);
    let mut found = CallByCall::default();
    for (i, row) in recording.rows.iter().enumerate() {
        world.pass_time(&mut *scheduler, row.at);
        let asked = match row.what {
            What::Dispatch => Some(Some(row.req)),
            What::DispatchNone => Some(None),
            What::Issue if direct => Some(Some(row.req)),
            _ => None,
        };
        if direct {
            world.direct_arrivals(&mut *scheduler, row);
            if row.what == What::Issue && world.plugged.values().any(|held| held.contains(&row.req)) {
                world.let_go(&mut *scheduler, row, row.pid);
            }
        } else {
            world.arrivals(&mut *scheduler, row);
        }
        if let Some(kernel) = asked {
            let hw = if direct { usize::from(row.cpu % setup.cpus) } else { 0 };
            let before = scheduler.clone();
            let answer = if scheduler.has_work(hw) { scheduler.next(hw, &world.context(row.at)) } else { Next::Empty };
            let ours = match answer {
                Next::Dispatch(id) => Some(world.numbers[id.index()]),
                _ => None,
            };
            match kernel {
                Some(_) => found.dispatches += 1,
                None => found.nones += 1,
            }
            if ours == kernel {
                match kernel {
                    Some(_) => found.same += 1,
                    None => found.none_same += 1,
                }
            } else {
                found.differences.push(Difference {
                    call: found.calls() - 1,
                    line: row.line,
                    ts_ns: row.at.0,
                    kernel,
                    ours,
                });
                if explain == Some(found.differences.len() as u64) {
                    found.explanation = Some(explanation(recording, i, &*before, &world, kernel, ours));
                }
                scheduler = before;
                if let Some(id) =
                    kernel.and_then(|n| world.id(n)).filter(|id| world.requests[*id].state == State::Queued)
                {
                    // A scheduler that cannot be corrected goes on without this dispatch.
                    if let Some(replayed) = scheduler.replayable() {
                        replayed.take(id, hw, &world.context(row.at));
                    }
                }
            }
            if let Some(id) = kernel.and_then(|n| world.id(n)) {
                world.requests[id].state = State::Dispatched;
                world.requests[id].dispatch = row.at;
            }
        }
        let Some(id) = world.id(row.req) else { continue };
        match row.what {
            What::Issue => {
                world.requests[id].issue = row.at;
                world.requests[id].state = State::Issued;
                scheduler.issued(id, &world.context(row.at));
            }
            What::Complete => {
                if world.requests[id].state == State::Issued {
                    scheduler.complete(id, &world.context(row.at));
                }
                world.remove(row.req);
            }
            What::Requeue => {
                scheduler.requeued(id, &world.context(row.at));
                world.requests[id].state = State::Dispatched;
            }
            _ => {}
        }
    }
    found
}

fn explanation(
    recording: &Recording,
    at: usize,
    before: &dyn Scheduler,
    world: &World,
    kernel: Option<u32>,
    ours: Option<u32>,
) -> String {
    let describe = |n: Option<u32>| match n.and_then(|n| Some((n, world.id(n)?))) {
        Some((n, id)) => {
            let r = &world.requests[id];
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
        before.describe(&world.context(row.at))
    );
    for row in &recording.rows[at.saturating_sub(12)..(at + 4).min(recording.rows.len())] {
        text += &format!(
            "{}{:>14} {:?} req {} {} {}+{} prio {} cpu {}\n",
            if row.line == recording.rows[at].line { ">" } else { " " },
            row.at.0,
            row.what,
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

/// Replays without correction; answers the requests in the order in which ours dispatched them.
pub fn free_running(recording: &Recording, make: &dyn Fn(Setup) -> Box<dyn Scheduler>) -> Vec<u32> {
    let setup = setup_of(recording);
    let direct = is_direct(recording);
    let world = World::new(setup, &recording.rows);
    let scheduler = attach(make, &world);
    let mut run = FreeRun {
        scheduler,
        world,
        order: Vec::new(),
        place_of: BTreeMap::new(),
        kernel: 0,
        issued: Vec::new(),
        completed: Vec::new(),
    };
    for row in &recording.rows {
        run.world.pass_time(&mut *run.scheduler, row.at);
        if direct {
            run.world.direct_arrivals(&mut *run.scheduler, row);
            if row.what == What::Issue && run.world.plugged.values().any(|held| held.contains(&row.req)) {
                run.world.let_go(&mut *run.scheduler, row, row.pid);
            }
        } else {
            run.world.arrivals(&mut *run.scheduler, row);
        }
        match row.what {
            What::Dispatch => run.kernel_dispatched(row, 0),
            What::Issue if direct => {
                run.kernel_dispatched(row, usize::from(row.cpu % setup.cpus));
                run.progress(row, true);
            }
            What::DispatchNone => run.ask(row.at, 0),
            What::Issue => run.progress(row, true),
            What::Complete => run.progress(row, false),
            _ => {}
        }
    }
    run.order
}

struct FreeRun {
    scheduler: Box<dyn Scheduler>,
    world: World,
    /// What ours dispatched, in order.
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
    /// The kernel's call returned a request: ours gets as many opportunities as the kernel had dispatches.
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
        if !self.scheduler.has_work(hw) {
            return;
        }
        if let Next::Dispatch(id) = self.scheduler.next(hw, &self.world.context(now)) {
            let place = self.order.len();
            self.order.push(self.world.numbers[id.index()]);
            self.world.requests[id].state = State::Dispatched;
            self.world.requests[id].dispatch = now;
            if self.issued.get(place) == Some(&true) {
                self.apply(place, now, true);
            }
            if self.completed.get(place) == Some(&true) {
                self.apply(place, now, false);
            }
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
        let Some(id) = self.world.id(number) else { return };
        if issue {
            self.world.requests[id].issue = now;
            self.world.requests[id].state = State::Issued;
            self.scheduler.issued(id, &self.world.context(now));
        } else {
            self.scheduler.complete(id, &self.world.context(now));
            self.world.remove(number);
        }
    }
}

/// The kernel's order of dispatch (of issue, under `none`).
pub fn kernel_order(recording: &Recording) -> Vec<u32> {
    let direct = is_direct(recording);
    let wanted = if direct { What::Issue } else { What::Dispatch };
    let mut seen = std::collections::BTreeSet::new();
    recording.rows.iter().filter(|r| r.what == wanted && seen.insert(r.req)).map(|r| r.req).collect()
}

/// Compares two orders over the requests that both hold; `None` where they share fewer than one.
pub fn compare(kernel: &[u32], ours: &[u32]) -> Option<Order> {
    let mut place = BTreeMap::new();
    let shared: std::collections::BTreeSet<u32> = kernel.iter().copied().collect();
    for number in ours.iter().filter(|n| shared.contains(n)) {
        let next = place.len();
        place.entry(*number).or_insert(next);
    }
    let places: Vec<usize> = kernel.iter().filter_map(|n| place.get(n).copied()).collect();
    let n = places.len();
    if n == 0 {
        return None;
    }
    let same = places.iter().enumerate().filter(|(i, p)| i == *p).count();
    let displacement: usize = places.iter().enumerate().map(|(i, p)| i.abs_diff(*p)).sum();
    let pairs = n as f64 * (n as f64 - 1.0) / 2.0;
    Some(Order {
        identical_share: same as f64 / n as f64,
        kendall_tau_distance: if n > 1 { inversions(&places) as f64 / pairs } else { 0.0 },
        mean_displacement: displacement as f64 / n as f64,
    })
}

/// Pairs out of order, by a Fenwick tree.
fn inversions(places: &[usize]) -> u64 {
    let mut tree = vec![0u64; places.len() + 1];
    let mut total = 0;
    for (done, place) in places.iter().enumerate() {
        let mut i = place + 1;
        let mut before = 0;
        while i > 0 {
            before += tree[i];
            i &= i - 1;
        }
        total += done as u64 - before;
        let mut i = place + 1;
        while i < tree.len() {
            tree[i] += 1;
            i += i & i.wrapping_neg();
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_compare_as_defined() {
        let same = compare(&[1, 2, 3], &[1, 2, 3]).unwrap();
        assert_eq!((same.identical_share, same.kendall_tau_distance, same.mean_displacement), (1.0, 0.0, 0.0));
        let reversed = compare(&[1, 2, 3], &[3, 2, 1]).unwrap();
        assert_eq!(reversed.kendall_tau_distance, 1.0);
        assert!((reversed.mean_displacement - 4.0 / 3.0).abs() < 1e-12);
        let one = compare(&[5, 6, 7, 8], &[6, 5, 9, 7, 8]).unwrap();
        assert!((one.kendall_tau_distance - 1.0 / 6.0).abs() < 1e-12);
        assert_eq!(one.identical_share, 0.5);
        assert_eq!(compare(&[1], &[2]), None);
    }
}
