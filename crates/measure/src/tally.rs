//! Counting latencies: exact moments and a histogram for the percentiles.

use crate::result::{Cdf, Latency};
use hdrhistogram::{Counter, Histogram};

/// Longer latencies are counted as this one in histograms (the maximum and the mean stay exact).
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Points of a thinned distribution, at most.
const CDF_POINTS_MAX: usize = 200;

/// A histogram from 1 ns to 1 h with `digits` significant decimal digits.
pub(crate) fn histogram<C: Counter>(digits: u8) -> Histogram<C> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, digits).expect("bounds and digits are constants in range")
}

/// Count, sum and sum of squares of latencies in ns: exact, whatever the order of recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moments {
    pub(crate) count: u64,
    sum: u128,
    squares: u128,
    max: u64,
}

impl Moments {
    #[inline]
    pub(crate) fn add(&mut self, ns: u64) {
        self.count += 1;
        self.sum += u128::from(ns);
        // Bounded at 78 h, so that the squares of 2^32 requests cannot overflow.
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
        // In integers where they fit: equal latencies then have no spread at all.
        let scaled = u128::from(self.count).checked_mul(self.squares).zip(self.sum.checked_mul(self.sum));
        let spread = match scaled {
            Some((squares, square)) => squares.saturating_sub(square) as f64 / n,
            None => (self.squares as f64 - mean * self.sum as f64).max(0.0),
        };
        let variance = if self.count < 2 { 0.0 } else { spread / (n - 1.0) };
        (mean / 1e3, variance.sqrt() / 1e3, self.max as f64 / 1e3)
    }
}

/// Moments and percentiles of one group of requests.
#[derive(Clone, Debug)]
pub(crate) struct Tally<C: Counter> {
    pub(crate) moments: Moments,
    pub(crate) bytes: u64,
    pub(crate) histogram: Histogram<C>,
}

impl<C: Counter> Tally<C> {
    pub(crate) fn new(digits: u8) -> Tally<C> {
        Tally { moments: Moments::default(), bytes: 0, histogram: histogram(digits) }
    }

    #[inline]
    pub(crate) fn add(&mut self, ns: u64, bytes: u64) {
        self.moments.add(ns);
        self.bytes += bytes;
        self.histogram.saturating_record(ns);
    }

    pub(crate) fn join(&mut self, other: &Tally<C>) {
        self.moments.join(&other.moments);
        self.bytes += other.bytes;
        self.histogram.add(&other.histogram).expect("both have the same bounds");
    }

    pub(crate) fn latency(&self) -> Latency {
        latency(&self.moments, Some(&self.histogram))
    }
}

/// The figures of a group; without a histogram the percentiles are unknown.
pub(crate) fn latency<C: Counter>(moments: &Moments, histogram: Option<&Histogram<C>>) -> Latency {
    let (mean, stddev, max) = moments.mean_stddev_max();
    let at = |quantile: f64| match histogram {
        Some(h) => percentile_us(h, quantile).min(max),
        None => f64::NAN,
    };
    if moments.count == 0 {
        return Latency::default();
    }
    Latency { mean, p50: at(0.5), p95: at(0.95), p99: at(0.99), p99_9: at(0.999), max, stddev }
}

/// Latency in us that `quantile` of the recorded ones do not exceed; NaN without any.
pub(crate) fn percentile_us<C: Counter>(histogram: &Histogram<C>, quantile: f64) -> f64 {
    if histogram.is_empty() {
        return f64::NAN;
    }
    histogram.value_at_quantile(quantile).min(histogram.max()) as f64 / 1e3
}

