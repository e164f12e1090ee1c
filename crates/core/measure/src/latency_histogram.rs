//! A histogram of latencies for programs that collect their own.

use dumbwaiter_block::Nanos;

use crate::histogram::{Fine, LATENCY_NS_MAX};

/// Counts of latencies from 0 to 1 h, exact to 0.1 %. Longer ones are counted as 1 h.
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    counts: Fine,
}

/// Latencies that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyCount {
    /// The shortest that it may hold.
    pub from: Nanos,
    /// The longest that it may hold.
    pub to: Nanos,
    /// How many it holds.
    pub count: u64,
}

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        LatencyHistogram { counts: Fine::new() }
    }
}

impl LatencyHistogram {
    /// Counts `count` latencies of this length.
    pub fn record(&mut self, latency: Nanos, count: u64) {
        self.counts.add_many(Fine::bucket(latency.0), count);
    }

    /// Adds all that another one counted.
    pub fn merge(&mut self, other: &LatencyHistogram) {
        for (longest, count) in other.counts.recorded() {
            self.counts.add_many(Fine::bucket(longest.min(LATENCY_NS_MAX)), count);
        }
    }

    /// Number of latencies.
    pub fn len(&self) -> u64 {
        self.counts.len()
    }

    /// Has it counted none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The latency that a fraction `quantile` (0 to 1) of the latencies does not exceed; `None` where there are none.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        self.counts.quantiles_ns([quantile]).map(|[ns]| Nanos(ns.min(LATENCY_NS_MAX)))
    }

    /// The counts by rising latency, without empty ones.
    pub fn counts(&self) -> impl Iterator<Item = LatencyCount> + '_ {
        self.counts.recorded().map(|(longest, count)| {
            let to = Nanos(longest.min(LATENCY_NS_MAX));
            LatencyCount { from: Nanos(Fine::shortest(to.0)), to, count }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn two_that_are_merged_are_one(
            first in prop::collection::vec(0u64..2 * LATENCY_NS_MAX, 0..50),
            second in prop::collection::vec(0u64..2 * LATENCY_NS_MAX, 1..50),
        ) {
            let of = |values: &[u64]| {
                let mut histogram = LatencyHistogram::default();
                values.iter().for_each(|ns| histogram.record(Nanos(*ns), 1));
                histogram
            };
            let whole = of(&[first.as_slice(), second.as_slice()].concat());
            let mut merged = of(&first);
            merged.merge(&of(&second));
            prop_assert_eq!(merged.counts().collect::<Vec<_>>(), whole.counts().collect::<Vec<_>>());
            prop_assert_eq!(merged.len(), (first.len() + second.len()) as u64);
            let longest = *first.iter().chain(&second).max().unwrap();
            let found = merged.quantile(1.0).unwrap().0;
            prop_assert!(found >= longest.min(LATENCY_NS_MAX) && found as f64 <= longest as f64 * 1.001);
            for part in whole.counts() {
                prop_assert!(part.from <= part.to && part.to.0 - part.from.0 <= part.to.0 / 1000);
            }
        }
    }

    #[test]
    fn an_empty_one_has_no_quantile() {
        assert_eq!((LatencyHistogram::default().quantile(0.5), LatencyHistogram::default().is_empty()), (None, true));
    }
}
