//! Logarithmic-linear histograms of latencies, in the manner of HdrHistogram.
//!
//! Buckets keep the first `BITS` binary digits, so percentiles are exact to within 2^(1-BITS). The bucket of a latency
//! depends on `BITS` alone: one lookup serves several histograms, and counting is then a single addition. The
//! `hdrhistogram` crate looks it up for each histogram.

/// Upper limit of the buckets; longer latencies are counted as this one (moments stay exact).
pub(crate) const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Binary digits of [`Coarse`]: two decimal digits (0.8 %).
const COARSE_BITS: u32 = 8;
/// Binary digits of [`Fine`]: three decimal digits (0.1 %).
const FINE_BITS: u32 = 11;

/// For the many histograms of tenants, tasks and intervals: 4,592 buckets, 36 KiB.
pub(crate) type Coarse = Histogram<COARSE_BITS>;
/// For the totals of a run: 264 KiB.
pub(crate) type Fine = Histogram<FINE_BITS>;

/// Counts of latencies from 0 ns to 1 h.
#[derive(Clone, Debug)]
pub(crate) struct Histogram<const BITS: u32> {
    counts: Vec<u64>,
}

impl<const BITS: u32> Histogram<BITS> {
    pub(crate) const BITS: u32 = BITS;

    pub(crate) fn new() -> Self {
        Histogram { counts: vec![0; Self::bucket(LATENCY_NS_MAX) + 1] }
    }

    /// Index of the bucket that counts a latency.
    #[inline]
    pub(crate) fn bucket(ns: u64) -> usize {
        let ns = ns.min(LATENCY_NS_MAX);
        let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(BITS);
        ((u64::from(shift) << (BITS - 1)) + (ns >> shift)) as usize
    }

    /// Upper bound of a bucket, ns.
    pub(crate) fn longest(bucket: usize) -> u64 {
        let half = 1u64 << (BITS - 1);
        let bucket = bucket as u64;
        let shift = (bucket / half).saturating_sub(1);
        ((bucket - shift * half + 1) << shift) - 1
    }

    /// Middle of the bucket with this upper bound, ns.
    pub(crate) fn middle_ns(longest: u64) -> f64 {
        f64::midpoint(Self::shortest(longest) as f64, longest as f64)
    }

    /// Lower bound of the bucket with this upper bound, ns.
    pub(crate) fn shortest(longest: u64) -> u64 {
        Self::bucket(longest).checked_sub(1).map_or(0, |before| Self::longest(before) + 1)
    }

    /// Counts one latency by its bucket ([`Histogram::bucket`]).
    #[inline]
    pub(crate) fn add(&mut self, bucket: usize) {
        self.counts[bucket] += 1;
    }

    /// Counts so many latencies of one bucket.
    pub(crate) fn add_many(&mut self, bucket: usize, count: u64) {
        self.counts[bucket] = self.counts[bucket].saturating_add(count);
    }

    pub(crate) fn join(&mut self, other: &Self) {
        for (a, b) in self.counts.iter_mut().zip(&other.counts) {
            *a += b;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.counts.fill(0);
    }

    pub(crate) fn len(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Upper bounds, in ns, of the buckets that hold the `quantiles` (rising, 0 to 1) of the counted latencies. `None`
    /// if nothing was counted.
    pub(crate) fn quantiles_ns<const N: usize>(&self, quantiles: [f64; N]) -> Option<[u64; N]> {
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

    /// The `quantile` (0 to 1) of the counted latencies, us; NaN if nothing was counted.
    pub(crate) fn percentile_us(&self, quantile: f64) -> f64 {
        self.quantiles_ns([quantile]).map_or(f64::NAN, |[ns]| ns as f64 / 1e3)
    }

    /// Buckets that are not empty, as (upper bound in ns, count), rising.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let used = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
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
            assert_eq!(Coarse::bucket(Coarse::longest(bucket).min(LATENCY_NS_MAX)), bucket);
            expected = Coarse::longest(bucket) + 1;
        }
        assert_eq!(Coarse::bucket(u64::MAX), Coarse::bucket(LATENCY_NS_MAX));
    }

    proptest! {
        #[test]
        fn a_bucket_is_as_narrow_as_its_digits(ns in 0u64..=LATENCY_NS_MAX) {
            let fine = Fine::longest(Fine::bucket(ns));
            prop_assert!(fine >= ns && (fine - ns) as f64 <= ns as f64 / 1024.0);
            let coarse = Coarse::longest(Coarse::bucket(ns));
            prop_assert!(coarse >= ns && (coarse - ns) as f64 <= ns as f64 / 128.0);
        }

        #[test]
        fn quantiles_match_the_sorted_list(mut ns in prop::collection::vec(0u64..LATENCY_NS_MAX, 1..300)) {
            let mut h = Fine::new();
            ns.iter().for_each(|&v| h.add(Fine::bucket(v)));
            ns.sort_unstable();
            let at = [0.0, 0.5, 0.99, 1.0];
            let found = h.quantiles_ns(at).unwrap();
            for (q, got) in at.into_iter().zip(found) {
                let rank = ((q * ns.len() as f64).ceil() as usize).clamp(1, ns.len());
                prop_assert_eq!(got, Fine::longest(Fine::bucket(ns[rank - 1])));
            }
            prop_assert_eq!(h.len(), ns.len() as u64);
        }
    }
}
