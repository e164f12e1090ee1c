//! Cost of a position, learned on line: latency by the gap from the end of the request sent before, corrected by region.

use dumbwaiter_block::Request;
use dumbwaiter_learn::gap::{BINS, bin, nearest};

/// Equal regions of the device with a mean of their own, for reads and for other requests.
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
        if let Some(ratio) = latency.saturating_mul(ONE).checked_div(before) {
            let ratio = ratio.min(16 * ONE);
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
