//! A histogram with moments and interpolated percentiles, for a stream in bounded memory.

/// Values below 2^12 are exact; above, buckets are at most 1/2048 wide.
type Counts = dumbwaiter_measure::Histogram<12, { u64::MAX }>;

/// Counts of 64-bit values. At most 110,000 buckets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    counts: Counts,
    total: u64,
    least: u64,
    max: u64,
    sum: f64,
}

impl Histogram {
    pub(crate) fn add(&mut self, value: u64) {
        self.counts.add(Counts::bucket(value));
        self.least = if self.total == 0 { value } else { self.least.min(value) };
        self.max = self.max.max(value);
        self.total += 1;
        self.sum += value as f64;
    }

    pub(crate) fn count(&self) -> u64 {
        self.total
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// `None` if empty.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum / self.total as f64)
    }

    /// The `q`-quantile by linear interpolation between neighbours; `None` if empty.
    pub(crate) fn quantile(&self, q: f64) -> Option<f64> {
        let rank = q * self.total.checked_sub(1)? as f64;
        let (below, part) = (rank as u64, rank - (rank as u64) as f64);
        let low = self.at(below);
        let high = if part > 0.0 { self.at(below + 1) } else { low };
        Some(low + (high - low) * part)
    }

    /// The value of a rank, from 0.
    fn at(&self, rank: u64) -> f64 {
        let mut seen = 0;
        let found = self.counts.recorded().find(|(_, count)| {
            seen += count;
            seen > rank
        });
        found.map_or(self.max as f64, |(longest, _)| Counts::middle(longest).clamp(self.least as f64, self.max as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_approximate_those_of_the_sorted_values(mut values in prop::collection::vec((0u32..64, any::<u64>()).prop_map(|(s, v)| v >> s), 1..200), q in 0.0f64..=1.0) {
            let mut h = Histogram::default();
            values.iter().for_each(|v| h.add(*v));
            values.sort_unstable();
            let rank = q * (values.len() - 1) as f64;
            let (low, high) = (values[rank.floor() as usize] as f64, values[rank.ceil() as usize] as f64);
            let want = low + (high - low) * (rank - rank.floor());
            let got = h.quantile(q).unwrap();
            prop_assert!((got - want).abs() <= want.max(high) / 2048.0, "{got} for {want}");
        }
    }

    #[test]
    fn small_values_are_exact() {
        for v in 0..4096 {
            assert_eq!(Counts::longest(Counts::bucket(v)), v);
        }
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
