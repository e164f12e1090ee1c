//! Tags of requests and of the driver: taken, waited for and given back.

use crate::layer::BlockLayer;
use crate::layer::slots::NO_TAG;
use crate::{Op, RequestId};

/// Tags of requests.
impl BlockLayer {
    /// Must it wait behind others although there may be a tag? Only in the single-queue layer, which keeps its slots for those
    /// that wait (Linux up to 4.20: a full queue admits only tasks that were woken).
    pub(super) fn lets_others_first(&mut self, id: RequestId) -> bool {
        if !self.traits.single_queue {
            return false;
        }
        let pool = self.pool_of(id);
        self.tags.add_pools(pool, self.config.setup.nr_requests);
        self.tags.waiting[pool].any() || !self.tags.woken.is_empty()
    }

    /// The task of a request sleeps until a tag is freed.
    pub(super) fn wait_for_tag(&mut self, id: RequestId) {
        let pool = self.pool_of(id);
        let queue = self.tags.waiting[pool].next_queue();
        self.sleep_in(pool, queue, id);
    }

    /// A request waits for a tag in a queue of a pool.
    pub(super) fn sleep_in(&mut self, pool: usize, queue: usize, id: RequestId) {
        self.tags.sleep(pool, queue, id, self.corridor.wait(id).by_worker);
    }

    /// The task of a request is woken, or the worker that has it.
    pub(super) fn wake(&mut self, id: RequestId) {
        self.tags.wake(id, self.corridor.wait(id).by_worker);
    }

    /// The wait queue of a task that was woken, should it find no tag. Linux's takes it before it tries, so each sleep takes
    /// up two queues: where tasks sleep again and again they share every second queue, and those that have one for themselves
    /// get more tags.
    pub(super) fn queue_after_sleep(&mut self, id: RequestId) -> Option<usize> {
        let pool = self.pool_of(id);
        let takes = self.config.tasks_sleep && !self.traits.single_queue;
        takes.then(|| self.tags.waiting[pool].next_queue())
    }

    /// The scheduler's limit for this request. It is asked once, when the request first needs a tag: what its task held then
    /// keeps limiting it while it sleeps.
    fn limit_of(&mut self, id: RequestId) -> u32 {
        let slot = &mut self.slots[id];
        if slot.limit == 0 {
            let io = &self.requests[id].io;
            let nr_requests = self.config.setup.nr_requests;
            let limit = if io.op == Op::Flush { u32::MAX } else { self.scheduler.limit(io, nr_requests).max(1) };
            slot.limit = if limit < nr_requests { limit } else { u32::MAX };
        }
        slot.limit
    }

    /// A scheduler tag, or under `none` a driver tag.
    pub(super) fn take_tag(&mut self, id: RequestId) -> bool {
        if self.traits.direct {
            let driver = self.tags.driver_of(self.hw_of(id));
            self.slots[id].driver_tag = self.tags.drivers[driver].take();
            return self.slots[id].driver_tag;
        }
        let limit = self.limit_of(id);
        let pool = self.pool_of(id);
        self.tags.add_pools(pool, self.config.setup.nr_requests);
        match self.tags.pools[pool].take(limit) {
            Some(tag) => {
                let slot = &mut self.slots[id];
                (slot.tag, slot.pool) = (tag, pool as u32);
                true
            }
            None => false,
        }
    }

    /// The scheduler was exchanged while a request waited: it waits in its turn for a tag of the new kind, or tries again if there
    /// may be one.
    pub(super) fn wait_again(&mut self, id: RequestId) {
        let pool = self.pool_of(id);
        self.tags.add_pools(pool, self.config.setup.nr_requests);
        let free =
            if self.traits.direct { self.tags.drivers[pool].has_free() } else { self.tags.pools[pool].has_free() };
        if free {
            self.wake(id);
        } else {
            self.wait_for_tag(id);
        }
    }

    /// The pool of tags that a request needs one of: that of its hardware queue; or its tenant's; or the one of all.
    pub(super) fn pool_of(&self, id: RequestId) -> usize {
        if !self.traits.single_queue {
            return self.tags.driver_of(self.hw_of(id));
        }
        let request = &self.requests[id];
        let tenant = request.io.tenant.0 as usize;
        if request.sync() && tenant < self.tenants.tenant_slots() { 1 + tenant } else { 0 }
    }
}

/// Tags of the driver, and the end of both.
impl BlockLayer {
    /// A driver tag for a request that is to be sent. Under `none` it took one on the way in, and a flush borrows that of a
    /// request that waits for it.
    #[inline(always)]
    pub(super) fn ensure_driver_tag(&mut self, hw: usize, id: RequestId) -> bool {
        self.slots[id].driver_tag || self.obtain_driver_tag(hw, id)
    }

    fn obtain_driver_tag(&mut self, hw: usize, id: RequestId) -> bool {
        let borrowed = |waiter: &RequestId| self.slots[*waiter].driver_tag && self.hw_of(*waiter) == hw;
        if self.traits.direct && self.flush.request == Some(id) && self.flush.running.iter().any(borrowed) {
            return true;
        }
        let driver = self.tags.driver_of(hw);
        let (slot, driver) = (&mut self.slots[id], &mut self.tags.drivers[driver]);
        if driver.used < driver.depth {
            driver.used += 1;
            driver.awaiting -= u32::from(std::mem::take(&mut slot.awaits_driver_tag));
            slot.driver_tag = true;
        }
        slot.driver_tag
    }

    /// A request that goes on is no longer in the device: it gives its driver tag up. Under `none` it keeps the tag, unless
    /// requests that it may have to wait for have none.
    pub(super) fn leave_device(&mut self, hw: usize, id: RequestId) {
        if !self.traits.direct {
            self.release_driver_tag(id);
            return;
        }
        let driver = self.tags.driver_of(hw);
        if self.tags.drivers[driver].awaiting > 0 && self.slots[id].driver_tag {
            self.release_driver_tag(id);
            if self.flush.request != Some(id) {
                self.slots[id].awaits_driver_tag = true;
                self.tags.drivers[driver].awaiting += 1;
            }
        }
    }

    /// Gives back the tags that it still has.
    pub(super) fn release(&mut self, id: RequestId) {
        self.release_driver_tag(id);
        if std::mem::take(&mut self.slots[id].awaits_driver_tag) {
            let driver = self.tags.driver_of(self.hw_of(id));
            self.tags.drivers[driver].awaiting -= 1;
            self.tags.note_freed(driver, self.traits.direct);
        }
        let tag = std::mem::replace(&mut self.slots[id].tag, NO_TAG);
        if tag != NO_TAG {
            let pool = self.slots[id].pool as usize;
            self.tags.pools[pool].put(tag);
            self.tags.note_freed(pool, self.traits.direct);
        }
    }

    pub(super) fn release_driver_tag(&mut self, id: RequestId) {
        if std::mem::take(&mut self.slots[id].driver_tag) {
            let driver = self.tags.driver_of(self.hw_of(id));
            self.tags.drivers[driver].used -= 1;
            if self.traits.direct {
                self.tags.note_freed(driver, self.traits.direct);
            }
        }
    }
}
