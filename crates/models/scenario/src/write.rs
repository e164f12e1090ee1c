//! Writes scenarios so that [`crate::Scenario::from_toml`] reads them back unchanged.

use dumbwaiter_controllers::io_max::limits_text;
use dumbwaiter_controllers::{PrioClass, TenantControls};
use dumbwaiter_text::units::format_time;
use dumbwaiter_workloads::generate::Scalar;
use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::{Scenario, Tenant};

impl Scenario {
    /// The scenario as TOML text.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every part of a scenario is a TOML value")
    }
}

impl Serialize for Scenario {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        if !self.description.is_empty() {
            map.serialize_entry("description", &self.description)?;
        }
        map.serialize_entry("devices", &self.devices)?;
        map.serialize_entry("schedulers", &self.schedulers)?;
        map.serialize_entry("completion", &self.completion)?;
        let drives = Some(u32::from(self.drives)).filter(|drives| *drives != 1);
        for (key, value) in [("drives", drives), ("queue_depth", self.queue_depth), ("nr_requests", self.nr_requests)] {
            if let Some(value) = value {
                map.serialize_entry(key, &value)?;
            }
        }
        if let Some(duration) = self.duration {
            map.serialize_entry("duration", &format_time(duration))?;
        }
        map.serialize_entry("warmup", &format_time(self.warmup))?;
        map.serialize_entry("replicates", &self.replicates)?;
        map.serialize_entry("seed", &Scalar::Number(self.seed))?;
        if let Some(limit) = self.limit {
            map.serialize_entry("limit", &limit)?;
        }
        map.serialize_entry("nomerges", &self.nomerges)?;
        map.serialize_entry("series", &format_time(self.series))?;
        map.serialize_entry("host", &self.host)?;
        if let Some(kernel) = self.kernel.file_kernel() {
            map.serialize_entry("kernel", &kernel)?;
        }
        if let Some(io) = self.kernel.file_io() {
            map.serialize_entry("io", &io)?;
        }
        if !self.changes.is_empty() {
            map.serialize_entry("change", &self.changes)?;
        }
        map.serialize_entry("tenant", &self.tenants)?;
        map.end()
    }
}

impl Serialize for Tenant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tenant = serializer.serialize_struct("tenant", 17)?;
        tenant.serialize_field("name", &self.name)?;
        if self.is_root() {
            tenant.skip_field("weight")?;
        } else {
            tenant.serialize_field("weight", &self.weight)?;
        }
        match &self.parent {
            Some(parent) => tenant.serialize_field("parent", parent)?,
            None => tenant.skip_field("parent")?,
        }
        match self.ioprio {
            Some(ioprio) => tenant.serialize_field("ioprio", &ioprio.to_string())?,
            None => tenant.skip_field("ioprio")?,
        }
        match self.deadline {
            Some(deadline) => tenant.serialize_field("deadline", &format_time(deadline))?,
            None => tenant.skip_field("deadline")?,
        }
        let TenantControls {
            limit_iops,
            limit_bytes,
            burst_iops,
            burst_bytes,
            reservation_iops,
            io_weight,
            prio_class,
            io_max,
            io_latency,
        } = self.controls;
        for (key, value) in [
            ("limit_iops", limit_iops),
            ("limit_bytes", limit_bytes),
            ("burst_iops", burst_iops),
            ("burst_bytes", burst_bytes),
            ("reservation_iops", reservation_iops),
            ("io_weight", io_weight.map(u64::from)),
        ] {
            match value {
                Some(value) => tenant.serialize_field(key, &value)?,
                None => tenant.skip_field(key)?,
            }
        }
        if prio_class == PrioClass::NoChange {
            tenant.skip_field("prio_class")?;
        } else {
            tenant.serialize_field("prio_class", prio_class.name())?;
        }
        match limits_text(io_max) {
            none if none.is_empty() => tenant.skip_field("io_max")?,
            limits => tenant.serialize_field("io_max", &limits)?,
        }
        match io_latency {
            Some(target) => tenant.serialize_field("io_latency", &format_time(target))?,
            None => tenant.skip_field("io_latency")?,
        }
        if self.focus {
            tenant.serialize_field("focus", &true)?;
        } else {
            tenant.skip_field("focus")?;
        }
        tenant.serialize_field("task", &self.tasks)?;
        if self.changes.is_empty() {
            tenant.skip_field("change")?;
        } else {
            tenant.serialize_field("change", &self.changes)?;
        }
        tenant.end()
    }
}
