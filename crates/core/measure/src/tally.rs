//! Tallies of requests and latencies: exact moments, and a histogram for percentiles.

use crate::histogram::{Coarse, Fine, Histogram};
use crate::parts::PartSums;
use crate::result::{Cdf, Latency};
use crate::survival::{Step, Survival};

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

/// Counts and latencies of one group of requests.
#[derive(Clone, Debug)]
pub(crate) struct Tally<const BITS: u32> {
    /// Requests that finished in the measured time.
    pub(crate) count: u64,
    /// Data that they moved.
    pub(crate) bytes: u64,
    pub(crate) latencies: Latencies<BITS>,
    /// Where the time of those goes whose latencies count.
    pub(crate) parts: PartSums,
}

impl<const BITS: u32> Tally<BITS> {
    pub(crate) fn new() -> Self {
        Tally { count: 0, bytes: 0, latencies: Latencies::new(), parts: PartSums::default() }
    }

    /// Counts a request that finished in the measured time.
    #[inline]
    pub(crate) fn finished(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }

    pub(crate) fn join(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.latencies.join(&other.latencies);
        self.parts.join(&other.parts);
    }
}

/// Latencies of one group of requests.
#[derive(Clone, Debug)]
pub(crate) struct Latencies<const BITS: u32> {
    pub(crate) moments: Moments,
    pub(crate) histogram: Histogram<BITS>,
    /// Waits of unfinished requests, ns; filled at the end of a run.
    waits: Vec<u64>,
}

impl<const BITS: u32> Latencies<BITS> {
    pub(crate) fn new() -> Self {
        Latencies { moments: Moments::default(), histogram: Histogram::default(), waits: Vec::new() }
    }

    /// Counts a latency of `ns` whose histogram bucket is `bucket`.
    #[inline]
    pub(crate) fn add(&mut self, ns: u64, bucket: usize) {
        self.moments.add(ns);
        self.histogram.add(bucket);
    }

    /// Counts a request that is unfinished after `ns`.
    pub(crate) fn waiting(&mut self, ns: u64) {
        self.waits.push(ns);
    }

    /// Unfinished requests.
    pub(crate) fn waits(&self) -> usize {
        self.waits.len()
    }

    pub(crate) fn join(&mut self, other: &Self) {
        self.moments.join(&other.moments);
        self.histogram.join(&other.histogram);
        self.waits.extend(&other.waits);
    }

    /// The distribution function; its latencies are the upper bounds of buckets.
    fn survival(&self) -> Survival {
        let bound = |ns: &u64| Histogram::<BITS>::longest(Histogram::<BITS>::bucket(*ns));
        Survival::of(self.histogram.recorded(), self.waits.iter().map(bound).collect())
    }

    /// The longest latency or wait, ns.
    fn longest(&self) -> u64 {
        self.waits.iter().copied().max().unwrap_or(0).max(self.moments.max)
    }

    /// Latencies at the quantiles, us; where one is beyond what is known the longest wait, a lower bound.
    fn quantiles_us<const N: usize>(&self, survival: &Survival, quantiles: [f64; N]) -> [f64; N] {
        if survival.known_to.is_nan() {
            return [f64::NAN; N];
        }
        let ns = |quantile| survival.quantile_ns(quantile).map(|ns| ns.min(self.moments.max));
        quantiles.map(|quantile| ns(quantile).unwrap_or_else(|| self.longest()) as f64 / 1e3)
    }

    /// The latency within which `quantile` (0 to 1) of the requests finish, us; NaN without requests.
    pub(crate) fn quantile_us(&self, quantile: f64) -> f64 {
        self.quantiles_us(&self.survival(), [quantile])[0]
    }

    /// The figures of the group.
    pub(crate) fn latency(&self) -> Latency {
        let survival = self.survival();
        let [p50, p95, p99, p99_9] = self.quantiles_us(&survival, [0.5, 0.95, 0.99, 0.999]);
        let (samples, unfinished) = (self.moments.count, self.waits.len() as u64);
        let of_finished = self.moments.latency();
        if unfinished == 0 {
            return Latency { p50, p95, p99, p99_9, known_to: survival.known_to, ..of_finished };
        }
        let middle = |step: &Step| Histogram::<BITS>::middle(step.ns);
        let plain = |step: &Step| step.count as f64 / samples as f64;
        // Beyond what is known, every latency is taken to be the longest wait.
        let (rest, longest) = (1.0 - survival.known_to, self.longest() as f64);
        // The exact mean of the finished, moved by what the unfinished change: buckets then add no error of their own.
        let moved: f64 = survival.steps.iter().map(|step| (step.mass - plain(step)) * middle(step)).sum();
        let exact = if samples > 0 { of_finished.mean * 1e3 } else { 0.0 };
        let mean = exact + moved + rest * longest;
        let deviation = |ns: f64| (ns - mean) * (ns - mean);
        let spread: f64 = survival.steps.iter().map(|step| step.mass * deviation(middle(step))).sum();
        let n = (samples + unfinished) as f64;
        let variance = (spread + rest * deviation(longest)) * n / (n - 1.0).max(1.0);
        Latency {
            samples,
            unfinished,
            known_to: survival.known_to,
            mean: mean / 1e3,
            p50,
            p95,
            p99,
            p99_9,
            max: longest / 1e3,
            stddev: variance.sqrt() / 1e3,
        }
    }

