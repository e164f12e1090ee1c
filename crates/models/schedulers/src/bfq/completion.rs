//! A request completes, and the idle timer.

use dumbwaiter_block::RequestId;

use super::peak_rate::{MIN_THINK_NS, RATE_SHIFT};
use super::queue::NONE;
use super::reason::Reason;
use super::{Bfq, Generation, Now};

impl Bfq {
    pub(super) fn finish(&mut self, id: RequestId, now: Now) -> bool {
        let entry = self.requests[id.0];
        let q = entry.queue;
        self.sample_on_completion(q, id, now);
        let serving = self.slot.queue.map(|q| &self.queues[q]);
        self.device.note_queueing(&self.constants, self.requests.queued, serving);
        self.device.complete(entry.sync);
        if self.slot.serves(q) && std::mem::take(&mut self.slot.unstarted) {
            self.start_slot_clock(q, now);
        }
        let queue = &mut self.queues[q];
        queue.in_flight -= 1;
        queue.think.last_completion = now.at.0;
        if queue.in_flight == 0 && !queue.busy {
            queue.budget_deadline = now.tick;
            self.not_pending(q);
        }
        let mainline = self.is(Generation::Mainline);
        let gap_us = now.at.0.saturating_sub(self.device.last_completion) / 1000;
        if mainline
            && gap_us > MIN_THINK_NS / 1000
            && (u64::from(self.estimate.peak.largest) << RATE_SHIFT) / gap_us < 1 << (RATE_SHIFT - 10)
            && self.estimate.peak.close(now.at.0, self.device.last_completion, None)
        {
            self.retune();
        }
        self.device.last_completion = now.at.0;
        self.device.last_completed = if self.queues[q].coop { NONE } else { q };
        let queue = &self.queues[q];
        let interactive = mainline && queue.raise.coeff == self.values.raise_coeff;
        if queue.softrt_update && queue.in_flight == 0 && queue.is_empty() && !interactive {
            self.queues[q].soft_rt_next_start = self.soft_rt_start(q, now);
        }
        let mut again = self.device.in_driver == 0;
        if self.slot.serves(q) {
            let idle = self.must_idle(q);
            let arm = idle
                && match self.constants.generation {
                    Generation::Original | Generation::V1 => self.device.in_driver == 0,
                    Generation::V7r8 => true,
                    Generation::Mainline => self.queues[q].in_flight == 0,
                };
            if arm {
                self.arm_idle_timer(q, now);
            }
            if arm || (idle && (mainline || self.queues[q].in_flight > 0)) {
                again = false;
            } else if self.may_expire_for_time(q, now) {
                self.expire(q, Reason::BudgetTimeout, false, now);
            } else if self.queues[q].is_empty() && (self.queues[q].in_flight == 0 || !self.deserves_idling(q)) {
                self.expire(q, Reason::NoMoreRequests, false, now);
            }
        }
        self.forget_request(id);
        // A request that was held back by the number outstanding may go now.
        again || self.values.strict_guarantees || !mainline
    }

    /// The idle timer fired.
    pub(super) fn idled_out(&mut self, now: Now) {
        self.slot.idle_until = None;
        let Some(q) = self.slot.queue else { return };
        self.queues[q].waiting = false;
        if self.timed_out(q, now) {
            self.expire(q, Reason::BudgetTimeout, true, now);
        } else if self.queues[q].is_empty() {
            self.expire(q, Reason::TooIdle, true, now);
        }
    }
}
