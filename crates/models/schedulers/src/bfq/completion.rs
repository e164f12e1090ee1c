//! A request completes, and the idle timer.

use dumbwaiter_block::RequestId;

use super::peak_rate::{MIN_THINK_NS, RATE_SHIFT};
use super::queue::NONE;
use super::reason::Reason;
use super::{Bfq, Generation, Now};

/// With fewer requests in the device and waiting it cannot be seen whether the device queues them.
const TELLING: u32 = 4;
const SAMPLES: u32 = 32;

impl Bfq {
    pub(super) fn finish(&mut self, id: RequestId, now: Now) -> bool {
        let entry = self.entries[id.index()];
        let q = entry.queue;
        self.sample_on_completion(q, id, now);
        self.note_queueing();
        self.in_driver -= 1;
        self.sync_in_driver -= u32::from(entry.sync);
        if self.in_service == Some(q) && std::mem::take(&mut self.slot_unstarted) {
            self.start_slot_clock(q, now);
        }
        let queue = &mut self.queues[q as usize];
        queue.in_flight -= 1;
        queue.think.last_completion = now.at.0;
        if queue.in_flight == 0 && !queue.busy {
            queue.budget_deadline = now.tick;
            self.set_pending(q, false);
            self.uncount(q);
        }
        let mainline = self.is(Generation::Mainline);
        let gap_us = now.at.0.saturating_sub(self.last_completion) / 1000;
        if mainline
            && gap_us > MIN_THINK_NS / 1000
            && (u64::from(self.peak.largest) << RATE_SHIFT) / gap_us < 1 << (RATE_SHIFT - 10)
            && self.peak.close(now.at.0, self.last_completion, None)
        {
            self.retune();
        }
        self.last_completion = now.at.0;
        self.last_completed = if self.queues[q as usize].coop { NONE } else { q };
        let queue = &self.queues[q as usize];
        let interactive = mainline && queue.raise.coeff == self.values.raise_coeff;
        if queue.softrt_update && queue.in_flight == 0 && queue.is_empty() && !interactive {
            self.queues[q as usize].soft_rt_next_start = self.soft_rt_start(q, now);
        }
        let mut again = self.in_driver == 0;
        if self.in_service == Some(q) {
            let idle = self.must_idle(q);
            let arm = idle
                && match self.constants.generation {
                    Generation::Original | Generation::V1 => self.in_driver == 0,
                    Generation::V7r8 => true,
                    Generation::Mainline => self.queues[q as usize].in_flight == 0,
                };
            if arm {
                self.arm_idle_timer(q, now);
            }
            if arm || (idle && (mainline || self.queues[q as usize].in_flight > 0)) {
                again = false;
            } else if self.may_expire_for_time(q, now) {
                self.expire(q, Reason::BudgetTimeout, false, now);
            } else if self.queues[q as usize].is_empty()
                && (self.queues[q as usize].in_flight == 0 || !self.deserves_idling(q))
            {
                self.expire(q, Reason::NoMoreRequests, false, now);
            }
        }
        self.entries[id.index()].queue = NONE;
        self.processes[entry.task as usize].requests -= 1;
        self.allocate(q, -1);
        self.free_if_unused(q);
        // A request that was held back by the number outstanding may go now.
        again || self.values.strict_guarantees || !mainline
    }

    /// Does the device queue commands?
    fn note_queueing(&mut self) {
        self.max_in_driver = self.max_in_driver.max(self.in_driver);
        let sticky = self.is(Generation::V7r8);
        if (sticky && self.hw_tag == 1) || self.in_driver + self.queued < TELLING {
            return;
        }
        if let Some(serving) = self.in_service.filter(|_| self.is(Generation::Mainline)) {
            let queue = &self.queues[serving as usize];
            let held = queue.in_flight + queue.queued[0] + queue.queued[1];
            if queue.short_think && held < self.constants.queueing && self.in_driver < self.constants.queueing {
                return;
            }
        }
        self.hw_tag_samples += 1;
        if self.hw_tag_samples <= SAMPLES {
            return;
        }
        self.hw_tag = i8::from(self.max_in_driver > self.constants.queueing);
        self.max_in_driver = 0;
        self.nonrot_queueing = !self.rotational && self.hw_tag == 1;
        self.hw_tag_samples = 0;
    }

    /// The idle timer fired.
    pub(super) fn idled_out(&mut self, now: Now) {
        self.idle_until = None;
        let Some(q) = self.in_service else { return };
        self.queues[q as usize].waiting = false;
        if self.timed_out(q, now) {
            self.expire(q, Reason::BudgetTimeout, true, now);
        } else if self.queues[q as usize].is_empty() {
            self.expire(q, Reason::TooIdle, true, now);
        }
    }
}
