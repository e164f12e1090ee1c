//! Device and load of a recording, from its JSON.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::Value;

use crate::recording::{Error, as_number, read_description};

/// Device and load of a recording.
#[derive(Debug, Deserialize)]
pub(super) struct Conditions {
    #[serde(default)]
    pub(super) clock: String,
    #[serde(default)]
    pub(super) device: Device,
    #[serde(default)]
    queue: BTreeMap<String, Value>,
    /// fio's job file, where the whole load is in the root group.
    #[serde(default)]
    pub(super) job: Option<String>,
    /// Control groups, parents first.
    #[serde(default)]
    pub(super) groups: Option<Vec<Group>>,
    /// Changes of groups' weights.
    #[serde(default)]
    pub(super) changes: Option<Vec<WeightChange>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Device {
    #[serde(default)]
    pub(super) kind: String,
    #[serde(default)]
    attributes: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Group {
    /// Empty for the root group; `a/x` is nested in `a`.
    pub(super) path: String,
    #[serde(default = "default_weight")]
    pub(super) weight: u32,
    /// fio's job file; none for a group that only holds others.
    #[serde(default)]
    pub(super) job: Option<String>,
    #[serde(default)]
    pub(super) pids: Vec<i32>,
}

fn default_weight() -> u32 {
    100
}

#[derive(Debug, Deserialize)]
pub(super) struct WeightChange {
    /// Empty where something else changes than a group.
    #[serde(default)]
    pub(super) group: String,
    pub(super) after_s: f64,
    #[serde(default)]
    pub(super) weight: Option<u32>,
}

/// Does this job go through the page cache?
pub(super) fn is_buffered(job: &str) -> bool {
    job.contains("direct=0") || job.contains("buffered=1")
}

impl Conditions {
    /// Reads a recording's JSON.
    pub(super) fn read(path: &Path) -> Result<Conditions, Error> {
        let refused = |cause| Error::Description { path: path.to_owned(), cause };
        let text = read_description(path)?;
        let value: Value = serde_json::from_slice(&text).map_err(&refused)?;
        // A list would be read as the fields in their order.
        if !value.is_object() {
            return Err(refused(serde_json::Error::custom("expected an object")));
        }
        serde_json::from_value(value).map_err(refused)
    }

    /// fio's job files.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &str> {
        let of_groups = self.groups.iter().flatten().filter_map(|group| group.job.as_deref());
        of_groups.chain(self.job.as_deref())
    }

    /// Why no simulation can follow it, if so.
    pub(super) fn obstacle(&self) -> Option<String> {
        if self.device.kind != "null_blk" {
            let kind = if self.device.kind.is_empty() { "unknown" } else { &self.device.kind };
            return Some(format!("its device is {kind}, not null_blk"));
        }
        if self.jobs().any(is_buffered) {
            return Some("its I/O goes through the page cache".to_owned());
        }
        self.obstacle_to_any()
    }

    /// Why no simulation can follow it, whatever it is a recording of.
    pub(super) fn obstacle_to_any(&self) -> Option<String> {
        let says = |text: &str| self.jobs().any(|job| job.contains(text));
        if self.clock != "virtual" {
            return Some("it was recorded in real time, not in virtual time".to_owned());
        }
        if self.jobs().all(|job| job.trim().is_empty()) {
            return Some("it does not have the job that ran".to_owned());
        }
        says("cmdprio").then(|| "single I/Os of it have priorities of their own (cmdprio)".to_owned())
    }

    /// A number among the device's attributes.
    pub(super) fn attribute(&self, name: &str) -> Option<u64> {
        self.device.attributes.get(name).and_then(as_number)
    }

    /// The largest request, in KiB.
    pub(super) fn max_sectors_kb(&self) -> Option<u64> {
        self.queue.get("max_sectors_kb").and_then(as_number)
    }

    /// Has the device a volatile write cache?
    pub(super) fn write_cache(&self) -> bool {
        self.queue.get("write_cache").and_then(Value::as_str) == Some("write back")
    }
}
