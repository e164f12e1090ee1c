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
mod ask;
mod check;
mod complete;
mod controllers;
mod corridor;
mod effects;
mod ended;
mod enter;
mod exchanges;
mod fault;
mod hw_queues;
mod insert;
mod members;
mod merging;
mod notify;
mod parts;
mod population;
mod service;
mod slots;
mod submit;
mod switch;
mod tag_pools;
mod tags;
mod timers;
mod waiting;

pub use exchanges::Switches;
pub use fault::{Culprit, Fault, NO_PROGRESS_LIMIT};
pub use parts::Part;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::controller::{Controller, Stack};
use crate::flush::FlushMachine;
use crate::ledger::Ledger;
use crate::merge::MergeIndex;
use crate::request::Request;
use crate::scheduler::{Merging, Scheduler, ServiceOracle, Traits};
use crate::{Config, Context};
use crate::{Io, Nanos, RequestId, Requests, Tenants};
use corridor::Corridor;
use ended::Ended;
use exchanges::Exchanges;
use fault::Checks;
use hw_queues::HwQueues;
use population::Population;
use slots::Slots;
use tag_pools::TagPools;
use waiting::wake_batch;

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

/// The path of requests through plugs, merging, tags and a scheduler to a device, without I/O and clock of its own.
pub struct BlockLayer {
    config: Config,
    scheduler: Box<dyn Scheduler>,
    traits: Traits,
    oracle: Option<Arc<dyn ServiceOracle>>,
    requests: Requests,
    tenants: Tenants,
    population: Population,
    slots: Slots,
    index: MergeIndex,
    tags: TagPools,
    hw: HwQueues,
    flush: FlushMachine,
    corridor: Corridor,
    exchanges: Exchanges,
    ended: Ended,
    ledger: Ledger,
    /// I/Os of the slab that wait nowhere themselves: they are part of another request, or travel in pieces.
    carried: u64,
    /// The time of the completion that is being reported.
    completion: Nanos,
    checks: Checks,
}

/// Counts and lists of the layer itself, for debugging.
impl std::fmt::Debug for BlockLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockLayer")
            .field("ledger", &self.ledger)
            .field("hw", &self.hw)
            .field("tags", &self.tags.pools.iter().map(|pool| (pool.used(), pool.depth())).collect::<Vec<_>>())
            .field("woken", &self.tags.woken.len())
            .field("flush", &self.flush)
            .field("switches", &self.exchanges.switches)
            .field("held_back", &self.exchanges.freeze.as_ref().map(|freeze| freeze.held_back.len()))
            .field("fault", &self.checks.fault)
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
        let sets = if setup.shared_tags { 1 } else { usize::from(setup.hw_queues) };
        let traits = scheduler.traits();
        let mut tags = TagPools::new(sets, setup.queue_depth());
        tags.renew(traits.single_queue, setup.nr_requests);
        let mut layer = BlockLayer {
            traits,
            scheduler,
            oracle: None,
            requests: Requests::default(),
            population: Population::new(&tenants),
            tenants,
            slots: Slots::default(),
            index: MergeIndex::new(config.limits),
            tags,
            hw: HwQueues::new(setup.hw_queues, setup.queue_map()),
            flush: FlushMachine::default(),
            corridor: Corridor::default(),
            exchanges: Exchanges::default(),
            ended: Ended::default(),
            ledger: Ledger::default(),
            carried: 0,
            completion: Nanos::ZERO,
            checks: Checks::default(),
            config,
        };
        layer.tags.wake_batch = layer.wake_batch_now();
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

    /// The request behind an id, for the driver to read.
    pub fn request(&self, id: RequestId) -> &Request {
        &self.requests[id]
    }

    /// The hardware queue a request is sent to.
    pub fn hw_queue(&self, id: RequestId) -> u16 {
        self.hw_of(id) as u16
    }

    /// Requests that wait outside the device: for a tag, in the scheduler or on a dispatch list. What merged counts once.
    #[inline]
    pub fn queued(&self) -> u64 {
        self.requests.len() as u64 + self.exchanges.held_back() - self.carried - self.in_device()
    }

    /// Requests in the device.
    #[inline]
    pub fn in_device(&self) -> u64 {
        self.ledger.issued - self.ledger.finished - self.ledger.returned
    }

    fn uses_index(&self) -> bool {
        self.traits.merging == Merging::Index
    }

    #[inline]
    fn hw_of(&self, id: RequestId) -> usize {
        self.hw.of(self.requests[id].io.cpu)
    }

    /// Did the scheduler that is there now dispatch this request, or let it pass? Not if it is a flush, or if the scheduler was
    /// exchanged since.
    pub(super) fn known_to_scheduler(&self, id: RequestId) -> bool {
        self.flush.request != Some(id) && self.slots[id].owner == self.exchanges.switches.count as u32
    }

    /// Freed tags that wake as many sleeping tasks at once.
    pub(super) fn wake_batch_now(&self) -> u32 {
        let nr_requests = self.config.setup.nr_requests;
        if self.traits.single_queue {
            1
        } else if self.traits.direct {
            wake_batch(self.tags.drivers[0].depth, u32::MAX)
        } else {
            let at_attach = nr_requests.min(2 * self.config.setup.queue_depth().clamp(1, 128));
            wake_batch(nr_requests, self.scheduler.smallest_limit(at_attach))
        }
    }

    fn append(&mut self, now: Nanos, controller: Box<dyn Controller>, of_stack: bool) {
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.corridor.append(controller, of_stack, (&self.config, &self.traits), &self.population, &ctx);
    }

    pub(super) fn allocate(&mut self, submitted: Nanos, io: Io) -> RequestId {
        let mut request = Request::new(io, submitted);
        request.segments = self.config.limits.segments(&io);
        let id = self.enter(request);
        self.slots.begin_parts(id);
        if self.corridor.by_worker {
            self.corridor.wait_mut(id).by_worker = true;
        }
        id
    }

    /// Gives a request its slot.
    #[inline(always)]
    pub(super) fn enter(&mut self, request: Request) -> RequestId {
        let id = self.requests.insert(request);
        self.slots.enter(id);
        self.corridor.forget(id);
        id
    }
}
