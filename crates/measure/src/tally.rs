//! Tallies of latencies: exact moments, and a histogram for percentiles.

use crate::histogram::{Coarse, Fine, Histogram};
use crate::result::{Cdf, Latency};

/// Most points of a thinned distribution.
const CDF_POINTS_MAX: usize = 200;

/// Count, sum and sum of squares of latencies in ns: exact, so independent of the order of recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moments {
    pub(crate) count: u64,
    sum: u128,
    squares: u128,
    pub(crate) max: u64,
}

impl Moments {
    #[inline]
    pub(crate) fn add(&mut self, ns: u64) {
        self.count += 1;
        self.sum += u128::from(ns);
        // Clamped at 78 h, so that the squares of 2^32 requests cannot overflow.
        let ns_bounded = u128::from(ns.min(1 << 48));
        self.squares += ns_bounded * ns_bounded;
        self.max = self.max.max(ns);
    }

    pub(crate) fn join(&mut self, other: &Moments) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
        self.max = self.max.max(other.max);
    }

    /// Mean, sample standard deviation and maximum in us; NaN where undefined.
    fn mean_stddev_max(&self) -> (f64, f64, f64) {
        if self.count == 0 {
            return (f64::NAN, f64::NAN, f64::NAN);
        }
        let n = self.count as f64;
        let mean = self.sum as f64 / n;
        // In integers if they fit, so that equal latencies have a deviation of exactly 0.
        let scaled = u128::from(self.count).checked_mul(self.squares).zip(self.sum.checked_mul(self.sum));
        let spread = match scaled {
            Some((squares, square)) => squares.saturating_sub(square) as f64 / n,
            None => (self.squares as f64 - mean * self.sum as f64).max(0.0),
        };
        let variance = if self.count < 2 { 0.0 } else { spread / (n - 1.0) };
        (mean / 1e3, variance.sqrt() / 1e3, self.max as f64 / 1e3)
    }
}

/// A tally with percentiles to 0.1 %.
pub(crate) type FineTally = Tally<{ Fine::BITS }>;
/// A tally with percentiles to 0.8 %.
pub(crate) type CoarseTally = Tally<{ Coarse::BITS }>;

/// Moments and percentiles of one group of requests.
#[derive(Clone, Debug)]
pub(crate) struct Tally<const BITS: u32> {
    pub(crate) moments: Moments,
    pub(crate) bytes: u64,
    pub(crate) histogram: Histogram<BITS>,
}

impl<const BITS: u32> Tally<BITS> {
    pub(crate) fn new() -> Self {
        Tally { moments: Moments::default(), bytes: 0, histogram: Histogram::new() }
    }

    /// Counts a latency of `ns` whose histogram bucket is `bucket`.
    #[inline]
    pub(crate) fn add(&mut self, ns: u64, bucket: usize, bytes: u64) {
        self.moments.add(ns);
        self.bytes += bytes;
        self.histogram.add(bucket);
    }

    pub(crate) fn join(&mut self, other: &Self) {
        self.moments.join(&other.moments);
        self.bytes += other.bytes;
        self.histogram.join(&other.histogram);
    }

    pub(crate) fn latency(&self) -> Latency {
        self.moments.latency(Some(&self.histogram))
    }

    /// The cumulative distribution, thinned to keep the shape of its middle and tail: a point where the fraction has
    /// grown by 1 % or the remainder has shrunk by a fifth.
    pub(crate) fn cdf(&self) -> Cdf {
        let total = self.moments.count;
        let (mut us, mut fraction) = (Vec::new(), Vec::new());
        let (mut seen, mut kept) = (0u64, 0u64);
        for (longest, count) in self.histogram.recorded() {
            seen += count;
            let grown = (seen - kept) as f64 >= total as f64 / 100.0;
            let shrunk = (total - seen) as f64 <= (total - kept) as f64 * 0.8;
            if grown || shrunk || us.is_empty() || seen == total {
                us.push(longest.min(self.moments.max) as f64 / 1e3);
                fraction.push(seen as f64 / total as f64);
                kept = seen;
            }
        }
        if us.len() > CDF_POINTS_MAX {
            // Reached beyond 10^10 requests only: drop points of the middle, keep the tail.
            let spare = us.len() - CDF_POINTS_MAX;
            us.drain(1..=spare);
            fraction.drain(1..=spare);
        }
        Cdf { us, fraction }
    }
}

impl Moments {
    /// Latency figures of a group; percentiles are NaN without a histogram.
    pub(crate) fn latency<const BITS: u32>(&self, histogram: Option<&Histogram<BITS>>) -> Latency {
        let (mean, stddev, max) = self.mean_stddev_max();
        let found = histogram.and_then(|h| h.quantiles_ns([0.5, 0.95, 0.99, 0.999]));
        let us = found.map_or([f64::NAN; 4], |ns| ns.map(|ns| (ns.min(self.max)) as f64 / 1e3));
        let [p50, p95, p99, p99_9] = us;
        Latency { mean, p50, p95, p99, p99_9, max, stddev }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::LATENCY_NS_MAX;
    use proptest::prelude::*;

    #[test]
    fn moments_match_a_calculation_by_hand() {
        // By hand: 2, 4, 4, 4, 5, 5, 7, 9 us: mean 5, sum of squared deviations 32, sample sd sqrt(32/7).
        let mut t = FineTally::new();
        for us in [2, 4, 4, 4, 5, 5, 7, 9] {
            t.add(us * 1000, Fine::bucket(us * 1000), 512);
        }
        let l = t.latency();
        assert_eq!(l.mean, 5.0);
        assert!((l.stddev - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(l.max, 9.0);
        assert!((l.p50 - 4.0).abs() < 0.01, "{}", l.p50);
        assert_eq!(t.bytes, 8 * 512);
    }

    #[test]
    fn an_empty_tally_is_undefined_not_zero() {
        let l = CoarseTally::new().latency();
        assert!(l.mean.is_nan() && l.p99.is_nan() && l.max.is_nan());
        assert_eq!(serde_json::to_value(&l).unwrap()["p99"], serde_json::Value::Null);
    }

    #[test]
    fn very_long_latencies_are_clamped_in_the_histogram_only() {
        let mut t = CoarseTally::new();
        t.add(2 * LATENCY_NS_MAX, Coarse::bucket(2 * LATENCY_NS_MAX), 0);
        assert_eq!(t.latency().max, 2.0 * LATENCY_NS_MAX as f64 / 1e3);
        assert!(t.latency().p99 >= 0.999 * LATENCY_NS_MAX as f64 / 1e3);
        t.add(u64::MAX, Coarse::bucket(u64::MAX), 0);
        assert!(t.latency().stddev.is_finite());
    }

    proptest! {
        #[test]
        fn the_cdf_rises_to_one_in_few_points(ns in prop::collection::vec(1u64..10_000_000_000, 1..3000)) {
            let mut t = FineTally::new();
            ns.iter().for_each(|&v| t.add(v, Fine::bucket(v), 0));
            let c = t.cdf();
            prop_assert!(c.us.len() <= CDF_POINTS_MAX && c.us.len() == c.fraction.len());
            prop_assert!(c.us.windows(2).all(|w| w[0] <= w[1]));
            prop_assert!(c.fraction.windows(2).all(|w| w[0] < w[1]));
            prop_assert_eq!(*c.fraction.last().unwrap(), 1.0);
        }
    }
}
