//! Where results come from. Simulated ones have only what determines them, so that equal experiments give equal bytes on any
//! machine; those of a real drive have its whole surroundings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::conditions::{Conditions, KERNEL_SCHEDULERS, Offered};
use crate::measured_error::DriveClass;

/// Where results come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provenance {
    /// Version of the program.
    pub version: String,
    /// Commit that it was built from, where that is known.
    pub commit: Option<String>,
    /// A command that makes the same results: without what does not change them, such as `--jobs` and `--json`.
    pub command: String,
    /// The command as it was typed; only of a real drive.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// The machine; `null` in a simulation.
    pub machine: Option<Machine>,
    /// The drive; `null` in a simulation.
    pub drive: Option<Drive>,
    /// Kinds of the simulated drives, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, DriveKind>,
    /// SHA-256 of the trace files, by their paths.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// Classes of drives that were asked for, and the models that stand for each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub classes: BTreeMap<String, Vec<String>>,
}

/// A kind of drive, by which Linux names it and chooses its scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriveKind {
    /// A disk on SATA or SAS.
    HardDisk,
    /// An SSD on SATA or SAS: one hardware queue.
    SataSsd,
    /// An NVMe drive: several hardware queues.
    Nvme,
    /// A flash stick or card reader on USB.
    UsbStick,
    /// A card or soldered flash on the bus of memory cards (SD, eMMC).
    MemoryCard,
}

/// The machine that a real drive was measured with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Release of the kernel.
    pub kernel: String,
    /// Name of the CPU.
    pub cpu: String,
    /// Number of logical CPUs.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Load average of the last minute before the runs.
    pub load_before: f64,
    /// Load average of the last minute after the runs, which the runs have caused too.
    pub load_after: f64,
}

/// A real drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Drive {
    /// The path that was measured.
    pub path: String,
    /// Name of the disk in sysfs; empty for a file.
    pub disk: String,
    /// Model, as the drive reports it; empty where it reports none.
    pub model: String,
    /// Revision of the firmware; empty where it reports none.
    pub firmware: String,
    /// Size in bytes.
    pub bytes: u64,
    /// How a udev rule matches it; empty for a file.
    pub udev_match: String,
    /// The schedulers that the kernel offers for it; empty for a file.
    pub offered: Vec<String>,
    /// The scheduler that is set; empty for a file.
    pub scheduler: String,
    /// Attributes of its queue before the runs, by name; those of the scheduler are named `iosched/…`.
    pub queue: BTreeMap<String, String>,
}

impl Provenance {
    /// Conditions of a decision, beside the runs. `error` is the probability that a comparison is wrong.
    pub fn conditions(&self, error: f64) -> Conditions {
        let offered = match &self.drive {
            Some(drive) if !drive.offered.is_empty() => drive.offered.clone(),
            _ => KERNEL_SCHEDULERS.map(str::to_owned).to_vec(),
        };
        let class = |(name, kind): (&String, &DriveKind)| Some((name.clone(), drive_class(name, *kind)?));
        let busy = self.machine.as_ref().filter(|machine| machine.load_before > f64::from(machine.cpus));
        Conditions {
            offered: Offered::These(offered),
            busy: busy.map(|machine| (machine.load_before, f64::from(machine.cpus))),
            error,
            drive_classes: self.models.iter().filter_map(class).collect(),
            ..Conditions::default()
        }
    }
}

/// The class of a simulated drive; `None` of one that does nothing.
fn drive_class(name: &str, kind: DriveKind) -> Option<DriveClass> {
    match (name.split(':').next(), kind) {
        (Some("null"), _) => None,
        (Some("volume"), _) => Some(DriveClass::Volume),
        (_, DriveKind::HardDisk) => Some(DriveClass::Disk),
        (_, DriveKind::SataSsd | DriveKind::Nvme | DriveKind::UsbStick | DriveKind::MemoryCard) => {
            Some(DriveClass::Flash)
        }
    }
}
