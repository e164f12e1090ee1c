//! The end of a slot: what is charged, what budget comes next, and what the queue keeps.

use super::estimate::EndedSlot;
use super::queue::{NEVER, QueueId};
use super::reason::Reason;
use super::sampling::Sampling;
use super::{Bfq, Generation, Now};

impl Bfq {
    /// Has the slot's time run out? Counted in ticks.
    pub(super) fn timed_out(&self, q: QueueId, now: Now) -> bool {
        now.tick >= self.queues[q].budget_deadline
    }

    /// Timed out, unless the device idles for it near the end of its budget.
    pub(super) fn may_expire_for_time(&self, q: QueueId, now: Now) -> bool {
        let queue = &self.queues[q];
        let entity = self.engine.entity(queue.entity);
        (!self.is(Generation::V1) || !queue.waiting || entity.left() >= entity.budget / 3) && self.timed_out(q, now)
    }

    /// Ends the slot of the queue in service. `compensate`: the time idled for it does not count as slow.
    pub(super) fn expire(&mut self, q: QueueId, reason: Reason, compensate: bool, now: Now) {
        let entity = self.queues[q].entity;
        let served = self.engine.entity(entity).used;
        let reason = self.charge_slot(q, reason, compensate, now);
        let empty = self.queues[q].is_empty();
        if self.values.low_latency && !self.values.on.linear_raise && self.queues[q].raise.coeff == 1 {
            self.queues[q].raise.start_or_end = now.tick;
        }
        if self.values.low_latency && self.values.on.soft_rt && empty {
            if self.queues[q].in_flight == 0 {
                self.queues[q].soft_rt_next_start = self.soft_rt_start(q, now);
            } else {
                let queue = &mut self.queues[q];
                queue.softrt_update = true;
                if self.constants.generation < Generation::Mainline {
                    queue.soft_rt_next_start = NEVER;
                }
            }
        }
        self.sampling = Sampling::default();
        self.learn_from_slot(q, reason, served);
        self.tally.slot(reason, served, self.queues[q].in_flight);
        self.next_budget(q, reason, served);
        let stays = !empty || (reason == Reason::Preempted && self.idling_needed(q));
        let queue = &mut self.queues[q];
        if queue.coop && queue.seeky() {
            queue.split_wanted = true;
        }
        if std::mem::take(&mut self.slot.unstarted) {
            queue.budget_deadline = now.tick;
        }
        if !stays {
            if queue.in_flight == 0 {
                queue.budget_deadline = now.tick;
            }
            self.not_busy(q);
        }
        self.engine.at_tick(now.tick);
        self.engine.expire(entity, stays);
        self.recount();
        self.stop_waiting(q);
        self.slot.queue = None;
        let queue = &mut self.queues[q];
        if !queue.busy && !matches!(reason, Reason::BudgetTimeout | Reason::BudgetExhausted) {
            queue.waiting_no_idle = true;
        } else {
            self.engine.set_used(entity, 0);
        }
        self.free_if_unused(q);
    }

    /// Charges a slow slot beyond its sectors. Returns the reason of its end, which may become the time-out.
    fn charge_slot(&mut self, q: QueueId, reason: Reason, compensate: bool, now: Now) -> Reason {
        let queue = &self.queues[q];
        let (raised, sync) = (queue.raise.coeff > 1, queue.sync);
        let end = if compensate { self.slot.idle_since } else { now.at };
        let us = end.since(self.slot.start).0 / 1000;
        let (slow, ms) = self.slowness(q, us);
        let state = self.engine.entity(queue.entity);
        let ended =
            EndedSlot { us, used: state.used, budget: state.budget, slots: queue.slots, seeky: queue.seeky(), reason };
        let rate_is_slow = !self.is(Generation::Mainline)
            && sync
            && !self.slot.unstarted
            && self.estimate.slot_ended(&ended, &self.constants, &self.values, &self.time.clock);
        let late = reason == Reason::BudgetTimeout && state.left() >= state.budget / 3;
        if !self.values.on.slow_charge {
            return reason;
        }
        if self.values.on.time_charge {
            if !raised && (slow || late) {
                self.charge_time(q, ms);
            }
            return reason;
        }
        let slow = if self.is(Generation::Mainline) { slow } else { rate_is_slow };
        let (reason, full) = match self.constants.generation {
            Generation::Original => {
                let idle_and_slow = slow && reason == Reason::TooIdle;
                let reason = if idle_and_slow { Reason::BudgetTimeout } else { reason };
                (reason, !sync || reason == Reason::BudgetTimeout)
            }
            Generation::V1 | Generation::V7r8 => (reason, slow || late),
            Generation::Mainline => (reason, !raised && (slow || late)),
        };
        if full {
            self.account(q, state.left());
        }
        reason
    }

    /// Was the slot slow, as mainline sees it, and how long was it, in ms?
    fn slowness(&self, q: QueueId, us: u64) -> (bool, u64) {
        let queue = &self.queues[q];
        if !queue.sync {
            return (false, 0);
        }
        let seeky = queue.seeky();
        if us < 1000 {
            return (seeky, if self.device.rotational { 8 } else { 2 });
        }
        let slow =
            if us > 20_000 { self.engine.entity(queue.entity).used < self.estimate.max_budget / 2 } else { seeky };
        (slow, us / 1000)
    }

    /// Updates what v7r8 knows of a queue when its slot ends.
    fn learn_from_slot(&mut self, q: QueueId, reason: Reason, served: u64) {
        if self.is(Generation::Mainline) {
            return;
        }
        let queue = &mut self.queues[q];
        let seeky = queue.seeky();
        if reason == Reason::TooIdle && served * 5 <= self.engine.entity(queue.entity).budget {
            queue.io_bound = false;
            queue.prompt = 0;
        }
        if reason == Reason::BudgetTimeout && seeky {
            self.counts.set_constantly_seeky(queue, true);
        }
    }

    /// Charges a queue for the time it held the device.
    fn charge_time(&mut self, q: QueueId, ms: u64) {
        let timeout = self.time.spans.second / 8 * self.time.clock.period.0 / 1_000_000;
        let entity = self.queues[q].entity;
        let used = self.engine.entity(entity).used;
        let total = (self.estimate.max_budget * ms.min(timeout) / timeout.max(1)).max(used);
        if total > self.engine.entity(entity).budget {
            self.engine.set_budget(entity, total);
        }
        self.account(q, total - used);
    }
}
