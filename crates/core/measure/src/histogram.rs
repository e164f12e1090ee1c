//! Logarithmic-linear histograms, in the manner of HdrHistogram.
//!
//! Buckets keep the first `BITS` binary digits, so percentiles are exact to within 2^(1-BITS). The bucket of a value
//! depends on `BITS` alone: one lookup serves several histograms, and counting is then a single addition. The
//! `hdrhistogram` crate looks it up for each histogram.

/// One hour in ns.
const HOUR_NS: u64 = 3_600_000_000_000;

/// Two decimal digits (0.8 %), for the many histograms of tenants, tasks and intervals: 4,592 buckets, 36 KiB.
pub(crate) type Coarse = Histogram<8>;
/// Three decimal digits (0.1 %), for the totals of a run: 264 KiB.
pub(crate) type Fine = Histogram<11>;

/// Counts of values from 0 to `MAX`, of latencies in ns; larger ones are counted as `MAX`. The default has no buckets yet, and
/// makes them as they are needed: from the smallest value counted to the largest.
#[derive(Clone, Debug, Default)]
pub struct Histogram<const BITS: u32, const MAX: u64 = HOUR_NS> {
    counts: Vec<u64>,
    /// The bucket of the first count.
    first: usize,
}

impl<const BITS: u32, const MAX: u64> Histogram<BITS, MAX> {
    /// Binary digits that a bucket keeps.
    pub const BITS: u32 = BITS;

    /// With all its buckets, so that counting allocates nothing.
    pub fn new() -> Self {
        Histogram { counts: vec![0; Self::bucket(MAX) + 1], first: 0 }
    }

