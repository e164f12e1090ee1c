//! The largest budget: the sectors of one slot's time at the peak rate of the device.

use dumbwaiter_block::TickClock;

use super::generation::{Constants, Generation};
use super::peak_rate::{MIN_SAMPLES, PeakRate, RATE_SHIFT};
use super::reason::Reason;
use super::settings::{DEFAULT_MAX_BUDGET, Values};

/// Before mainline: shorter slots do not count for the peak rate, and slots shorter than the second not at all, µs.
const MIN_PEAK_US: u64 = 20_000;
const MIN_SLOT_US: u64 = 100;
/// From this value of `budgets_assigned` on, the reference budget is the measured one.
const SETTLED: u32 = 194;
/// The same in the original generation: slots of one queue.
const SETTLED_SLOTS: u32 = 11;

/// A slot that ended, as the estimate sees it.
pub(super) struct EndedSlot {
    pub(super) us: u64,
    pub(super) used: u64,
    pub(super) budget: u64,
    /// Of its queue, so far.
    pub(super) slots: u32,
    pub(super) seeky: bool,
    pub(super) reason: Reason,
}

/// The peak rate and the largest budget.
#[derive(Clone, Debug)]
pub(super) struct DeviceEstimate {
    pub(super) peak: PeakRate,
    pub(super) max_budget: u64,
    budgets_assigned: u32,
}

impl DeviceEstimate {
    pub(super) fn new(generation: Generation, rotational: bool) -> DeviceEstimate {
        DeviceEstimate {
            peak: PeakRate::of(generation, rotational),
            max_budget: DEFAULT_MAX_BUDGET,
            budgets_assigned: 0,
        }
    }

    /// A queue gets a slot.
    pub(super) fn slot_begins(&mut self) {
        self.budgets_assigned = (self.budgets_assigned * 7 + 256) / 8;
    }

    /// Has the largest budget been measured, as a queue sees it that has had `slots` slots?
    pub(super) fn settled(&self, constants: &Constants, slots: u32) -> bool {
        if constants.is(Generation::V1) { self.budgets_assigned >= SETTLED } else { slots >= SETTLED_SLOTS }
    }

    /// The largest budget as far as it is known.
    pub(super) fn reference(&self, constants: &Constants, slots: u32) -> u64 {
        if self.settled(constants, slots) { self.max_budget } else { DEFAULT_MAX_BUDGET }
    }

    /// The estimate, or the time-out, changed: computes the largest budget, which is what the peak rate moves in one time-out (in the
    /// first generation three quarters of it).
    pub(super) fn retune(&mut self, constants: &Constants, values: &Values, clock: &TickClock) {
        if values.max_budget == 0 {
            let measured = constants.is(Generation::Mainline) || self.peak.samples >= MIN_SAMPLES;
            let budget = (self.peak.rate * 1000 * timeout_ms(values, clock)) >> RATE_SHIFT;
            let budget = if constants.is(Generation::V1) { budget } else { budget * 3 / 4 };
            self.max_budget = if measured { budget } else { DEFAULT_MAX_BUDGET };
        }
    }

    /// Before mainline: a sync slot ended. Returns whether it was slow, by the rule of the code or by that of its comments.
    pub(super) fn slot_ended(
        &mut self,
        slot: &EndedSlot,
        constants: &Constants,
        values: &Values,
        clock: &TickClock,
    ) -> bool {
        let &EndedSlot { us, used, budget, .. } = slot;
        if us < MIN_SLOT_US {
            return false;
        }
        let rate = (used << RATE_SHIFT) / us;
        if us >= MIN_PEAK_US {
            let higher = rate > self.peak.rate;
            let changed = match constants.generation {
                Generation::Original => higher,
                _ => higher || (!slot.seeky && slot.reason == Reason::BudgetTimeout),
            };
            if changed {
                self.peak.rate = match constants.generation {
                    Generation::Original => rate,
                    _ => self.peak.rate * 7 / 8 + rate / 8,
                };
            }
            self.peak.samples = (self.peak.samples + 1).min(MIN_SAMPLES);
            if self.peak.samples == MIN_SAMPLES {
                self.retune(constants, values, clock);
            }
        }
        let expected = (rate * 1000 * timeout_ms(values, clock)) >> RATE_SHIFT;
        // 4/3 of the budget is what the whole slot should be good for where only budgets of some size are judged.
        let judged = constants.is(Generation::V1);
        let (fraction, least) = if judged { (4, self.reference(constants, slot.slots) / 8) } else { (3, 0) };
        if values.on.slow_as_documented {
            budget > least && expected * fraction < budget * 3
        } else {
            budget > least && expected * 3 > budget * fraction
        }
    }
}

fn timeout_ms(values: &Values, clock: &TickClock) -> u64 {
    values.timeout as u64 * clock.period.0 / 1_000_000
}
