//! Relations that the parameters of a hard disk must keep.

use super::geometry::Geometry;
use super::params::Params;
use crate::Error;
use crate::keys::invalid;

impl Params {
    /// Checks the relations between parameters.
    pub(crate) fn checked(self, origin: &str) -> Result<Params, Error> {
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

    /// Adds surfaces until the disk has room for `sectors`.
    pub(crate) fn grow(&mut self, sectors: u64) {
        let most = Geometry::new(self).sectors().max(1);
        let sectors = sectors.saturating_add(self.smr_cache_sectors());
        let factor = u32::try_from(sectors.div_ceil(most)).unwrap_or(u32::MAX);
        self.surfaces = self.surfaces.saturating_mul(factor);
        self.capacity_sectors = self.capacity_sectors.max(sectors - self.smr_cache_sectors());
    }
}
