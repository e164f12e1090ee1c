//! The block layer: the path of a request from submission to completion.
//!
//! A driver (simulator, io_uring engine, disk server) reports each event with its time, and sends what
//! [`BlockLayer::poll`] returns to the device:
//!
//! ```text
//! submit ──► controllers ──► merge? ──► controllers ──► tag ──► plug ──► insert ──► scheduler ──► dispatch list ──► poll: to the device
//!            park · refuse              hold             │                                                              │
//!                                                        └──◄── tag freed ◄── complete ◄────────────────────────────────┘
//! ```

mod abandon;
mod check;
mod complete;
mod controllers;
mod corridor;
mod exchange;
mod fault;
mod insert;
mod members;
mod merging;
mod parts;
mod passage;
mod population;
mod replace;
mod service;
mod submit;
mod tag_pools;
mod waiting;

pub use fault::{Culprit, Fault, NO_PROGRESS_LIMIT};
pub use parts::Part;
pub use replace::Switches;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::controller::Stack;
use crate::finished::Finished;
use crate::flush::FlushMachine;
use crate::ledger::Ledger;
use crate::merge::MergeIndex;
use crate::request_tags::RequestTags;
use crate::scheduler::{Event, Merging, QueueMap, Scheduler, ServiceOracle, Setup, Traits};
use crate::{Config, Context};
use crate::{Nanos, RequestId, Requests, Tenants};
use corridor::Corridor;
use fault::FailedAttempts;
use population::Population;
use replace::Freeze;
use waiting::TagWaitQueues;

/// Time after which a scheduler that sent nothing is asked again (Linux: BLK_MQ_RESOURCE_DELAY).
const RERUN_DELAY: Nanos = Nanos::from_ms(3);

/// The outcome of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// The I/O has its request, or joined one.
    Entered,
    /// There is no tag, or none for this kind of I/O: the task sleeps.
    Asleep,
    /// It would have to sleep and [may not](crate::Flags::NOWAIT). It was not submitted.
    WouldBlock,
}

/// A hardware queue as the block layer sees it.
#[derive(Clone, Debug, Default)]
struct HwQueue {
    /// Requests ready to go that the device has not accepted; they precede everything in the scheduler.
    ready: VecDeque<RequestId>,
    /// Requests that go straight to the device (scheduler `none`).
    direct: VecDeque<RequestId>,
    /// How often the device refused lately: an average, eight times the share (Linux: dispatch_busy).
    busy: u32,
    /// Its value before the last request was dispatched, which may come back refused.
    busy_before: u32,
    /// A completion must run this queue again.
    restart: bool,
    /// It is in `runnable`.
    scheduled: bool,
    /// It is being served.
    running: bool,
    /// It was busy when its run began, or has sent what the device refused before.
    in_turn: bool,
    /// When an unwilling scheduler is asked again.
    rerun_at: Option<Nanos>,
}

impl HwQueue {
    fn note_busy(&mut self, busy: bool) {
        if busy || self.busy > 0 {
            self.busy = (7 * self.busy + if busy { 16 } else { 0 }) / 8;
        }
    }
}

/// A set of driver tags: that of a hardware queue, or the one of all.
#[derive(Clone, Debug, Default)]
struct DriverTags {
    used: u32,
    depth: u32,
    /// Requests that a scheduler with another kind of tags has left behind: each takes a driver tag before new ones do.
    awaiting: u32,
}

impl DriverTags {
    fn has_free(&self) -> bool {
        self.used + self.awaiting < self.depth
    }

    fn take(&mut self) -> bool {
        let free = self.has_free();
        self.used += u32::from(free);
        free
    }
}

const NO_TAG: u32 = u32::MAX;

