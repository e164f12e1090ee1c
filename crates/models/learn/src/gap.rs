//! Times by the gap between a request and the one sent before it.

/// Gaps are binned by their logarithm. Finer bins would need more completions than a disk gives in a minute.
pub const BINS: usize = 4 * 41;

/// Bin of a gap: quarters of octaves, of equal width within one.
pub fn bin(gap: u64) -> usize {
    let n = gap.min(1 << 41) + 4;
    let octave = n.ilog2();
    ((octave - 2) as usize * 4 + ((n >> (octave - 2)) & 3) as usize).min(BINS - 1)
}

/// A time for each gap.
#[derive(Clone, Debug)]
pub struct GapBins {
    /// By bin, ns; 0 for none.
    times: [u64; BINS],
}

impl Default for GapBins {
    fn default() -> Self {
        GapBins { times: [0; BINS] }
    }
}

impl GapBins {
    /// The time of a gap, or that of the nearest one with a time.
    pub fn at_or_near(&self, gap: u64) -> Option<u64> {
        nearest(&self.times, gap).map(|bin| self.times[bin])
    }

    /// The least of its time and `time`.
    pub fn lower_to(&mut self, gap: u64, time: u64) {
        let own = &mut self.times[bin(gap)];
        *own = if *own == 0 { time } else { time.min(*own) };
    }

    /// Adds to its time.
    pub fn raise(&mut self, gap: u64, by: u64) {
        self.times[bin(gap)] = self.at_or_near(gap).unwrap_or(0) + by;
    }

    /// Subtracts from its time, which remains above 0.
    pub fn lower_by(&mut self, gap: u64, by: u64) {
        self.times[bin(gap)] = self.at_or_near(gap).unwrap_or(0).saturating_sub(by).max(1);
    }
}

/// The bin of a gap, or the nearest one that has a time.
pub fn nearest(times: &[u64; BINS], gap: u64) -> Option<usize> {
    let at = bin(gap);
    let known = |i: &usize| times[*i] > 0;
    (0..BINS).find_map(|d| {
        let below = at.checked_sub(d).filter(known);
        below.or_else(|| Some(at + d).filter(|i| *i < BINS).filter(known))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_grow_with_the_gap() {
        assert_eq!([0, 1, 3, 4, 5, 6, 12].map(bin), [0, 1, 3, 4, 4, 5, 8]);
        assert!((0..60).all(|i| bin(1 << i) <= bin(1 << (i + 1))));
        assert!(bin(u64::MAX) < BINS);
    }
}
