//! What a position costs, learned on line: latency by the gap from the end of the request sent before, corrected by region.

use dumbwaiter_block::Request;

/// Gaps are binned by their logarithm. Finer bins would need more completions than a disk gives in a minute.
const BINS: usize = 4 * 41;
/// Equal parts of the device that are told apart, for reads and for all else.
const REGIONS: usize = 64;
/// An average is that of all completions at first, and follows the last 64 or so then.
const GAP_SHIFT: u32 = 6;
const REGION_SHIFT: u32 = 5;
/// Fixed point of a region's factor.
const ONE: u64 = 1 << 10;

/// Averages of latencies by gap and region.
#[derive(Clone, Debug)]
pub(super) struct PositionCosts {
    /// Mean latency by bin, ns; 0 before the first completion.
    gaps: [[u64; BINS]; 2],
    /// Completions of each bin, up to `1 << GAP_SHIFT`.
    counts: [[u64; BINS]; 2],
    /// Latency relative to the bin's mean, times `ONE`.
    regions: [[u64; REGIONS]; 2],
    /// Greatest sector seen.
    last_sector: u64,
}

impl Default for PositionCosts {
    fn default() -> Self {
        PositionCosts { gaps: [[0; BINS]; 2], counts: [[0; BINS]; 2], regions: [[ONE; REGIONS]; 2], last_sector: 1 }
    }
}

/// Bin of a gap: quarters of octaves, of equal width within one.
fn bin(gap: u64) -> usize {
    let n = gap.min(1 << 41) + 4;
    let octave = n.ilog2();
    ((octave - 2) as usize * 4 + ((n >> (octave - 2)) & 3) as usize).min(BINS - 1)
}

/// A time for each gap.
#[derive(Clone, Debug)]
pub(super) struct GapBins {
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
    pub(super) fn at_or_near(&self, gap: u64) -> Option<u64> {
        nearest(&self.times, gap).map(|bin| self.times[bin])
    }

    /// The least of its time and `time`.
    pub(super) fn lower_to(&mut self, gap: u64, time: u64) {
        let own = &mut self.times[bin(gap)];
        *own = if *own == 0 { time } else { time.min(*own) };
    }

    pub(super) fn raise(&mut self, gap: u64, by: u64) {
        self.times[bin(gap)] = self.at_or_near(gap).unwrap_or(0) + by;
    }

    pub(super) fn lower_by(&mut self, gap: u64, by: u64) {
        self.times[bin(gap)] = self.at_or_near(gap).unwrap_or(0).saturating_sub(by).max(1);
    }
}

/// The bin of a gap, or the nearest one that has a time.
fn nearest(times: &[u64; BINS], gap: u64) -> Option<usize> {
    let at = bin(gap);
    let known = |i: &usize| times[*i] > 0;
    (0..BINS).find_map(|d| {
        let below = at.checked_sub(d).filter(known);
        below.or_else(|| Some(at + d).filter(|i| *i < BINS).filter(known))
    })
}

impl PositionCosts {
    fn region(&self, sector: u64) -> usize {
        let whole = self.last_sector / REGIONS as u64 + 1;
        ((sector / whole) as usize).min(REGIONS - 1)
    }

    /// Learns that a request behind `gap` sectors took `latency` ns.
    pub(super) fn learn(&mut self, request: &Request, gap: u64, latency: u64) {
        self.last_sector = self.last_sector.max(request.sector);
        let kind = request.io.op.dir() as usize;
        let mean = &mut self.gaps[kind][bin(gap)];
        let before = *mean;
        let count = &mut self.counts[kind][bin(gap)];
        *count = (*count + 1).min(1 << GAP_SHIFT);
        *mean = (before * (*count - 1) + latency.min(1 << 50)) / *count;
        if before > 0 {
            let ratio = (latency.saturating_mul(ONE) / before).min(16 * ONE);
            let region = self.region(request.sector);
            let factor = &mut self.regions[kind][region];
            *factor = *factor - (*factor >> REGION_SHIFT) + (ratio >> REGION_SHIFT);
        }
    }

    /// Latency to expect of a request behind `gap` sectors, ns. A bin without completions takes the value of the nearest one
    /// with some; `None` if there is none.
    pub(super) fn predict(&self, request: &Request, gap: u64) -> Option<u64> {
        let kind = request.io.op.dir() as usize;
        let bin = nearest(&self.gaps[kind], gap)?;
        let factor = self.regions[kind][self.region(request.sector)];
        Some(self.gaps[kind][bin].saturating_mul(factor) / ONE)
    }
}

#[cfg(test)]
mod tests {
    use dumbwaiter_block::{Io, Nanos};

    use super::*;

    #[test]
    fn bins_grow_with_the_gap() {
        assert_eq!([0, 1, 3, 4, 5, 6, 12].map(bin), [0, 1, 3, 4, 4, 5, 8]);
        assert!((0..60).all(|i| bin(1 << i) <= bin(1 << (i + 1))));
        assert!(bin(u64::MAX) < BINS);
    }

    #[test]
    fn near_requests_are_cheaper_and_unknown_gaps_take_their_neighbours_value() {
        let mut costs = PositionCosts::default();
        let request = |sector| Request::new(Io { sector, sectors: 8, ..Io::default() }, Nanos::ZERO);
        assert_eq!(costs.predict(&request(0), 5), None);
        for _ in 0..100 {
            costs.learn(&request(1 << 20), 1 << 10, 6_000_000);
            costs.learn(&request(1 << 30), 1 << 28, 14_000_000);
        }
        let near = costs.predict(&request(1 << 20), 1 << 9).unwrap();
        let far = costs.predict(&request(1 << 30), 1 << 27).unwrap();
        assert!(near.abs_diff(6_000_000) < 600_000 && far.abs_diff(14_000_000) < 1_400_000, "{near} {far}");
    }
}
