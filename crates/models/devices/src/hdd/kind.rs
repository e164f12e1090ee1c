//! A hard disk by its parameters, and the relations that these must keep.

use std::sync::Arc;

use dumbwaiter_block::ServiceOracle;

use super::Hdd;
use super::geometry::Geometry;
use super::params::Params;
use super::positioning::Positioning;
use crate::keys::invalid;
use crate::kind::DeviceParams;
use crate::{Device, Error, Facts};

impl DeviceParams for Params {
    /// Those of a conventional drive of which nothing is known about reads beside writes.
    const OPTIONAL: &[(&str, f64)] = &[
        ("smr_cache_gib", 0.0),
        ("smr_band_mib", 0.0),
        ("smr_idle_ms", 0.0),
        ("destage_high_mib", 0.0),
        ("destage_span_mib", 0.0),
        // Visits as fitted to six mixes of hdd:dt01aca200, for disks of which nothing is known.
        ("destage_visit_mib", 8.6),
        ("destage_tracks", 2.0),
        ("destage_gap_ms", 1.0),
        ("age_weight", 0.0),
        ("late_share", 0.0),
        ("late_after_write_share", 0.0),
    ];

    fn checked(self, origin: &str) -> Result<Params, Error> {
        if self.zones > self.cylinders {
            let expected = format!("at most cylinders, {}", self.cylinders);
            return Err(invalid(origin, "zones", self.zones, expected));
        }
        let most = Geometry::new(&self).sectors();
        let cache = self.smr_cache_sectors();
        if cache > 0 && self.capacity_sectors <= most && self.capacity_sectors + cache > most {
            let room = (most - self.capacity_sectors) as f64 / 2_097_152.0;
            let expected = format!("at most {room:.2}, what the platters hold beyond the capacity");
            return Err(invalid(origin, "smr_cache_gib", self.smr_cache_gib, expected));
        }
        if cache > 0 && self.smr_band_mib < 1.0 {
            return Err(invalid(origin, "smr_band_mib", self.smr_band_mib, "at least 1 on a shingled drive"));
        }
        if cache > 0 && self.write_back_window == 0 {
            return Err(invalid(origin, "write_back_window", 0, "at least 1 on a shingled drive"));
        }
        if self.capacity_sectors > most {
            let expected = format!("at most {most}, what cylinders, surfaces and sectors_per_track_* hold");
            return Err(invalid(origin, "capacity_sectors", self.capacity_sectors, expected));
        }
        let next = self.seek_a_ms + self.seek_b_ms * 2f64.sqrt();
        if self.t_track_ms > next {
            let expected = format!("at most the seek by two cylinders, {next:.4}");
            return Err(invalid(origin, "t_track_ms", self.t_track_ms, expected));
        }
        if self.t_head_ms < self.t_skew_ms {
            let expected = format!("at least t_skew_ms, {}", self.t_skew_ms);
            return Err(invalid(origin, "t_head_ms", self.t_head_ms, expected));
        }
        Ok(self)
    }

    fn facts(&self) -> Facts {
        Facts {
            capacity_sectors: self.capacity_sectors,
            depth: self.ncq_depth,
            queues: 1,
            rotational: true,
            volatile_cache: self.write_cache_sectors() > 0,
            fua: true,
            max_sectors: self.max_sectors,
        }
    }

    fn capacity_sectors(&mut self) -> &mut u64 {
        &mut self.capacity_sectors
    }

    /// Adds surfaces until the disk has room for `sectors`.
    fn grow(&mut self, sectors: u64) {
        let most = Geometry::new(self).sectors().max(1);
        let sectors = sectors.saturating_add(self.smr_cache_sectors());
        let factor = u32::try_from(sectors.div_ceil(most)).unwrap_or(u32::MAX);
        self.surfaces = self.surfaces.saturating_mul(factor);
        self.capacity_sectors = self.capacity_sectors.max(sectors - self.smr_cache_sectors());
    }

    fn build(&self, seed: u64) -> Box<dyn Device> {
        Box::new(Hdd::new(self, seed))
    }

    fn oracle(&self, seed: u64) -> Option<Arc<dyn ServiceOracle>> {
        Some(Arc::new(Positioning::new(self, seed)))
    }
}