    /// Index of the bucket that counts a value.
    #[inline]
    pub fn bucket(value: u64) -> usize {
        let value = value.min(MAX);
        let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS);
        ((u64::from(shift) << (BITS - 1)) + (value >> shift)) as usize
    }

    /// Largest value of a bucket.
    pub fn longest(bucket: usize) -> u64 {
        let half = 1u64 << (BITS - 1);
        let bucket = bucket as u64;
        let shift = (bucket / half).saturating_sub(1);
        (((bucket - shift * half) << shift) | ((1 << shift) - 1)).min(MAX)
    }

    /// Smallest value of the bucket with this largest one.
    pub fn shortest(longest: u64) -> u64 {
        Self::bucket(longest).checked_sub(1).map_or(0, |before| Self::longest(before) + 1)
    }

    /// Middle of the bucket with this largest value.
    pub fn middle(longest: u64) -> f64 {
        f64::midpoint(Self::shortest(longest) as f64, longest as f64)
    }

    /// Counts one value by its bucket ([`Histogram::bucket`]).
    #[inline]
    pub fn add(&mut self, bucket: usize) {
        self.add_many(bucket, 1);
    }

    /// Counts `count` values of one bucket.
    #[inline]
    pub fn add_many(&mut self, bucket: usize, count: u64) {
        match self.counts.get_mut(bucket.wrapping_sub(self.first)) {
            Some(counted) => *counted = counted.saturating_add(count),
            None => self.reach(bucket, count),
        }
    }

    /// Makes the buckets up or down to one that is not there yet, and counts there.
    #[cold]
    fn reach(&mut self, bucket: usize, count: u64) {
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if let Some(more) = self.first.checked_sub(bucket) {
            self.counts.splice(..0, std::iter::repeat_n(0, more));
            self.first = bucket;
        }
        let place = bucket - self.first;
        self.counts.resize(self.counts.len().max(place + 1), 0);
        self.counts[place] += count;
    }

    /// Adds all that another one counted.
    pub fn join(&mut self, other: &Self) {
        for (bucket, count) in (other.first..).zip(&other.counts).filter(|(_, count)| **count > 0) {
            self.add_many(bucket, *count);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.counts.fill(0);
    }

    /// Number of values.
    pub fn len(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Has it counted none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Largest values of the buckets that hold the `quantiles` (rising, 0 to 1) of the counted values. `None` if nothing was
    /// counted.
    pub fn quantiles<const N: usize>(&self, quantiles: [f64; N]) -> Option<[u64; N]> {
        let total = self.len();
        let rank = |q: f64| ((q * total as f64).ceil() as u64).clamp(1, total);
        let mut found = [0; N];
        let mut next = 0;
        let mut seen = 0;
        for (longest, count) in self.recorded() {
            seen += count;
            while next < N && seen >= rank(quantiles[next]) {
                found[next] = longest;
                next += 1;
            }
        }
        (total > 0).then_some(found)
    }

    /// The `quantile` (0 to 1) of latencies in us; NaN if nothing was counted.
    pub fn percentile_us(&self, quantile: f64) -> f64 {
        self.quantiles([quantile]).map_or(f64::NAN, |[ns]| ns as f64 / 1e3)
    }

    /// Buckets that are not empty, as (largest value, count), rising.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let used = (self.first..).zip(&self.counts).filter(|(_, count)| **count > 0);
        used.map(|(bucket, count)| (Self::longest(bucket), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_cover_every_latency_without_gaps() {
        let mut expected = 0;
        for bucket in 0..Coarse::new().counts.len() {
            assert_eq!(Coarse::bucket(expected), bucket, "of {expected} ns");
            assert_eq!(Coarse::bucket(Coarse::longest(bucket)), bucket);
            expected = Coarse::longest(bucket) + 1;
        }
        assert_eq!(Coarse::bucket(u64::MAX), Coarse::bucket(HOUR_NS));
    }

    proptest! {
        #[test]
        fn a_bucket_is_as_narrow_as_its_digits(ns in 0u64..=HOUR_NS) {
            let fine = Fine::longest(Fine::bucket(ns));
            prop_assert!(fine >= ns && (fine - ns) as f64 <= ns as f64 / 1024.0);
            let coarse = Coarse::longest(Coarse::bucket(ns));
            prop_assert!(coarse >= ns && (coarse - ns) as f64 <= ns as f64 / 128.0);
        }

        #[test]
        fn quantiles_match_the_sorted_list(mut ns in prop::collection::vec(0u64..HOUR_NS, 1..300)) {
            let mut h = Fine::new();
            ns.iter().for_each(|&v| h.add(Fine::bucket(v)));
            ns.sort_unstable();
            let at = [0.0, 0.5, 0.99, 1.0];
            let found = h.quantiles(at).unwrap();
            for (q, got) in at.into_iter().zip(found) {
                let rank = ((q * ns.len() as f64).ceil() as usize).clamp(1, ns.len());
                prop_assert_eq!(got, Fine::longest(Fine::bucket(ns[rank - 1])));
            }
            prop_assert_eq!(h.len(), ns.len() as u64);
        }

        #[test]
        fn two_that_are_joined_are_one(
            first in prop::collection::vec(0u64..2 * HOUR_NS, 0..50),
            second in prop::collection::vec(0u64..2 * HOUR_NS, 1..50),
        ) {
            let of = |values: &[u64]| {
                let mut histogram = Fine::default();
                values.iter().for_each(|ns| histogram.add(Fine::bucket(*ns)));
                histogram
            };
            let whole = of(&[first.as_slice(), second.as_slice()].concat());
            let mut joined = of(&first);
            joined.join(&of(&second));
            prop_assert_eq!(joined.recorded().collect::<Vec<_>>(), whole.recorded().collect::<Vec<_>>());
            let longest = (*first.iter().chain(&second).max().unwrap()).min(HOUR_NS);
            let [found] = joined.quantiles([1.0]).unwrap();
            prop_assert!(found >= longest && found as f64 <= longest as f64 * 1.001);
            for (to, _) in whole.recorded() {
                let from = Fine::shortest(to);
                prop_assert!(from <= to && to - from <= to / 1000);
            }
        }

        #[test]
        fn buckets_reach_to_the_largest_numbers(value in any::<u64>()) {
            type Whole = Histogram<12, { u64::MAX }>;
            let longest = Whole::longest(Whole::bucket(value));
            prop_assert!(Whole::shortest(longest) <= value && value <= longest);
        }
    }

    #[test]
    fn an_empty_one_has_no_quantile() {
        assert_eq!((Fine::default().quantiles([0.5]), Fine::new().is_empty()), (None, true));
        assert!(Fine::new().percentile_us(0.5).is_nan());
    }
}
