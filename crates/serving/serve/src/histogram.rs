//! Latencies of a tenant, counted in buckets that grow with the value.

use dumbwaiter_block::Nanos;

/// Buckets per doubling, as a power of two: a bucket is at most an eighth wide.
const FINE_SHIFT: u32 = 3;
/// The longest latency with a bucket of its own: 2^40 ns, 18 minutes.
const LONGEST_SHIFT: u32 = 40;
const BUCKETS: usize = ((LONGEST_SHIFT - FINE_SHIFT + 1) << FINE_SHIFT) as usize;

/// Counts of latencies; percentiles are exact to an eighth.
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
}

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        LatencyHistogram { counts: vec![0; BUCKETS], count: 0, sum: 0 }
    }
}

impl LatencyHistogram {
    #[inline]
    fn bucket(ns: u64) -> usize {
        let ns = ns.min((1 << LONGEST_SHIFT) - 1);
        let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(FINE_SHIFT + 1);
        ((u64::from(shift) << FINE_SHIFT) + (ns >> shift)) as usize
    }

    /// First value behind a bucket, ns.
    fn end(bucket: usize) -> u64 {
        let bucket = bucket as u64 + 1;
        let shift = (bucket >> FINE_SHIFT).saturating_sub(1);
        (bucket - (shift << FINE_SHIFT)) << shift
    }

    /// Counts one latency.
    #[inline]
    pub fn add(&mut self, latency: Nanos) {
        self.counts[Self::bucket(latency.0)] += 1;
        self.count += 1;
        self.sum += u128::from(latency.0);
    }

    /// Latencies counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum, ns.
    pub fn sum_ns(&self) -> u128 {
        self.sum
    }

    /// An upper bound of this part (0 to 1) of the latencies; `None` if there are none.
    pub fn quantile(&self, part: f64) -> Option<Nanos> {
        let rank = ((self.count as f64 * part).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        self.buckets().find_map(|(end, count)| {
            seen += count;
            (seen >= rank).then_some(end)
        })
    }

    /// Buckets that hold something: the first value behind each, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(bucket, count)| (Nanos(Self::end(bucket)), *count))
    }

    /// Latencies below `limit`.
    pub fn below(&self, limit: Nanos) -> u64 {
        self.buckets().take_while(|(end, _)| *end <= limit).map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket(ns in 0u64..(1 << LONGEST_SHIFT)) {
            let bucket = LatencyHistogram::bucket(ns);
            let begin = if bucket == 0 { 0 } else { LatencyHistogram::end(bucket - 1) };
            let end = LatencyHistogram::end(bucket);
            prop_assert!(begin <= ns && ns < end && end - begin <= (begin >> FINE_SHIFT).max(1));
        }
    }

    #[test]
    fn quantiles_bound_their_part() {
        let mut histogram = LatencyHistogram::default();
        (1..=1000).for_each(|us| histogram.add(Nanos::from_us(us)));
        let p99 = histogram.quantile(0.99).unwrap();
        assert!(p99 >= Nanos::from_us(990) && p99 < Nanos::from_us(1120), "{p99:?}");
        assert_eq!(LatencyHistogram::default().quantile(0.5), None);
        assert_eq!(histogram.below(Nanos::from_secs(1)), 1000);
    }
}
