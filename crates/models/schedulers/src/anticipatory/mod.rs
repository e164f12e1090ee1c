//! `anticipatory`: keeps a disk idle for a moment when the process that was served last is likely to read nearby soon.
//!
//! A process that reads synchronously has nothing queued just after a read: a scheduler that never waits goes to another process and
//! seeks there and back (*deceptive idleness*). Before a request of another process, this one compares the time to position the arm
//! for it with the expected time for the last process's next read, and waits if that saves more than the process's median think time still takes; at most for its
//! 95th percentile.
//!
//! Below that are the rules of Linux 2.6's `as`: reads and writes in batches limited by time, each in ascending sector order from the arm on,
//! a deadline for each request, and anticipation for reads only.
//!
//! Source: Iyer, Druschel, *Anticipatory scheduling: a disk scheduling framework to overcome deceptive idleness* (SOSP 2001); Linux 2.6's
//! documentation of `as`.

mod process;

use dumbwaiter_block::{
    Context, Dir, Event, Io, Join, MergeIndex, Nanos, Next, Op, Place, Request, RequestId, Scheduler, Setup, Side,
    TaskId, Tunable, merge,
};

use crate::mechanisms::flows;
use crate::mechanisms::list::{Links, List};
use crate::mechanisms::sorted::Sorted;
use crate::settings::{has_settings, settings, tunables, with_defaults};
use process::{Distances, Process};

/// When it is asked again while the device is full.
const FULL_DEVICE_RECHECK: Nanos = Nanos::from_ms(10);
/// Parts in which the chance that a process reads again is counted, and how fast it follows.
const CERTAIN: u32 = 256;
const CHANCE_SHIFT: u32 = 3;

settings! {
    const SETTINGS of Anticipatory;
    read_expire: "ms", 0, 60_000, 125, "age at which a read goes first" => (expire_ms[Dir::Read as usize]);
    write_expire: "ms", 0, 60_000, 250, "age at which a write goes first" => (expire_ms[Dir::Write as usize]);
    read_batch_expire: "ms", 0, 60_000, 500, "longest batch of reads while writes wait" => (batch_ms[Dir::Read as usize]);
    write_batch_expire: "ms", 0, 60_000, 125, "longest batch of writes while reads wait" => (batch_ms[Dir::Write as usize]);
    antic_expire: "ms", 0, 60_000, 6, "longest wait for the next read of a process; 0: none" => (wait_ms);
    depth: "requests", 1, 1024, 1, "requests in the device; anticipation is for a device that is otherwise idle" => (depth);
}

/// Settings: the names, units and defaults of Linux 2.6's `as`, and the depth.
pub const TUNABLES: &[Tunable] = &tunables(&SETTINGS);

/// The requests of one direction.
#[derive(Clone, Debug, Default)]
struct Queue {
    sorted: Sorted,
    fifo: List,
}

/// See the module documentation.
#[derive(Clone)]
pub struct Anticipatory {
    queues: [Queue; 2],
    head: List,
    links: Links,
    /// By request: it is in `head`.
    at_head: Vec<bool>,
    queued: usize,
    in_device: u32,
    processes: Vec<Process>,
    distances: Distances,
    /// Direction of the batch, and when it began; `None`: with the next request.
    batch: Dir,
    batch_began: Option<Nanos>,
    /// The process whose read was served last, while it has nothing outstanding.
    last: Option<TaskId>,
    /// Chance that a process without history reads again in time, in parts of [`CERTAIN`].
    chance: u32,
    /// The sector behind the last request sent, the distance to that one, and when the device became free for it.
    position: u64,
    distance: u64,
    began: Nanos,
    expire_ms: [u64; 2],
    batch_ms: [u64; 2],
    wait_ms: u64,
    depth: u32,
    waits: u64,
    rewarded: u64,
    waiting: bool,
}

impl Anticipatory {
    /// An empty scheduler.
    pub fn new(_setup: Setup) -> Anticipatory {
        let made = Anticipatory {
            queues: Default::default(),
            head: List::default(),
            links: Links::default(),
            at_head: Vec::new(),
            queued: 0,
            in_device: 0,
            processes: Vec::new(),
            distances: Distances::default(),
            batch: Dir::Read,
            batch_began: None,
            last: None,
            chance: CERTAIN,
            position: 0,
            distance: 0,
            began: Nanos::ZERO,
            expire_ms: [0; 2],
            batch_ms: [0; 2],
            wait_ms: 0,
            depth: 0,
            waits: 0,
            rewarded: 0,
            waiting: false,
        };
        with_defaults(&SETTINGS, made)
    }

