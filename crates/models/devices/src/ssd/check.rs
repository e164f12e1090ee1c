//! Relations that the parameters of a flash SSD must keep.

use super::ftl::{Shape, UNMAPPED};
use super::params::Params;
use crate::Error;
use crate::keys::invalid;

impl Params {
    /// Checks the relations between parameters.
    pub(crate) fn checked(self, origin: &str) -> Result<Params, Error> {
        if self.interface == "sata" && self.ncq_depth > 32 {
            return Err(invalid(origin, "ncq_depth", self.ncq_depth, "a whole number from 1 to 32 on SATA"));
        }
        if self.interface == "sata" && self.queues > 1 {
            return Err(invalid(origin, "queues", self.queues, "1 on SATA"));
        }
        if !self.page_bytes.is_multiple_of(4096) {
            return Err(invalid(origin, "page_bytes", self.page_bytes, "a multiple of 4096"));
        }
        let shape = Shape::new(&self);
        let units = u64::from(shape.dies) * u64::from(shape.units_per_block) * u64::from(shape.blocks_per_die);
        if units >= u64::from(UNMAPPED) {
            let expected = "below 16 TiB, with the space that 4 spare blocks on each die imply";
            return Err(invalid(origin, "ftl_gib", self.ftl_gib, expected));
        }
        if self.gc_hard > self.gc_low || self.gc_low > self.gc_high {
            return Err(invalid(origin, "gc_low", self.gc_low, "gc_hard <= gc_low <= gc_high"));
        }
        Ok(self)
    }
}