/// The layer's own record of each request.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Scheduler tag, and the pool it is of.
    tag: u32,
    pool: u32,
    /// The scheduler's limit on its tag; 0 before that was asked.
    limit: u32,
    /// Holds a driver tag of its hardware queue.
    driver_tag: bool,
    /// It has none, and its hardware queue keeps the next free one for it.
    awaits_driver_tag: bool,
    /// It was inserted at the scheduler's head.
    at_head: bool,
    /// The scheduler that had it, by the number of exchanges before.
    owner: u32,
    /// Counts insertions.
    arrival: u64,
    /// Its parts in sector order: the first, the last, and behind this one the next; see `parts.rs`.
    first: RequestId,
    last: RequestId,
    next: RequestId,
}

impl Held {
    const NONE: Held = Held {
        tag: NO_TAG,
        pool: 0,
        limit: 0,
        driver_tag: false,
        awaits_driver_tag: false,
        at_head: false,
        owner: 0,
        arrival: 0,
        first: RequestId::NIL,
        last: RequestId::NIL,
        next: RequestId::NIL,
    };
}

/// The path of requests through plugs, merging, tags and a scheduler to a device, without I/O and clock of its own.
pub struct BlockLayer {
    config: Config,
    scheduler: Box<dyn Scheduler>,
    traits: Traits,
    requests: Requests,
    tenants: Tenants,
    population: Population,
    held: Vec<Held>,
    index: MergeIndex,
    /// Scheduler tags: a pool for each hardware queue, or one if they share their tags. The single-queue layer has one for asynchronous requests, and one for each
    /// tenant's others, so that a tenant whose turn is far off does not keep the slots of one whose turn it is (Linux
    /// 3.6 on: queue-sysfs, `nr_requests`; write-back is the root's).
    tags: Vec<RequestTags>,
    /// Requests whose tasks sleep for a tag, by pool.
    waiting: Vec<TagWaitQueues>,
    /// Requests whose tasks were woken and have not run yet.
    woken: VecDeque<RequestId>,
    wake_batch: u32,
    /// Tokens of I/Os that a freeze held back and that entered since.
    entered: VecDeque<u64>,
    arrivals: u64,
    freeze: Option<Freeze>,
    switches: Switches,
    /// When a request was last sent.
    last_issue: Nanos,
    hw: Vec<HwQueue>,
    /// The hardware queue of each CPU.
    queue_map: QueueMap,
    /// Driver tags, of each hardware queue or of all.
    drivers: Vec<DriverTags>,
    /// A request could not be sent because the device had no place: the next completion runs all hardware queues.
    starved: bool,
    /// The hardware queue that was the first when all were run.
    first: usize,
    runnable: VecDeque<u16>,
    flush: FlushMachine,
    ledger: Ledger,
    /// Flushes with nothing to flush: they complete with the next call of `complete_idle`.
    done_at_once: Vec<RequestId>,
    /// Refused I/Os, which complete with the same call.
    refused: Vec<RequestId>,
    /// Requests that left the scheduler because their task is gone.
    withdrawn: Vec<RequestId>,
    /// I/Os of tasks that are gone, done without the device.
    dropped: Vec<Finished>,
    /// Some task has been gone: the requests of such tasks are looked for.
    any_gone: bool,
    corridor: Corridor,
    /// A worker, and no task, submits the I/Os that enter now.
    by_worker: bool,
    /// Requests without a task that wait for a tag, or that were woken.
    workers_asleep: usize,
    oracle: Option<Arc<dyn ServiceOracle>>,
    /// The time of the completion that is being reported.
    completion: Nanos,
    rerun_at: Option<Nanos>,
    /// I/Os of the slab that wait nowhere themselves: they are part of another request, or travel in pieces.
    carried: u64,
    failed_attempts: FailedAttempts,
    fault: Option<Fault>,
}

/// Counts and lists of the layer itself, for debugging.
impl std::fmt::Debug for BlockLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockLayer")
            .field("ledger", &self.ledger)
            .field("hw", &self.hw)
            .field("tags", &self.tags.iter().map(|pool| (pool.used(), pool.depth())).collect::<Vec<_>>())
            .field("woken", &self.woken.len())
            .field("flush", &self.flush)
            .field("switches", &self.switches)
            .field("held_back", &self.freeze.as_ref().map(|_| self.held_back()))
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