    fn process(&mut self, task: TaskId) -> &mut Process {
        flows::entry(&mut self.processes, task.0 as usize)
    }

    /// Is the oldest request of this direction too old?
    fn overdue(&self, dir: Dir, ctx: &Context<'_>) -> Option<RequestId> {
        let oldest = self.queues[dir as usize].fifo.front()?;
        let age = ctx.now.since(ctx.requests[oldest].insert);
        (age >= Nanos::from_ms(self.expire_ms[dir as usize])).then_some(oldest)
    }

    /// The direction to serve: another one when nothing of the batch is queued, or the batch's time is over; and whether it is.
    fn direction(&self, now: Nanos) -> Option<(Dir, bool)> {
        let other = if self.batch == Dir::Read { Dir::Write } else { Dir::Read };
        let queued = |dir: Dir| !self.queues[dir as usize].fifo.is_empty();
        let length = Nanos::from_ms(self.batch_ms[self.batch as usize]);
        let over = queued(other) && self.batch_began.is_some_and(|began| now.since(began) >= length);
        match (queued(self.batch), queued(other)) {
            (true, _) if !over => Some((self.batch, false)),
            (_, true) => Some((other, over)),
            (_, false) => None,
        }
    }

    /// Until when to wait for the last process instead of sending this request.
    fn wait_for_last(&self, candidate: &Request, ctx: &Context<'_>) -> Option<Nanos> {
        let task = self.last.filter(|task| *task != candidate.io.task || candidate.io.op != Op::Read)?;
        let process = self.processes.get(task.0 as usize).filter(|p| p.outstanding == 0)?;
        let longest = Nanos::from_ms(self.wait_ms);
        let until = process.completed + process.think_time(95).min(longest);
        if until <= ctx.now {
            return None;
        }
        if !process.is_known() {
            return (self.chance >= CERTAIN / 2).then_some(until);
        }
        let saved = self.distances.cost_ns(candidate.sector.abs_diff(self.position));
        let benefit = saved.saturating_sub(process.positioning_ns());
        let elapsed = ctx.now.since(process.completed);
        let cost = process.think_time(50).since(elapsed);
        (benefit > cost.0).then_some(until)
    }

    /// The anticipated process did not read in time.
    fn give_up_waiting(&mut self) {
        if std::mem::take(&mut self.waiting)
            && let Some(task) = self.last.take()
            && !self.process(task).is_known()
        {
            self.chance -= self.chance >> CHANCE_SHIFT;
        }
    }

    fn leave(&mut self, id: RequestId, dir: Dir) {
        let queue = &mut self.queues[dir as usize];
        queue.fifo.remove(&mut self.links, id);
        queue.sorted.remove(id);
        self.queued -= 1;
    }

    fn send(&mut self, id: RequestId, ctx: &Context<'_>) -> Next {
        let request = &ctx.requests[id];
        self.in_device += 1;
        self.distance = request.sector.abs_diff(self.position);
        self.began = ctx.now;
        self.position = request.end();
        self.batch_began.get_or_insert(ctx.now);
        Next::Dispatch(id)
    }
}

