//! Tags: those of requests and those of the driver, and who sleeps for one.

use std::collections::VecDeque;

use crate::RequestId;
use crate::layer::waiting::TagWaitQueues;
use crate::request_tags::RequestTags;

/// A set of driver tags: that of a hardware queue, or the one of all.
#[derive(Clone, Debug, Default)]
pub(super) struct DriverTags {
    pub(super) used: u32,
    pub(super) depth: u32,
    /// Requests that a scheduler with another kind of tags has left behind: each takes a driver tag before new ones do.
    pub(super) awaiting: u32,
}

impl DriverTags {
    pub(super) fn has_free(&self) -> bool {
        self.used + self.awaiting < self.depth
    }

    pub(super) fn take(&mut self) -> bool {
        let free = self.has_free();
        self.used += u32::from(free);
        free
    }
}

/// All tags.
#[derive(Clone, Debug)]
pub(super) struct TagPools {
    /// Scheduler tags: a pool for each hardware queue, or one if they share their tags. The single-queue layer has one for asynchronous
    /// requests, and one for each tenant's others, so that a tenant whose turn is far off does not keep the slots of one whose
    /// turn it is (Linux 3.6 on: queue-sysfs, `nr_requests`; write-back is the root's).
    pub(super) pools: Vec<RequestTags>,
    /// Requests whose tasks sleep for a tag, by pool.
    pub(super) waiting: Vec<TagWaitQueues>,
    /// Driver tags, of each hardware queue or of all.
    pub(super) drivers: Vec<DriverTags>,
    /// Requests whose tasks were woken and have not run yet.
    pub(super) woken: VecDeque<RequestId>,
    /// Freed tags that wake as many sleeping tasks at once.
    pub(super) wake_batch: u32,
    /// Requests without a task that wait for a tag, or that were woken.
    pub(super) workers_asleep: usize,
}

impl TagPools {
    /// `sets` sets of driver tags, and no scheduler tags yet.
    pub(super) fn new(sets: usize, depth: u32) -> TagPools {
        TagPools {
            pools: Vec::new(),
            waiting: Vec::new(),
            drivers: vec![DriverTags { depth, ..DriverTags::default() }; sets],
            woken: VecDeque::new(),
            wake_batch: 1,
            workers_asleep: 0,
        }
    }

    /// Makes the pools that every set-up has, all free; the single-queue layer adds those of tenants.
    pub(super) fn renew(&mut self, single_queue: bool, nr_requests: u32) {
        let count = if single_queue { 1 } else { self.drivers.len() };
        self.pools = vec![RequestTags::new(nr_requests); count];
        self.waiting = vec![TagWaitQueues::default(); count];
    }

    /// Makes the pools up to `last`, each with its wait queues.
    pub(super) fn add_pools(&mut self, last: usize, nr_requests: u32) {
        if last >= self.pools.len() {
            self.pools.resize(last + 1, RequestTags::new(nr_requests));
            self.waiting.resize_with(last + 1, TagWaitQueues::default);
        }
    }

    /// The set of driver tags of a hardware queue.
    #[inline]
    pub(super) fn driver_of(&self, hw: usize) -> usize {
        if self.drivers.len() == 1 { 0 } else { hw }
    }

    /// A request waits for a tag in a queue of a pool.
    pub(super) fn sleep(&mut self, pool: usize, queue: usize, id: RequestId, by_worker: bool) {
        self.workers_asleep += usize::from(by_worker);
        self.waiting[pool].push(id, queue);
    }

    /// The task of a request is woken, or the worker that has it.
    pub(super) fn wake(&mut self, id: RequestId, by_worker: bool) {
        self.workers_asleep += usize::from(by_worker);
        self.woken.push_back(id);
    }

    /// A tag of a pool was freed; `direct`: a driver tag. No task may sleep on while all tags are free: nothing would wake it.
    pub(super) fn note_freed(&mut self, pool: usize, direct: bool) {
        let Some(waiting) = self.waiting.get_mut(pool).filter(|waiting| waiting.any()) else { return };
        waiting.freed(self.wake_batch, &mut self.woken);
        let used = if direct { self.drivers[pool].used } else { self.pools[pool].used() };
        if used == 0 && self.woken.is_empty() {
            waiting.wake_all(&mut self.woken);
        }
    }

    /// More tags may be free than one completion gives back.
    pub(super) fn wake_all(&mut self) {
        for waiting in &mut self.waiting {
            waiting.wake_all(&mut self.woken);
        }
    }
}
