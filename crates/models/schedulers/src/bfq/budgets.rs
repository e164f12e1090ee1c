//! Budgets: how many sectors a queue may use in its next slot.

use super::queue::{NONE, QueueId};
use super::reason::Reason;
use super::settings::History;
use super::{Bfq, Generation};

/// Steps of additive budgets, sectors.
const LESS: u64 = 128;
const MORE: u64 = 1024;

impl Bfq {
    /// The largest budget as far as it is known.
    pub(super) fn reference(&self, q: QueueId) -> u64 {
        self.estimate.reference(&self.constants, self.queues[q].slots)
    }

    /// The smallest budget.
    pub(super) fn min_budget(&self, q: QueueId) -> u64 {
        self.reference(q) / if self.values.on.budget_doubling { 32 } else { 2 }
    }

    /// The budget of a new queue.
    pub(super) fn first_budget(&self) -> u64 {
        let reference = self.estimate.reference(&self.constants, 0);
        match self.values.history {
            Some(history) => self.history_default(history),
            None if self.values.on.budget_doubling => reference * 2 / 3,
            None => reference - reference / 4,
        }
    }

    /// Has the queue used enough of its slot that its seeks count?
    pub(super) fn used_much(&self, q: QueueId) -> bool {
        self.engine.entity(self.queues[q].entity).used > self.reference(q) / 8
    }

    /// The budget of the next slot, from how this one ended and the sectors it was served.
    pub(super) fn next_budget(&mut self, q: QueueId, reason: Reason, served: u64) {
        let queue = &self.queues[q];
        let raised = queue.raise.coeff > 1;
        let budget = match self.values.history {
            Some(history) if !raised => {
                let tenants =
                    if history.tenants > 0 { history.tenants } else { u64::from(self.counts.groups_pending.max(1)) };
                let (default, exhausted) = (self.history_default(history), history.exhausted_budget);
                Some(history_budget(default, tenants, exhausted, queue.max_budget, served, reason))
            }
            _ => self.feedback(q, raised, reason),
        };
        let Some(budget) = budget else { return };
        self.queues[q].max_budget = budget;
        let next = self.queues[q].next;
        if next != NONE {
            let cost = self.cost(q, next);
            self.engine.set_budget(self.queues[q].entity, budget.max(cost));
        }
    }

    /// The default budget; with `max_budget` = 0 the measured largest budget takes its place.
    fn history_default(&self, history: History) -> u64 {
        if self.values.max_budget == 0 { self.estimate.max_budget } else { history.default_budget }
    }

    fn feedback(&self, q: QueueId, raised: bool, reason: Reason) -> Option<u64> {
        let (min, max) = (self.min_budget(q), self.estimate.max_budget);
        let queue = &self.queues[q];
        let (old, used) = (queue.max_budget, self.engine.entity(queue.entity).used);
        let budget = if !queue.sync {
            max
        } else if raised && self.is(Generation::Mainline) {
            2 * min
        } else if !self.values.on.budget_doubling {
            let reference = self.reference(q);
            match reason {
                Reason::TooIdle => old.saturating_sub(LESS).max(min),
                Reason::BudgetTimeout => reference - reference / 4,
                Reason::BudgetExhausted => (old + MORE).min(max),
                Reason::NoMoreRequests => old,
                Reason::Preempted => return None,
            }
        } else {
            match reason {
                Reason::TooIdle if queue.in_flight > 0 => (2 * old).min(max),
                Reason::TooIdle if old > 5 * min => old - 4 * min,
                Reason::TooIdle => min,
                Reason::BudgetTimeout => (2 * old).min(max),
                Reason::BudgetExhausted => (4 * old).min(max),
                Reason::NoMoreRequests if self.is(Generation::Mainline) => used.max(min),
                Reason::NoMoreRequests => old,
                Reason::Preempted => return None,
            }
        };
        let clip = self.estimate.settled(&self.constants, queue.slots) && self.values.max_budget == 0;
        Some(if clip { budget.min(max) } else { budget })
    }
}

/// The budget after a slot by its history: what is left of the old budget is carried over, unless little is left; a queue
/// that exhausted it gets an equal part of the default. At least 1 sector. (H+BFQ, Algorithm 2.)
fn history_budget(default: u64, tenants: u64, exhausted: u64, old: u64, served: u64, reason: Reason) -> u64 {
    let min = default / 32;
    let left = old.saturating_sub(served);
    let budget = match reason {
        Reason::BudgetExhausted if exhausted > 0 => exhausted,
        Reason::BudgetExhausted => (default / tenants.max(1)).max(min),
        Reason::Preempted => left,
        _ if left <= min => default,
        _ => left,
    };
    budget.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// default, tenants, constant, old, served, reason → next.
    #[test]
    fn budgets_by_history() {
        const D: u64 = 16384;
        for idle in [Reason::TooIdle, Reason::NoMoreRequests, Reason::BudgetTimeout] {
            for tenants in [1, 4, 40] {
                assert_eq!(history_budget(D, tenants, 0, D, 4096, idle), 12288, "the rest is carried over");
                assert_eq!(history_budget(D, tenants, 0, 1000, 488, idle), D, "512 left is the minimum: afresh");
                assert_eq!(history_budget(D, tenants, 0, 1000, 487, idle), 513);
                assert_eq!(history_budget(D, tenants, 0, 1000, 5000, idle), D, "more served than it had");
            }
        }
        for (tenants, next) in [(1, D), (4, 4096), (40, 512), (1000, 512)] {
            for (old, served) in [(D, D), (512, 512), (4096, 4000)] {
                assert_eq!(history_budget(D, tenants, 0, old, served, Reason::BudgetExhausted), next);
            }
        }
        assert_eq!(history_budget(D, 4, 128, D, D, Reason::BudgetExhausted), 128, "a constant as asked");
        assert_eq!(history_budget(D, 4, 0, D, 16000, Reason::Preempted), 384, "no completed round");
        assert_eq!(history_budget(D, 4, 0, D, D, Reason::Preempted), 1);
    }
}
