//! A rate limit: a number of units per second, and how many may pass at once after a pause.

use dumbwaiter_block::Nanos;

/// The largest burst after a pause, unless another is set: the time in which the rate allows it.
const BURST: Nanos = Nanos::from_ms(10);

/// Lets units through at a rate. It keeps the time at which it would be empty, so that no fraction of a unit is lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    per_second: u64,
    /// The largest burst, as the time in which the rate allows it.
    burst: Nanos,
    /// When the bucket is full again.
    full_at: Nanos,
    /// Units owed below a nanosecond, times their rate.
    rest: u64,
}

impl TokenBucket {
    /// `burst`: units that pass at once after a pause; those of 10 ms if `None`.
    pub(crate) fn new(per_second: u64, burst: Option<u64>) -> TokenBucket {
        let mut bucket = TokenBucket { per_second: per_second.max(1), burst: BURST, full_at: Nanos::ZERO, rest: 0 };
        bucket.set_burst(burst);
        bucket
    }

    /// As in [`TokenBucket::new`]; what has been let through counts on.
    pub(crate) fn set_burst(&mut self, burst: Option<u64>) {
        let time = |units: u64| u128::from(units) * 1_000_000_000 / u128::from(self.per_second);
        self.burst = burst.map_or(BURST, |units| Nanos(u64::try_from(time(units)).unwrap_or(u64::MAX)));
    }

    /// Units in a second.
    pub(crate) fn per_second(&self) -> u64 {
        self.per_second
    }

    /// Takes back what was let through a moment ago and did not come.
    pub(crate) fn give_back(&mut self, units: u64) {
        let cost = u128::from(units) * 1_000_000_000 / u128::from(self.per_second);
        self.full_at = Nanos(self.full_at.0.saturating_sub(cost as u64));
    }

    /// When the next unit may pass; in the past if at once.
    pub(crate) fn opens_at(&self) -> Nanos {
        Nanos(self.full_at.0.saturating_sub(self.burst.0))
    }

    /// Lets `units` pass at `now`, which the caller has found to be allowed.
    pub(crate) fn take(&mut self, now: Nanos, units: u64) {
        if self.full_at < now {
            (self.full_at, self.rest) = (now, 0);
        }
        let cost = u128::from(units) * 1_000_000_000 + u128::from(self.rest);
        let rate = u128::from(self.per_second);
        self.full_at = Nanos(self.full_at.0.saturating_add((cost / rate) as u64));
        self.rest = (cost % rate) as u64;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_rate_holds_within_the_burst_whatever_the_sizes(
            rate in 10u64..2_000_000,
            burst in prop::option::of(0u64..1_000),
            sizes in prop::collection::vec(1u64..5, 50..200),
            late in prop::collection::vec(0u64..3_000_000, 50..200),
        ) {
            let mut bucket = TokenBucket::new(rate, burst);
            let (mut now, mut passed, mut last) = (Nanos::ZERO, 0u64, 0);
            for (size, late) in sizes.iter().zip(&late) {
                now = Nanos(now.max(bucket.opens_at()).0 + late);
                bucket.take(now, *size);
                passed += size;
                last = *size;
            }
            // All but the last unit are within what the time and one burst allow.
            let at_once = burst.map_or(BURST.0 as f64 / 1e9 * rate as f64, |units| units as f64);
            let allowed = now.0 as f64 / 1e9 * rate as f64 + at_once + 1.0;
            prop_assert!((passed - last) as f64 <= allowed, "{passed} in {now:?}");
        }

        #[test]
        fn a_backlog_gets_the_whole_rate(rate in 100u64..1_000_000) {
            let (mut bucket, mut now, mut passed) = (TokenBucket::new(rate, None), Nanos::ZERO, 0);
            while now < Nanos::from_secs(1) {
                bucket.take(now, 1);
                passed += 1;
                now = now.max(bucket.opens_at());
            }
            let expected = rate + rate / 100;
            prop_assert!(passed >= rate && passed <= expected + 2, "{passed} of {rate}");
        }
    }
}