/// The cumulative distribution, thinned so that both its middle and its tail keep their shape:
/// a point where the fraction has grown by a hundredth or the rest has shrunk by a fifth.
pub(crate) fn cdf<C: Counter>(histogram: &Histogram<C>) -> Cdf {
    let total = histogram.len();
    let (mut us, mut fraction) = (Vec::new(), Vec::new());
    let (mut seen, mut kept) = (0u64, 0u64);
    for bucket in histogram.iter_recorded() {
        seen += bucket.count_since_last_iteration();
        let rest = (total - seen) as f64;
        let grown = (seen - kept) as f64 >= total as f64 / 100.0;
        let shrunk = rest <= (total - kept) as f64 * 0.8;
        if grown || shrunk || us.is_empty() || seen == total {
            us.push(bucket.value_iterated_to().min(histogram.max()) as f64 / 1e3);
            fraction.push(seen as f64 / total as f64);
            kept = seen;
        }
    }
    if us.len() > CDF_POINTS_MAX {
        // Only beyond 10^10 requests: drop from the middle, keep the tail.
        let spare = us.len() - CDF_POINTS_MAX;
        us.drain(1..=spare);
        fraction.drain(1..=spare);
    }
    Cdf { us, fraction }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn moments_are_those_of_the_numbers() {
        // By hand: 2, 4, 4, 4, 5, 5, 7, 9 us: mean 5, sum of squared deviations 32, sample sd sqrt(32/7).
        let mut t = Tally::<u32>::new(3);
        for us in [2, 4, 4, 4, 5, 5, 7, 9] {
            t.add(us * 1000, 512);
        }
        let l = t.latency();
        assert_eq!(l.mean, 5.0);
        assert!((l.stddev - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(l.max, 9.0);
        assert!((l.p50 - 4.0).abs() < 0.01, "{}", l.p50);
        assert_eq!(t.bytes, 8 * 512);
    }

    #[test]
    fn nothing_recorded_is_undefined_not_zero() {
        let l = Tally::<u32>::new(2).latency();
        assert!(l.mean.is_nan() && l.p99.is_nan() && l.max.is_nan());
        assert_eq!(serde_json::to_value(&l).unwrap()["p99"], serde_json::Value::Null);
    }

    #[test]
    fn very_long_latencies_are_clamped_in_the_histogram_only() {
        let mut t = Tally::<u64>::new(3);
        t.add(2 * LATENCY_NS_MAX, 0);
        assert_eq!(t.latency().max, 2.0 * LATENCY_NS_MAX as f64 / 1e3);
        assert!(t.latency().p99 >= 0.999 * LATENCY_NS_MAX as f64 / 1e3);
        t.add(u64::MAX, 0);
        assert!(t.latency().stddev.is_finite());
    }

    proptest! {
        #[test]
        fn percentiles_stay_within_the_stated_error(mut ns in prop::collection::vec(1u64..LATENCY_NS_MAX, 1..400)) {
            let mut t = Tally::<u32>::new(3);
            ns.iter().for_each(|&v| t.add(v, 1));
            ns.sort_unstable();
            let l = t.latency();
            for (q, got) in [(0.5, l.p50), (0.95, l.p95), (0.99, l.p99), (0.999, l.p99_9)] {
                let rank = ((q * ns.len() as f64).ceil() as usize).clamp(1, ns.len());
                let exact = ns[rank - 1] as f64 / 1e3;
                prop_assert!((got - exact).abs() <= exact * 1e-3 + 1e-3, "p{q}: {got} for {exact}");
            }
            prop_assert_eq!(l.max, ns[ns.len() - 1] as f64 / 1e3);
        }

        #[test]
        fn cdf_rises_to_one_in_few_points(ns in prop::collection::vec(1u64..10_000_000_000, 1..3000)) {
            let mut h = histogram::<u32>(3);
            ns.iter().for_each(|&v| h.saturating_record(v));
            let c = cdf(&h);
            prop_assert!(c.us.len() <= CDF_POINTS_MAX && c.us.len() == c.fraction.len());
            prop_assert!(c.us.windows(2).all(|w| w[0] <= w[1]));
            prop_assert!(c.fraction.windows(2).all(|w| w[0] < w[1]));
            prop_assert_eq!(*c.fraction.last().unwrap(), 1.0);
        }
    }
}
