//! Logarithmic-linear histograms of latencies, in the manner of HdrHistogram.
//!
//! Buckets are as wide as the last of `BITS` binary digits, so percentiles are right to within
//! 2^(1-BITS). The place of a latency depends on `BITS` alone: whoever feeds several histograms finds
//! it once, and each then costs a single addition. That is why this is not the `hdrhistogram` crate.

/// Longer latencies are counted as this one (moments keep them exactly).
pub(crate) const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Digits of [`Coarse`]: two decimal ones (0.8 %).
const COARSE_BITS: u32 = 8;
/// Digits of [`Fine`]: three decimal ones (0.1 %).
const FINE_BITS: u32 = 11;

/// For groups of which there are many: 4,592 buckets, 36 KiB.
pub(crate) type Coarse = Histogram<COARSE_BITS>;
/// For totals: 264 KiB.
pub(crate) type Fine = Histogram<FINE_BITS>;

/// Counts of latencies from 0 ns to 1 h.
#[derive(Clone, Debug)]
pub(crate) struct Histogram<const BITS: u32> {
    counts: Vec<u64>,
}

impl<const BITS: u32> Histogram<BITS> {
    pub(crate) const BITS: u32 = BITS;

    pub(crate) fn new() -> Self {
        Histogram { counts: vec![0; Self::place(LATENCY_NS_MAX) + 1] }
    }

    /// The bucket of a latency.
    #[inline]
    pub(crate) fn place(ns: u64) -> usize {
        let ns = ns.min(LATENCY_NS_MAX);
        let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(BITS);
        ((u64::from(shift) << (BITS - 1)) + (ns >> shift)) as usize
    }

    /// The longest latency of a bucket, ns.
    fn longest(place: usize) -> u64 {
        let half = 1u64 << (BITS - 1);
        let place = place as u64;
        let shift = (place / half).saturating_sub(1);
        ((place - shift * half + 1) << shift) - 1
    }

    /// Counts one latency whose [`Histogram::place`] is known.
    #[inline]
    pub(crate) fn add(&mut self, place: usize) {
        self.counts[place] += 1;
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

    /// Latencies that the `quantiles` (rising, 0 to 1) of the counted ones do not exceed, ns; of a
    /// bucket the longest. Nothing where nothing was counted.
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

    /// Latency in us that `quantile` of the counted ones do not exceed; NaN without any.
    pub(crate) fn percentile_us(&self, quantile: f64) -> f64 {
        self.quantiles_ns([quantile]).map_or(f64::NAN, |[ns]| ns as f64 / 1e3)
    }

    /// Buckets that are not empty: longest latency in ns, count; rising.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let used = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(place, count)| (Self::longest(place), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other_without_gap() {
        let mut expected = 0;
        for place in 0..Coarse::new().counts.len() {
            assert_eq!(Coarse::place(expected), place, "of {expected} ns");
            assert_eq!(Coarse::place(Coarse::longest(place).min(LATENCY_NS_MAX)), place);
            expected = Coarse::longest(place) + 1;
        }
        assert_eq!(Coarse::place(u64::MAX), Coarse::place(LATENCY_NS_MAX));
    }

    proptest! {
        #[test]
        fn a_bucket_is_as_narrow_as_its_digits_promise(ns in 0u64..=LATENCY_NS_MAX) {
            let fine = Fine::longest(Fine::place(ns));
            prop_assert!(fine >= ns && (fine - ns) as f64 <= ns as f64 / 1024.0);
            let coarse = Coarse::longest(Coarse::place(ns));
            prop_assert!(coarse >= ns && (coarse - ns) as f64 <= ns as f64 / 128.0);
        }

        #[test]
        fn quantiles_are_those_of_the_sorted_list(mut ns in prop::collection::vec(0u64..LATENCY_NS_MAX, 1..300)) {
            let mut h = Fine::new();
            ns.iter().for_each(|&v| h.add(Fine::place(v)));
            ns.sort_unstable();
            let at = [0.0, 0.5, 0.99, 1.0];
            let found = h.quantiles_ns(at).unwrap();
            for (q, got) in at.into_iter().zip(found) {
                let rank = ((q * ns.len() as f64).ceil() as usize).clamp(1, ns.len());
                prop_assert_eq!(got, Fine::longest(Fine::place(ns[rank - 1])));
            }
            prop_assert_eq!(h.len(), ns.len() as u64);
        }
    }
}