impl Scheduler for Anticipatory {
    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        let request = &ctx.requests[id];
        let (dir, sector) = (request.io.op.dir(), request.sector);
        self.queued += 1;
        *flows::entry(&mut self.at_head, id.index()) = place == Place::Head;
        if place == Place::Head {
            return self.head.push_front(&mut self.links, id);
        }
        let queue = &mut self.queues[dir as usize];
        queue.fifo.push_back(&mut self.links, id);
        queue.sorted.insert(id, sector);
        if request.io.op != Op::Read {
            return;
        }
        let task = request.io.task;
        let process = *self.process(task);
        if process.outstanding == 0 && process.completed > Nanos::ZERO {
            let positioning = self.distances.cost_ns(sector.abs_diff(process.end));
            let known = process.is_known();
            let state = self.process(task);
            state.thought(ctx.now.since(process.completed));
            state.positioned(positioning);
            if self.last == Some(task) {
                self.rewarded += u64::from(std::mem::take(&mut self.waiting));
            }
            if !known {
                self.chance += (CERTAIN - self.chance) >> CHANCE_SHIFT;
            }
        }
        self.process(task).outstanding += 1;
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        self.queued > 0
    }

    fn next(&mut self, _hw_queue: usize, ctx: &Context<'_>) -> Next {
        if self.in_device >= self.depth {
            return Next::WaitUntil(ctx.now + FULL_DEVICE_RECHECK);
        }
        if let Some(id) = self.head.pop_front(&mut self.links) {
            self.queued -= 1;
            return self.send(id, ctx);
        }
        let Some((dir, over)) = self.direction(ctx.now) else { return Next::Empty };
        let overdue = self.overdue(dir, ctx);
        let sorted = &self.queues[dir as usize].sorted;
        let nearest = sorted.first_from(self.position).or_else(|| sorted.first());
        let Some(id) = overdue.or(nearest) else { return Next::Empty };
        if overdue.is_none()
            && !over
            && self.in_device == 0
            && let Some(until) = self.wait_for_last(&ctx.requests[id], ctx)
        {
            self.waits += u64::from(!std::mem::replace(&mut self.waiting, true));
            return Next::WaitUntil(until);
        }
        self.give_up_waiting();
        self.last = None;
        self.leave(id, dir);
        if dir != self.batch {
            (self.batch, self.batch_began) = (dir, None);
        }
        self.send(id, ctx)
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        let request = &ctx.requests[id];
        let alone = self.in_device == 1;
        self.in_device = self.in_device.saturating_sub(1);
        if alone {
            self.distances.learn(self.distance, ctx.now.since(self.began.max(request.issue)).0);
        }
        if request.io.op == Op::Read {
            let (task, end) = (request.io.task, request.end());
            let process = self.process(task);
            process.outstanding = process.outstanding.saturating_sub(1);
            (process.completed, process.end) = (ctx.now, end);
            (self.last, self.waiting) = (Some(task), false);
        }
        self.queued > 0
    }

    fn requeued(&mut self, _id: RequestId, _ctx: &Context<'_>) {
        self.in_device = self.in_device.saturating_sub(1);
    }

    fn merge(&mut self, io: &Io, index: &MergeIndex, ctx: &Context<'_>) -> Option<Join> {
        index.lookup(io, ctx).or_else(|| {
            let into = self.queues[io.op.dir() as usize].sorted.at(io.sector + u64::from(io.sectors))?;
            merge::compatible(&ctx.requests[into], io).then_some(Join { into, side: Side::Front })
        })
    }

    fn merged(&mut self, join: Join, ctx: &Context<'_>) {
        let request = &ctx.requests[join.into];
        let sorted = &mut self.queues[request.io.op.dir() as usize].sorted;
        if join.side == Side::Front && sorted.contains(join.into) {
            sorted.remove(join.into);
            sorted.insert(join.into, request.sector);
        }
    }

    fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        let io = &ctx.requests[absorbed].io;
        if self.at_head[absorbed.index()] {
            self.head.remove(&mut self.links, absorbed);
            self.queued -= 1;
            return;
        }
        self.leave(absorbed, io.op.dir());
        if io.op == Op::Read {
            let process = self.process(io.task);
            process.outstanding = process.outstanding.saturating_sub(1);
        }
    }

    fn former(&self, id: RequestId) -> Option<RequestId> {
        let queue = self.queues.iter().find(|queue| queue.sorted.contains(id))?;
        queue.sorted.previous(id)
    }

    fn latter(&self, id: RequestId) -> Option<RequestId> {
        let queue = self.queues.iter().find(|queue| queue.sorted.contains(id))?;
        queue.sorted.next(id)
    }

    fn event(&mut self, event: Event, _ctx: &Context<'_>) {
        if let Event::TaskExited(task) = event {
            self.last = self.last.filter(|last| *last != task);
            *self.process(task) = Process::default();
        }
    }

    has_settings!(SETTINGS, TUNABLES);

    fn counters(&self, count: &mut dyn FnMut(&'static str, u64)) {
        count("anticipations", self.waits);
        count("anticipations_rewarded", self.rewarded);
    }

    fn describe(&self, _ctx: &Context<'_>) -> String {
        format!(
            "batch of {:?}, {} queued, {} in device, waits for {:?}, {} of {} waits rewarded\n",
            self.batch,
            self.queued,
            self.in_device,
            self.last.filter(|_| self.waiting),
            self.rewarded,
            self.waits
        )
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
