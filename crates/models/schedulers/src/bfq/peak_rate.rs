//! The peak rate of the device, as measured so far.

use super::generation::Generation;

/// Rates are sectors per µs × 2¹⁶.
pub(super) const RATE_SHIFT: u32 = 16;
/// Dispatches, or before mainline slots, that a measurement takes.
pub(super) const MIN_SAMPLES: u32 = 32;
const MIN_INTERVAL_NS: u64 = 300_000_000;
const INTERVAL_NS: u64 = 1_000_000_000;
const GAP_NS: u64 = 100_000_000;
/// Requests this long after a completion are not back to back.
pub(super) const MIN_THINK_NS: u64 = 2_000_000;

/// Estimator of the peak rate.
#[derive(Clone, Debug, Default)]
pub(super) struct PeakRate {
    pub(super) rate: u64,
    pub(super) samples: u32,
    sequential: u32,
    sectors: u64,
    pub(super) largest: u32,
    first_dispatch: u64,
    last_dispatch: u64,
    /// First to last dispatch of the interval.
    length: u64,
}

impl PeakRate {
    /// The estimate before the first measurement.
    pub(super) fn of(generation: Generation, rotational: bool) -> PeakRate {
        let rate = match (generation, rotational) {
            (Generation::Original | Generation::V1, _) => 0,
            (Generation::V7r8, true) => 17_415,
            (Generation::V7r8, false) => 34_791,
            (Generation::Mainline, true) => 14_000 * 2 / 3,
            (Generation::Mainline, false) => 33_000 * 2 / 3,
        };
        PeakRate { rate, ..PeakRate::default() }
    }

    /// A request of `sectors` is dispatched. Returns whether the estimate changed.
    pub(super) fn dispatched(
        &mut self,
        now: u64,
        sectors: u32,
        driver_busy: bool,
        last_completion: u64,
        near: bool,
    ) -> bool {
        let mut changed = false;
        if self.samples == 0 {
            self.restart(now, Some(sectors));
        } else if now.saturating_sub(self.last_dispatch) > GAP_NS && !driver_busy {
            changed = self.close(now, last_completion, Some(sectors));
        } else {
            self.samples += 1;
            let sequential = (driver_busy || now.saturating_sub(last_completion) < MIN_THINK_NS) && near;
            self.sequential += u32::from(sequential);
            self.sectors += u64::from(sectors);
            self.largest = if self.samples.is_multiple_of(MIN_SAMPLES) { sectors } else { self.largest.max(sectors) };
            self.length = now - self.first_dispatch;
            if self.length >= INTERVAL_NS {
                changed = self.close(now, last_completion, Some(sectors));
            }
        }
        self.last_dispatch = now;
        changed
    }

    fn restart(&mut self, now: u64, sectors: Option<u32>) {
        self.samples = 0;
        if let Some(sectors) = sectors {
            self.samples = 1;
            self.sequential = 0;
            (self.first_dispatch, self.last_dispatch) = (now, now);
            (self.sectors, self.largest) = (u64::from(sectors), sectors);
        }
    }

    /// Ends an interval; `sectors` begin the next one. Returns whether the estimate changed.
    pub(super) fn close(&mut self, now: u64, last_completion: u64, sectors: Option<u32>) -> bool {
        let accepted = self.samples >= MIN_SAMPLES && self.length >= MIN_INTERVAL_NS && self.accept(last_completion);
        self.restart(now, sectors);
        accepted
    }

    fn accept(&mut self, last_completion: u64) -> bool {
        let length = self.length.max(last_completion.saturating_sub(self.first_dispatch));
        let rate = (self.sectors << RATE_SHIFT) / (length / 1000).max(1);
        let random = self.sequential < 3 * self.samples / 4;
        if (random && rate <= self.rate) || rate > 20 << RATE_SHIFT {
            return false;
        }
        let weight = u64::from(9 * self.sequential / self.samples);
        let weight = (weight * length / INTERVAL_NS).min(8);
        let n = 10 - weight;
        self.rate = (self.rate * (n - 1) / n + rate / n).max(1);
        true
    }
}
