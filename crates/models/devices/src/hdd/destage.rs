//! When a disk writes back beside reads.

use dumbwaiter_block::Nanos;

use super::params::Params;

/// When and how much the cache writes back beside reads, in sectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destage {
    pub(super) high: u64,
    pub(super) low: u64,
    pub(super) visit: u64,
    pub(super) tracks: u32,
    pub(super) gap: Nanos,
}

impl Destage {
    pub(super) fn new(p: &Params) -> Destage {
        let sectors = |mib: f64| (mib * 2048.0) as u64;
        let cache = p.write_cache_sectors();
        let high = if p.destage_high_mib > 0.0 { sectors(p.destage_high_mib).min(cache) } else { cache - cache / 4 };
        Destage {
            high,
            low: high.saturating_sub(sectors(p.destage_span_mib)),
            visit: sectors(p.destage_visit_mib),
            tracks: p.destage_tracks as u32,
            gap: Nanos::from_us_f64(p.destage_gap_ms * 1e3),
        }
    }
}