impl BlockLayer {
    /// A block layer over a scheduler, which was made with `config.setup`, and the controllers that come with it.
    pub fn new(config: Config, stack: impl Into<Stack>, tenants: Tenants) -> BlockLayer {
        let Stack { scheduler, controllers } = stack.into();
        let mut config = config;
        config.setup = config.setup.usable();
        let setup = &config.setup;
        let queues = setup.hw_queues;
        let driver = DriverTags { depth: setup.queue_depth(), ..DriverTags::default() };
        let sets = if setup.shared_tags { 1 } else { usize::from(queues) };
        let traits = scheduler.traits();
        let mut layer = BlockLayer {
            traits,
            tags: Vec::new(),
            scheduler,
            requests: Requests::default(),
            population: Population::new(&tenants),
            tenants,
            held: Vec::new(),
            index: MergeIndex::new(config.limits),
            waiting: Vec::new(),
            woken: VecDeque::new(),
            wake_batch: 1,
            entered: VecDeque::new(),
            arrivals: 0,
            freeze: None,
            switches: Switches::default(),
            last_issue: Nanos::ZERO,
            hw: vec![HwQueue::default(); usize::from(queues)],
            queue_map: setup.queue_map(),
            drivers: vec![driver; sets],
            starved: false,
            first: 0,
            runnable: VecDeque::new(),
            flush: FlushMachine::default(),
            ledger: Ledger::default(),
            done_at_once: Vec::new(),
            refused: Vec::new(),
            withdrawn: Vec::new(),
            dropped: Vec::new(),
            any_gone: false,
            corridor: Corridor::default(),
            by_worker: false,
            workers_asleep: 0,
            oracle: None,
            completion: Nanos::ZERO,
            rerun_at: None,
            carried: 0,
            failed_attempts: FailedAttempts::default(),
            fault: None,
            config,
        };
        layer.tags = vec![RequestTags::new(layer.config.setup.nr_requests); layer.tag_pools()];
        layer.waiting = vec![TagWaitQueues::default(); layer.tag_pools()];
        layer.wake_batch = layer.wake_batch_now();
        for controller in controllers {
            layer.append(Nanos::ZERO, controller, true);
        }
        layer
    }

    /// Counts of requests at each point of the path.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Every request on its way.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The scheduler.
    pub fn scheduler(&self) -> &dyn Scheduler {
        &*self.scheduler
    }

    /// Gives the scheduler, and each that takes over from it, exact service times of the device.
    pub fn attach_oracle(&mut self, oracle: Arc<dyn ServiceOracle>) {
        self.scheduler.attach_oracle(&oracle);
        self.oracle = Some(oracle);
    }

    /// Tasks and tenants.
    pub fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    /// The set-up as it is now.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes how many requests the scheduler may hold (at least 1). Those over a smaller number stay.
    pub fn set_nr_requests(&mut self, now: Nanos, nr_requests: u32) {
        self.config.setup.nr_requests = nr_requests.max(1);
        for pool in &mut self.tags {
            pool.resize(nr_requests.max(1));
        }
        self.depth_changed(now);
    }

    /// Changes how many requests the device may hold (at least 1 in each hardware queue). Those over a smaller number stay. Where
    /// the device takes fewer than the driver has tags for, the tags stay as they are.
    pub fn set_device_depth(&mut self, now: Nanos, device_depth: u32) {
        let setup = &mut self.config.setup;
        match &mut setup.lun_depth {
            Some(depth) => *depth = device_depth.clamp(1, setup.device_depth),
            None => setup.device_depth = device_depth.max(1),
        }
        let depth = setup.queue_depth();
        for driver in &mut self.drivers {
            driver.depth = depth;
        }
        self.run_starved();
        self.depth_changed(now);
    }