    /// The cumulative distribution, thinned to keep the shape of its middle and tail: a point where the fraction has
    /// grown by 1 % or the remainder has shrunk by a fifth.
    pub(crate) fn cdf(&self) -> Cdf {
        let steps = self.survival().steps;
        let (mut us, mut fraction) = (Vec::new(), Vec::new());
        let mut kept = 0.0;
        for (i, step) in steps.iter().enumerate() {
            let grown = step.fraction - kept >= 0.01;
            let shrunk = 1.0 - step.fraction <= (1.0 - kept) * 0.8;
            if grown || shrunk || us.is_empty() || i + 1 == steps.len() {
                us.push(step.ns.min(self.moments.max) as f64 / 1e3);
                fraction.push(step.fraction);
                kept = step.fraction;
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
    /// The figures of a group of finished requests without a histogram: percentiles are NaN.
    pub(crate) fn latency(&self) -> Latency {
        let (mean, stddev, max) = self.mean_stddev_max();
        Latency { samples: self.count, mean, max, stddev, ..Latency::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    const HOUR_NS: u64 = 3_600_000_000_000;
    use proptest::prelude::*;

    #[test]
    fn moments_match_a_calculation_by_hand() {
        // By hand: 2, 4, 4, 4, 5, 5, 7, 9 us: mean 5, sum of squared deviations 32, sample sd sqrt(32/7).
        let mut t = Latencies::<{ Fine::BITS }>::new();
        for us in [2, 4, 4, 4, 5, 5, 7, 9] {
            t.add(us * 1000, Fine::bucket(us * 1000));
        }
        let l = t.latency();
        assert_eq!(l.mean, 5.0);
        assert!((l.stddev - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(l.max, 9.0);
        assert!((l.p50 - 4.0).abs() < 0.01, "{}", l.p50);
        assert_eq!((l.samples, l.unfinished, l.known_to), (8, 0, 1.0));
    }

    #[test]
    fn an_empty_tally_is_undefined_not_zero() {
        let l = Latencies::<{ Coarse::BITS }>::new().latency();
        assert!(l.mean.is_nan() && l.p99.is_nan() && l.max.is_nan());
        assert_eq!(serde_json::to_value(&l).unwrap()["p99"], serde_json::Value::Null);
    }

    #[test]
    fn very_long_latencies_are_clamped_in_the_histogram_only() {
        let mut t = Latencies::<{ Coarse::BITS }>::new();
        t.add(2 * HOUR_NS, Coarse::bucket(2 * HOUR_NS));
        assert_eq!(t.latency().max, 2.0 * HOUR_NS as f64 / 1e3);
        assert!(t.latency().p99 >= 0.999 * HOUR_NS as f64 / 1e3);
        t.add(u64::MAX, Coarse::bucket(u64::MAX));
        assert!(t.latency().stddev.is_finite());
    }

    #[test]
    fn unfinished_requests_count_as_longer_than_their_wait() {
        // By hand: 10, 20 and 40 us finished, 30 us unfinished. 10 and 20 have a quarter each, and the half beyond 20 us is
        // that of 40 us: mean 27.5, variance (306.25 + 56.25 + 2 x 156.25) / 4 x 4 / 3.
        let mut t = Latencies::<{ Fine::BITS }>::new();
        for us in [10, 20, 40] {
            t.add(us * 1000, Fine::bucket(us * 1000));
        }
        t.waiting(30_000);
        let l = t.latency();
        assert!((l.mean - 27.5).abs() < 1e-2 && (l.stddev - 225.0f64.sqrt()).abs() < 2e-2, "{l:?}");
        assert!((l.p50 - 20.0).abs() < 0.02 && (l.p99 - 40.0).abs() < 0.04, "{l:?}");
        assert_eq!((l.samples, l.unfinished, l.known_to, l.max), (3, 1, 1.0, 40.0));
        assert_eq!(t.cdf().fraction, [0.25, 0.5, 1.0]);
        // One that waits longer than all: what is beyond is at least as long as that.
        t.waiting(1_200_000);
        let l = t.latency();
        assert!((l.known_to - 0.7).abs() < 1e-12 && l.is_known(0.5) && !l.is_known(0.99), "{l:?}");
        assert_eq!((l.p99, l.max), (1200.0, 1200.0));
        assert!((l.mean - (0.2 * 10.0 + 0.2 * 20.0 + 0.3 * 40.0 + 0.3 * 1200.0)).abs() < 0.1, "{l:?}");
    }

    #[test]
    fn requests_of_which_none_finished_have_lower_bounds_only() {
        let mut t = Latencies::<{ Coarse::BITS }>::new();
        t.waiting(5_000);
        t.waiting(7_000);
        let l = t.latency();
        assert_eq!((l.samples, l.unfinished, l.known_to), (0, 2, 0.0));
        assert_eq!((l.mean, l.p50, l.p99, l.max, l.stddev), (7.0, 7.0, 7.0, 7.0, 0.0));
        assert!(t.cdf().us.is_empty());
    }

    proptest! {
        #[test]
        fn the_cdf_rises_to_one_in_few_points(ns in prop::collection::vec(1u64..10_000_000_000, 1..3000)) {
            let mut t = Latencies::<{ Fine::BITS }>::new();
            ns.iter().for_each(|&v| t.add(v, Fine::bucket(v)));
            let c = t.cdf();
            prop_assert!(c.us.len() <= CDF_POINTS_MAX && c.us.len() == c.fraction.len());
            prop_assert!(c.us.windows(2).all(|w| w[0] <= w[1]));
            prop_assert!(c.fraction.windows(2).all(|w| w[0] < w[1]));
            prop_assert_eq!(*c.fraction.last().unwrap(), 1.0);
        }
    }
}
