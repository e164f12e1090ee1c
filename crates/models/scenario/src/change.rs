//! Scheduled changes of weights, priorities, membership, io.cost and the scheduler.

use dumbwaiter_block::{Handover, Ioprio, Nanos};
use dumbwaiter_controllers::io_max::{Rates, limits_text};
use dumbwaiter_text::units::format_time;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use crate::SchedulerSpec;
use crate::value::{IoMax, Priority, Time, Weight};

/// A scheduled change of a task: a new priority, a new tenant, or both.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "FileTaskChange")]
pub struct TaskChange {
    /// Time since the start of the run, warm-up included.
    pub at: Nanos,
    /// The new priority.
    pub ioprio: Option<Ioprio>,
    /// Name of the new tenant.
    pub tenant: Option<String>,
}

/// A scheduled change of a tenant: its weight, its limits, or both.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "FileTenantChange")]
pub struct TenantChange {
    /// Time since the start of the run, warm-up included.
    pub at: Nanos,
    /// The new weight, 1 to 10000.
    pub weight: Option<u32>,
    /// All limits of io.max from then on, of reads and of writes.
    pub io_max: Option<[Rates; 2]>,
}

/// The scheduler is exchanged.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "FileSchedulerChange")]
pub struct SchedulerChange {
    /// When, from the start of the run, warm-up included.
    pub at: Nanos,
    /// The scheduler from then on.
    pub scheduler: SchedulerSpec,
    /// How requests under way pass to it.
    pub how: Handover,
}

/// A scheduled change of io.cost: texts as they are written to the kernel's files. What a text does not name stays.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "FileIoCostChange")]
pub struct IoCostChange {
    /// Time since the start of the run, warm-up included.
    pub at: Nanos,
    /// For `io.cost.qos`.
    pub qos: Option<String>,
    /// For `io.cost.model`.
    pub model: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileIoCostChange {
    at: Time,
    qos: Option<String>,
    model: Option<String>,
}

impl From<FileIoCostChange> for IoCostChange {
    fn from(file: FileIoCostChange) -> IoCostChange {
        IoCostChange { at: file.at.0, qos: file.qos, model: file.model }
    }
}

impl Serialize for IoCostChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut change = serializer.serialize_struct("change", 3)?;
        change.serialize_field("at", &format_time(self.at))?;
        for (key, text) in [("qos", &self.qos), ("model", &self.model)] {
            match text {
                Some(text) => change.serialize_field(key, text)?,
                None => change.skip_field(key)?,
            }
        }
        change.end()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSchedulerChange {
    at: Time,
    scheduler: SchedulerSpec,
    #[serde(default)]
    how: How,
}

/// The words for [`Handover`].
#[derive(Clone, Copy, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum How {
    #[default]
    Freeze,
    Live,
}

impl From<FileSchedulerChange> for SchedulerChange {
    fn from(file: FileSchedulerChange) -> SchedulerChange {
        let how = match file.how {
            How::Freeze => Handover::Freeze,
            How::Live => Handover::Live,
        };
        SchedulerChange { at: file.at.0, scheduler: file.scheduler, how }
    }
}

impl Serialize for SchedulerChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut change = serializer.serialize_struct("change", 3)?;
        change.serialize_field("at", &format_time(self.at))?;
        change.serialize_field("scheduler", &self.scheduler)?;
        let how = match self.how {
            Handover::Freeze => How::Freeze,
            Handover::Live => How::Live,
        };
        change.serialize_field("how", &how)?;
        change.end()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTaskChange {
    at: Time,
    ioprio: Option<Priority>,
    tenant: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTenantChange {
    at: Time,
    weight: Option<Weight>,
    io_max: Option<IoMax>,
}

impl From<FileTaskChange> for TaskChange {
    fn from(file: FileTaskChange) -> TaskChange {
        TaskChange { at: file.at.0, ioprio: file.ioprio.map(|p| p.0), tenant: file.tenant }
    }
}

impl From<FileTenantChange> for TenantChange {
    fn from(file: FileTenantChange) -> TenantChange {
        TenantChange { at: file.at.0, weight: file.weight.map(|w| w.0), io_max: file.io_max.map(|limits| limits.0) }
    }
}

impl Serialize for TaskChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut change = serializer.serialize_struct("change", 3)?;
        change.serialize_field("at", &format_time(self.at))?;
        match self.ioprio {
            Some(ioprio) => change.serialize_field("ioprio", &ioprio.to_string())?,
            None => change.skip_field("ioprio")?,
        }
        match &self.tenant {
            Some(tenant) => change.serialize_field("tenant", tenant)?,
            None => change.skip_field("tenant")?,
        }
        change.end()
    }
}

impl Serialize for TenantChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut change = serializer.serialize_struct("change", 3)?;
        change.serialize_field("at", &format_time(self.at))?;
        match self.weight {
            Some(weight) => change.serialize_field("weight", &weight)?,
            None => change.skip_field("weight")?,
        }
        match self.io_max {
            // No limit at all has a word too.
            Some(none) if none == <[Rates; 2]>::default() => change.serialize_field("io_max", "rbps=max")?,
            Some(limits) => change.serialize_field("io_max", &limits_text(limits))?,
            None => change.skip_field("io_max")?,
        }
        change.end()
    }
}
