//! Latencies of a tenant, counted in buckets that grow with the value.

use dumbwaiter_block::Nanos;

/// Buckets are at most an eighth wide, up to 2^40 ns, 18 minutes.
type Counts = dumbwaiter_measure::Histogram<4, { (1 << 40) - 1 }>;

/// Counts of latencies; percentiles are exact to an eighth.
#[derive(Clone, Debug, Default)]
pub struct LatencyHistogram {
    counts: Counts,
    sum: u128,
}

impl LatencyHistogram {
    /// Counts one latency.
    #[inline]
    pub fn add(&mut self, latency: Nanos) {
        self.counts.add(Counts::bucket(latency.0));
        self.sum += u128::from(latency.0);
    }

    /// Latencies counted.
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// Their sum, ns.
    pub fn sum_ns(&self) -> u128 {
        self.sum
    }

    /// An upper bound of this part (0 to 1) of the latencies; `None` if there are none.
    pub fn quantile(&self, part: f64) -> Option<Nanos> {
        self.counts.quantiles([part]).map(|[longest]| Nanos(longest + 1))
    }

    /// As [`LatencyHistogram::quantile`], of those counted since `before`, an earlier state of this one.
    pub fn quantile_since(&self, before: &LatencyHistogram, part: f64) -> Option<Nanos> {
        let all = self.count() - before.count();
        if all == 0 {
            return None;
        }
        let mut left = ((all as f64 * part).ceil() as u64).max(1);
        let mut old = before.buckets().peekable();
        for (end, count) in self.buckets() {
            let had = old.next_if(|(bound, _)| *bound == end).map_or(0, |(_, had)| had);
            if count - had >= left {
                return Some(end);
            }
            left -= count - had;
        }
        None
    }

    /// Buckets that hold something: the first value behind each, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> {
        self.counts.recorded().map(|(longest, count)| (Nanos(longest + 1), count))
    }

    /// Latencies below `limit`.
    pub fn below(&self, limit: Nanos) -> u64 {
        self.buckets().take_while(|(end, _)| *end <= limit).map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_bound_their_part() {
        let mut histogram = LatencyHistogram::default();
        (1..=1000).for_each(|us| histogram.add(Nanos::from_us(us)));
        let p99 = histogram.quantile(0.99).unwrap();
        assert!(p99 >= Nanos::from_us(990) && p99 < Nanos::from_us(1120), "{p99:?}");
        assert_eq!(LatencyHistogram::default().quantile(0.5), None);
        assert_eq!(histogram.below(Nanos::from_secs(1)), 1000);
        let before = histogram.clone();
        assert_eq!(histogram.quantile_since(&before, 0.5), None);
        histogram.add(Nanos::from_ms(7));
        histogram.add(Nanos::from_us(3));
        assert_eq!(histogram.quantile_since(&before, 1.0), histogram.quantile(1.0));
        assert!(histogram.quantile_since(&before, 0.5).unwrap() < Nanos::from_us(4));
    }
}
