//! The budget that one slot's time allows at the peak rate of the device.

use super::peak_rate::{MIN_SAMPLES, RATE_SHIFT};
use super::queue::QueueId;
use super::reason::Reason;
use super::settings::DEFAULT_MAX_BUDGET;
use super::{Bfq, Generation};

/// Before mainline: shorter slots do not count for the peak rate, and slots shorter than the second not at all, µs.
const MIN_PEAK_US: u64 = 20_000;
const MIN_SLOT_US: u64 = 100;
impl Bfq {
    /// The largest budget: what the peak rate moves in one time-out (of the first generation three quarters of it).
    pub(super) fn calculated_max_budget(&self) -> u64 {
        let budget = (self.peak.rate * 1000 * self.timeout_ms()) >> RATE_SHIFT;
        if self.is(Generation::V1) { budget } else { budget * 3 / 4 }
    }

    /// The estimate, or the time-out, changed: computes the largest budget.
    pub(super) fn retune(&mut self) {
        if self.values.max_budget == 0 {
            let measured = self.is(Generation::Mainline) || self.peak.samples >= MIN_SAMPLES;
            self.max_budget = if measured { self.calculated_max_budget() } else { DEFAULT_MAX_BUDGET };
        }
    }

    /// Before mainline: a sync slot of `us` ended. Returns whether it was slow, by the rule of the code or by that of its
    /// comments.
    pub(super) fn note_slot_rate(&mut self, q: QueueId, us: u64, reason: Reason) -> bool {
        if us < MIN_SLOT_US {
            return false;
        }
        let queue = &self.queues[q as usize];
        let seeky = queue.seeky();
        let entity = self.engine.entity(queue.entity);
        let (used, budget) = (entity.used, entity.budget);
        let rate = (used << RATE_SHIFT) / us;
        if us >= MIN_PEAK_US {
            let higher = rate > self.peak.rate;
            let changed = match self.constants.generation {
                Generation::Original => higher,
                _ => higher || (!seeky && reason == Reason::BudgetTimeout),
            };
            if changed {
                self.peak.rate = match self.constants.generation {
                    Generation::Original => rate,
                    _ => self.peak.rate * 7 / 8 + rate / 8,
                };
            }
            self.peak.samples = (self.peak.samples + 1).min(MIN_SAMPLES);
            if self.peak.samples == MIN_SAMPLES {
                self.retune();
            }
        }
        let expected = (rate * 1000 * self.timeout_ms()) >> RATE_SHIFT;
        // 4/3 of the budget is what the whole slot should be good for where only budgets of some size are judged.
        let (fraction, least) = if self.is(Generation::V1) { (4, self.reference(Some(q)) / 8) } else { (3, 0) };
        if self.values.on.slow_as_documented {
            budget > least && expected * fraction < budget * 3
        } else {
            budget > least && expected * 3 > budget * fraction
        }
    }
}