    fn depth_changed(&mut self, now: Nanos) {
        let Setup { nr_requests, .. } = self.config.setup;
        let device_depth = self.config.setup.commands();
        self.event(now, Event::DepthChanged { nr_requests, device_depth });
        self.wake_batch = self.wake_batch_now();
        self.wake_all();
        if !self.config.tasks_sleep {
            self.retry_woken(now);
        }
    }

    /// Passes an event on to the controllers and the scheduler, and runs its queues.
    pub fn event(&mut self, now: Nanos, event: Event) {
        self.controllers_see_event(now, event);
        self.schedule_event(now, event);
        self.settle(now);
    }

    /// Passes an event on to the scheduler and runs its queues.
    fn schedule_event(&mut self, now: Nanos, event: Event) {
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.scheduler.event(event, &ctx);
        self.run_all();
    }

    /// Requests that wait outside the device: for a tag, in the scheduler or on a dispatch list. What merged counts once.
    #[inline]
    pub fn queued(&self) -> u64 {
        self.requests.len() as u64 + self.held_back() - self.carried - self.in_device()
    }

    /// Requests in the device.
    #[inline]
    pub fn in_device(&self) -> u64 {
        self.ledger.issued - self.ledger.finished - self.ledger.returned
    }

    /// When [`BlockLayer::timer`] wants to be called, if ever.
    #[inline]
    pub fn next_timer(&self) -> Option<Nanos> {
        let next = match (self.rerun_at, self.scheduler.timer()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if self.corridor.is_empty() { next } else { next.into_iter().chain(self.corridor.next_timer()).min() }
    }

    /// Time has come to `now`: fires what is due.
    pub fn timer(&mut self, now: Nanos) {
        if !self.corridor.is_empty() {
            self.wake_sleepers(now);
            self.tick_controllers(now);
        }
        if self.scheduler.timer().is_some_and(|t| t <= now) {
            self.schedule_event(now, Event::Timer);
        }
        self.settle(now);
        if self.rerun_at.is_some_and(|t| t <= now) {
            self.rerun_at = None;
            for hw in 0..self.hw.len() {
                match self.hw[hw].rerun_at {
                    Some(t) if t <= now => {
                        self.hw[hw].rerun_at = None;
                        self.run(hw);
                    }
                    Some(t) => self.rerun_at = Some(self.rerun_at.map_or(t, |r| r.min(t))),
                    None => {}
                }
            }
        }
    }

    /// Pools of tags that every set-up has; the single-queue layer adds those of tenants.
    fn tag_pools(&self) -> usize {
        if self.traits.single_queue { 1 } else { self.drivers.len() }
    }

    /// The set of driver tags of a hardware queue.
    #[inline]
    fn driver_of(&self, hw: usize) -> usize {
        if self.drivers.len() == 1 { 0 } else { hw }
    }

    fn uses_index(&self) -> bool {
        self.traits.merging == Merging::Index
    }

    fn hw_of(&self, id: RequestId) -> usize {
        if self.hw.len() == 1 { 0 } else { self.queue_map.of(self.requests[id].io.cpu) }
    }

    /// Marks a hardware queue to be served by [`BlockLayer::poll`].
    fn run(&mut self, hw: usize) {
        if !self.hw[hw].scheduled {
            self.hw[hw].scheduled = true;
            self.runnable.push_back(hw as u16);
        }
    }

    /// The device may have a place again: those that found none try.
    fn run_starved(&mut self) {
        if std::mem::take(&mut self.starved) {
            self.run_all();
        }
    }

    /// Marks all hardware queues, each time another one first.
    fn run_all(&mut self) {
        let queues = self.hw.len();
        self.first = if self.first + 1 < queues { self.first + 1 } else { 0 };
        for hw in (self.first..queues).chain(0..self.first) {
            self.run(hw);
        }
    }
}
