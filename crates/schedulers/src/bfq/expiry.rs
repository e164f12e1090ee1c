//! The end of a slot: what is charged, what budget comes next, and what the queue keeps.

use super::queue::QueueId;
use super::{Bfq, Now};

/// Why a slot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    TooIdle,
    BudgetTimeout,
    BudgetExhausted,
    NoMoreRequests,
    Preempted,
}

/// Slots after which the reference budget is the measured one.
const SETTLED: u32 = 194;

impl Bfq {
    pub(super) fn settled(&self) -> bool {
        self.budgets_assigned >= SETTLED
    }

    /// The reference budget ÷ 32.
    pub(super) fn min_budget(&self) -> u64 {
        (if self.settled() { self.max_budget } else { super::DEFAULT_MAX_BUDGET }) / 32
    }

    /// Ticks are counted: has the slot's time run out?
    pub(super) fn timed_out(&self, q: QueueId, now: Now) -> bool {
        now.tick >= self.queues[q as usize].budget_deadline
    }

    /// Timed out, and not just waited for near the end of its budget.
    pub(super) fn may_expire_for_time(&self, q: QueueId, now: Now) -> bool {
        let queue = &self.queues[q as usize];
        let entity = self.engine.entity(queue.entity);
        (!queue.waiting || entity.left() >= entity.budget / 3) && self.timed_out(q, now)
    }

    /// Ends the slot of the queue in service. `compensate`: the time idled for it does not count as slow.
    pub(super) fn expire(&mut self, q: QueueId, reason: Reason, compensate: bool, now: Now) {
        let (slow, ms) = self.slowness(q, compensate, now);
        let entity = self.queues[q as usize].entity;
        if self.queues[q as usize].raise.coeff == 1 {
            let state = self.engine.entity(entity);
            if slow || (reason == Reason::BudgetTimeout && state.left() >= state.budget / 3) {
                self.charge_time(q, ms);
            }
        }
        let empty = self.queues[q as usize].is_empty();
        if self.values.low_latency && self.queues[q as usize].raise.coeff == 1 {
            self.queues[q as usize].raise.start_or_end = now.tick;
        }
        if self.values.low_latency && self.values.on.soft_rt && empty {
            if self.queues[q as usize].in_flight == 0 {
                self.queues[q as usize].soft_rt_next_start = self.soft_rt_start(q, now);
            } else {
                self.queues[q as usize].softrt_update = true;
            }
        }
        self.sampling.forget();
        self.next_budget(q, reason);
        let stays = !empty || (reason == Reason::Preempted && self.idling_needed(q));
        let queue = &mut self.queues[q as usize];
        if queue.coop && queue.seeky_bits() {
            queue.split_wanted = true;
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
        self.in_service = None;
        let queue = &mut self.queues[q as usize];
        if !queue.busy && !matches!(reason, Reason::BudgetTimeout | Reason::BudgetExhausted) {
            queue.waiting_no_idle = true;
        } else {
            self.engine.set_used(entity, 0);
        }
        self.free_if_unused(q);
    }

    /// Was the slot slow, and how long was it, in ms?
    fn slowness(&self, q: QueueId, compensate: bool, now: Now) -> (bool, u64) {
        let queue = &self.queues[q as usize];
        if !queue.sync {
            return (false, 0);
        }
        let end = if compensate { self.idle_since } else { now.at };
        let us = end.since(self.slot_start).0 / 1000;
        let seeky = queue.seeky_bits();
        if us < 1000 {
            return (seeky, if self.rotational { 8 } else { 2 });
        }
        let slow = if us > 20_000 { self.engine.entity(queue.entity).used < self.max_budget / 2 } else { seeky };
        (slow, us / 1000)
    }

    /// Charges a queue for the time it held the device.
    fn charge_time(&mut self, q: QueueId, ms: u64) {
        let timeout = (self.clock.per_second() / 8) as u64 * self.clock.period.0 / 1_000_000;
        let entity = self.queues[q as usize].entity;
        let used = self.engine.entity(entity).used;
        let total = (self.max_budget * ms.min(timeout) / timeout.max(1)).max(used);
        if total > self.engine.entity(entity).budget {
            self.engine.set_budget(entity, total);
        }
        self.account(q, total - used);
    }

    /// The budget of the next slot, from how this one ended.
    fn next_budget(&mut self, q: QueueId, reason: Reason) {
        let (min, max) = (self.min_budget(), self.max_budget);
        let queue = &self.queues[q as usize];
        let old = queue.max_budget;
        let raised = queue.raise.coeff > 1;
        let used = self.engine.entity(queue.entity).used;
        let budget = if !queue.sync {
            max
        } else if raised {
            2 * min
        } else {
            match reason {
                Reason::TooIdle if queue.in_flight > 0 => (2 * old).min(max),
                Reason::TooIdle if old > 5 * min => old - 4 * min,
                Reason::TooIdle => min,
                Reason::BudgetTimeout => (2 * old).min(max),
                Reason::BudgetExhausted => (4 * old).min(max),
                Reason::NoMoreRequests => used.max(min),
                Reason::Preempted => return,
            }
        };
        let budget = if self.settled() && self.values.max_budget == 0 { budget.min(max) } else { budget };
        self.queues[q as usize].max_budget = budget;
        let next = self.queues[q as usize].next;
        if next != super::queue::NONE {
            let cost = self.cost(q, next);
            self.engine.set_budget(self.queues[q as usize].entity, budget.max(cost));
        }
    }
}
