//! Tags of requests, and the tasks that sleep for one.

use crate::layer::BlockLayer;
use crate::layer::waiting::{TagWaitQueues, wake_batch};
use crate::request_tags::RequestTags;
use crate::{Op, RequestId};

impl BlockLayer {
    /// Must it wait behind others although there may be a tag? Only in the single-queue layer, which keeps its slots for those
    /// that wait (Linux up to 4.20: a full queue admits only tasks that were woken).
    pub(super) fn lets_others_first(&mut self, id: RequestId) -> bool {
        if !self.traits.single_queue {
            return false;
        }
        let pool = self.pool_of(id);
        self.add_pools(pool);
        self.waiting[pool].any() || !self.woken.is_empty()
    }

    /// The task of a request sleeps until a tag is freed.
    pub(super) fn wait_for_tag(&mut self, id: RequestId) {
        let pool = self.pool_of(id);
        let queue = self.waiting[pool].next_queue();
        self.sleep_in(pool, queue, id);
    }

    /// A request waits for a tag in a queue of a pool.
    pub(super) fn sleep_in(&mut self, pool: usize, queue: usize, id: RequestId) {
        self.workers_asleep += usize::from(self.corridor.wait(id).by_worker);
        self.waiting[pool].push(id, queue);
    }

    /// The task of a request is woken, or the worker that has it.
    pub(super) fn wake(&mut self, id: RequestId) {
        self.workers_asleep += usize::from(self.corridor.wait(id).by_worker);
        self.woken.push_back(id);
    }

    /// The wait queue of a task that was woken, should it find no tag. Linux's takes it before it tries, so each sleep takes
    /// up two queues: where tasks sleep again and again they share every second queue, and those that have one for themselves
    /// get more tags.
    pub(super) fn queue_after_sleep(&mut self, id: RequestId) -> Option<usize> {
        let pool = self.pool_of(id);
        let takes = self.config.tasks_sleep && !self.traits.single_queue;
        takes.then(|| self.waiting[pool].next_queue())
    }

    /// The scheduler's limit for this request. It is asked once, when the request first needs a tag: what its task held then
    /// keeps limiting it while it sleeps.
    fn limit_of(&mut self, id: RequestId) -> u32 {
        let held = &mut self.held[id.index()];
        if held.limit == 0 {
            let io = &self.requests[id].io;
            let nr_requests = self.config.setup.nr_requests;
            let limit = if io.op == Op::Flush { u32::MAX } else { self.scheduler.limit(io, nr_requests).max(1) };
            held.limit = if limit < nr_requests { limit } else { u32::MAX };
        }
        held.limit
    }

    /// A scheduler tag, or under `none` a driver tag.
    pub(super) fn take_tag(&mut self, id: RequestId) -> bool {
        if self.traits.direct {
            let driver = self.driver_of(self.hw_of(id));
            self.held[id.index()].driver_tag = self.drivers[driver].take();
            return self.held[id.index()].driver_tag;
        }
        let limit = self.limit_of(id);
        let pool = self.pool_of(id);
        self.add_pools(pool);
        match self.tags[pool].take(limit) {
            Some(tag) => {
                let held = &mut self.held[id.index()];
                (held.tag, held.pool) = (tag, pool as u32);
                true
            }
            None => false,
        }
    }

    /// The scheduler was exchanged while a request waited: it waits in its turn for a tag of the new kind, or tries again if there
    /// may be one.
    pub(super) fn wait_again(&mut self, id: RequestId) {
        let pool = self.pool_of(id);
        self.add_pools(pool);
        let free = if self.traits.direct { self.drivers[pool].has_free() } else { self.tags[pool].has_free() };
        if free {
            self.wake(id);
        } else {
            self.wait_for_tag(id);
        }
    }

    /// The pool of tags that a request needs one of: that of its hardware queue; or its tenant's; or the one of all.
    pub(super) fn pool_of(&self, id: RequestId) -> usize {
        if !self.traits.single_queue {
            return self.driver_of(self.hw_of(id));
        }
        let request = &self.requests[id];
        let tenant = request.io.tenant.0 as usize;
        if request.sync() && tenant < self.tenants.tenant_slots() { 1 + tenant } else { 0 }
    }

    /// Makes the pools up to `last`, each with its wait queues.
    pub(super) fn add_pools(&mut self, last: usize) {
        if last >= self.tags.len() {
            self.tags.resize(last + 1, RequestTags::new(self.config.setup.nr_requests));
            self.waiting.resize_with(last + 1, TagWaitQueues::default);
        }
    }

    /// Freed tags that wake as many sleeping tasks at once.
    pub(super) fn wake_batch_now(&self) -> u32 {
        let nr_requests = self.config.setup.nr_requests;
        if self.traits.single_queue {
            1
        } else if self.traits.direct {
            wake_batch(self.drivers[0].depth, u32::MAX)
        } else {
            let at_attach = nr_requests.min(2 * self.config.setup.queue_depth().clamp(1, 128));
            wake_batch(nr_requests, self.scheduler.smallest_limit(at_attach))
        }
    }

    /// A tag of a pool was freed. No task may sleep on while all tags are free: nothing would wake it.
    pub(super) fn note_freed(&mut self, pool: usize) {
        let Some(waiting) = self.waiting.get_mut(pool).filter(|waiting| waiting.any()) else { return };
        waiting.freed(self.wake_batch, &mut self.woken);
        let used = if self.traits.direct { self.drivers[pool].used } else { self.tags[pool].used() };
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
