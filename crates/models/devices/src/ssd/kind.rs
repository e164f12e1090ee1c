//! A flash SSD by its parameters, and the relations that these must keep.

use super::Ssd;
use super::ftl::{Shape, UNMAPPED};
use super::params::Params;
use crate::keys::invalid;
use crate::kind::DeviceParams;
use crate::{Device, Error, Facts};

impl DeviceParams for Params {
    /// Those of a drive of which only means are known.
    const OFF: &[&str] = &["in_order"];
    const OPTIONAL: &[(&str, f64)] = &[
        ("t_read_fast_us", 0.0),
        ("t_read_slow_us", 0.0),
        ("t_read_large", 1.0),
        ("steady_kib", 4.0),
        ("suspend_every_us", 0.0),
        ("reads_per_program", 0.0),
        ("firmware_further_us", 0.0),
        ("slowest_drive", 1.0),
        ("latency_large_read_us", 0.0),
        ("drain_mb_per_s", 0.0),
        ("write_gap_mib", 0.0),
        ("slots", 0.0),
    ];

    fn slow_down(&mut self) {
        self.firmware_read_us *= self.slowest_drive;
        self.firmware_further_us *= self.slowest_drive;
    }

    fn checked(self, origin: &str) -> Result<Params, Error> {
        if self.interface != "nvme" && self.ncq_depth > 32 {
            return Err(invalid(origin, "ncq_depth", self.ncq_depth, "a whole number from 1 to 32 on SATA"));
        }
        if self.interface != "nvme" && self.queues > 1 {
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

    fn facts(&self) -> Facts {
        Facts {
            capacity_sectors: self.capacity_sectors,
            depth: self.ncq_depth * u32::from(self.queues),
            queues: self.queues,
            rotational: false,
            volatile_cache: self.write_buffer_bytes() > 0,
            fua: true,
            max_sectors: self.max_sectors,
        }
    }

    fn capacity_sectors(&mut self) -> &mut u64 {
        &mut self.capacity_sectors
    }

    fn build(&self, seed: u64) -> Box<dyn Device> {
        Box::new(Ssd::new(self, seed))
    }

    fn nvme(&self) -> bool {
        self.interface == "nvme"
    }
}
