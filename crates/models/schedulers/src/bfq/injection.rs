//! Injection: while the device idles for a queue, a few requests of others are served, as many as do not measurably slow
//! it. A queue's waker is served while the device idles for that queue.

use dumbwaiter_block::RequestId;

use super::queue::{NONE, QueueId};
use super::{Bfq, Now};

/// Requests of this many sectors are not injected into a busy flash device.
const LARGE_SECTORS: u32 = 64;
const WAKER_NS: u64 = 4_000_000;

/// Queues examined to find one to inject, the most recently activated first.
const CANDIDATES: usize = 64;

impl Bfq {
    /// The first pending request of a process arrived.
    pub(super) fn sample_on_arrival(&mut self, q: QueueId, now: Now) {
        self.detect_waker(q, now);
        if now.tick >= self.queues[q].injection.lowered_at + self.time.spans.ms_1000 {
            self.reset_injection(q, now);
        }
        let injection = self.queues[q].injection;
        let idle = self.device.in_driver == 0;
        if self.slot.serves(q)
            && (idle || (injection.base > 0 && self.sampling.injected))
            && now.tick >= injection.lowered_at + self.time.spans.ms_10
        {
            self.sampling.since = now.at.0;
            self.sampling.awaited = true;
            if idle {
                self.sampling.injected = false;
            }
        }
    }

    pub(super) fn reset_injection(&mut self, q: QueueId, now: Now) {
        self.sampling.forget();
        let queue = &mut self.queues[q];
        queue.injection.base = 0;
        queue.injection.limit = u32::from(!queue.short_think);
        queue.injection.lowered_at = now.tick;
    }

    /// The queue in service sends a request.
    pub(super) fn sample_on_dispatch(&mut self, id: RequestId) {
        if std::mem::take(&mut self.sampling.awaited) {
            self.sampling.request = Some(id);
        }
    }

    /// A request completed; before it is counted out.
    pub(super) fn sample_on_completion(&mut self, q: QueueId, id: RequestId, now: Now) {
        if self.sampling.request != Some(id) {
            return;
        }
        let time = now.at.0.saturating_sub(self.sampling.since);
        let injection = &mut self.queues[q].injection;
        let old = injection.limit;
        if injection.base > 0 && self.sampling.injected {
            let threshold = injection.base * 3 / 2;
            if time >= threshold && old > 0 {
                injection.limit -= 1;
                injection.lowered_at = now.tick;
            } else if time < threshold && old <= self.device.max_in_driver {
                injection.limit += 1;
            }
        }
        let alone = self.device.in_driver == 1;
        if (injection.base == 0 && alone) || time < injection.base {
            if injection.base == 0 {
                injection.limit = old.max(1);
            }
            injection.base = time;
        } else if !self.sampling.injected && alone {
            injection.base = time;
        }
        self.sampling.request = None;
        self.sampling.injected = false;
    }

    /// The queue to serve while the device idles for the queue in service.
    pub(super) fn injected(&mut self, q: QueueId) -> Option<QueueId> {
        if !self.values.on.injection {
            return None;
        }
        if let Some(related) = self.injected_relation(q) {
            return Some(related);
        }
        if !self.admits_injection(q) {
            return None;
        }
        let queue = &self.queues[q];
        let (raised, short_think) = (queue.raise.coeff > 1, queue.short_think);
        let limit = self.queues[q].injection.limit;
        if self.device.in_driver >= limit {
            return None;
        }
        let any = !raised || !short_think;
        let found = self.engine.active_leaves().take(CANDIDATES).map(|e| self.engine.entity(e).owner).find(|c| {
            let queue = &self.queues[*c];
            queue.next != NONE
                && (any || queue.raise.coeff > 1)
                && self.cost(*c, queue.next) <= self.engine.entity(queue.entity).left()
                && !(!self.device.rotational
                    && self.requests[queue.next].sectors >= LARGE_SECTORS
                    && self.device.in_driver >= 1)
        });
        self.sampling.injected |= found.is_some();
        found
    }

    /// Of the queues related to the one in service, the first that can be served meanwhile.
    pub(super) fn injected_relation(&self, q: QueueId) -> Option<QueueId> {
        let queue = &self.queues[q];
        if !self.values.on.wakers {
            return None;
        }
        let own = self.processes.get(queue.task).map_or(NONE, |p| p.async_queue);
        let related = [own, queue.waker, queue.woken];
        related.into_iter().find(|r| *r != NONE && self.fits(*r, *r == own, queue.task))
    }

    /// May requests of unrelated queues be served while the device idles for this one?
    pub(super) fn admits_injection(&self, q: QueueId) -> bool {
        let queue = &self.queues[q];
        let alone_raised = queue.raise.coeff > 1 && self.counts.raised <= 1 && queue.short_think;
        !self.idling_boosts(q) && !alone_raised
    }

    /// Does this queue have a request that fits its budget? `own`: of this task only.
    fn fits(&self, q: QueueId, own: bool, task: u32) -> bool {
        let queue = &self.queues[q];
        queue.busy
            && !self.slot.serves(q)
            && queue.next != NONE
            && (!own || self.requests[queue.next].task == task)
            && self.cost(q, queue.next) <= self.engine.entity(queue.entity).left()
    }

    fn detect_waker(&mut self, q: QueueId, now: Now) {
        let last = self.device.last_completed;
        let queue = &self.queues[q];
        if !self.values.on.wakers
            || last == NONE
            || last == q
            || queue.short_think
            || now.at.0.saturating_sub(self.device.last_completion) >= WAKER_NS
        {
            return;
        }
        let window = 128 * self.values.slice_idle;
        let queue = &mut self.queues[q];
        if last != queue.tentative_waker || now.at.0 > queue.waker_since.saturating_add(window) {
            queue.tentative_waker = last;
            queue.waker_detections = 1;
            queue.waker_since = now.at.0;
        } else {
            queue.waker_detections += 1;
        }
        if queue.waker_detections == 3 {
            queue.tentative_waker = NONE;
            self.queues.set_waker(q, last);
        }
    }
}
