//! Conditions of a decision beside the runs: which schedulers can be set, and whether the machine was quiet.

use std::collections::BTreeMap;

use dumbwaiter_measure::SIGNIFICANCE;
use dumbwaiter_scenario::SchedulerSpec;

use crate::measured_error::DriveClass;
use crate::row::RankingRow;

/// Schedulers of current Linux kernels.
pub const KERNEL_SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

/// The schedulers that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offered {
    /// Every one: the caller has chosen them.
    Any,
    /// These names.
    These(Vec<String>),
}

/// Conditions of a decision, beside the runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// The schedulers that can be set.
    pub offered: Offered,
    /// Load average of the machine before the runs and its CPUs, where other work kept it too busy for measurements.
    pub busy: Option<(f64, f64)>,
    /// Probability that any bound of a comparison is wrong.
    pub error: f64,
    /// The scheduler that was named as the one that is set.
    pub incumbent: Option<String>,
    /// What is set on a device, or what the kernel sets by itself, by its name.
    pub defaults: BTreeMap<String, String>,
    /// Part of the throughput that half the latency is worth; `None`: that of the goal.
    pub rate: Option<f64>,
    /// Classes of simulated drives, by the names of the devices: a difference that is smaller than the simulator's measured error on
    /// such drives is *likely* at most. Empty of real runs.
    pub drive_classes: BTreeMap<String, DriveClass>,
}

impl Default for Conditions {
    fn default() -> Conditions {
        Conditions {
            offered: Offered::Any,
            busy: None,
            error: SIGNIFICANCE,
            incumbent: None,
            defaults: BTreeMap::new(),
            rate: None,
            drive_classes: BTreeMap::new(),
        }
    }
}

impl Conditions {
    /// Those of a simulation: what a current kernel offers can be set.
    pub fn simulated() -> Conditions {
        let offered = Offered::These(KERNEL_SCHEDULERS.map(str::to_owned).to_vec());
        Conditions { offered, ..Conditions::default() }
    }

    /// What is set on this device: what was named, else what is known of it.
    pub(crate) fn incumbent_of(&self, device: &str) -> Option<&str> {
        self.incumbent.as_deref().or_else(|| self.kernel_default(device))
    }

    /// What is set on a device or what the kernel sets by itself, where that is known.
    pub(crate) fn kernel_default(&self, device: &str) -> Option<&str> {
        self.defaults.get(device).map(String::as_str)
    }

    /// Can the scheduler of this row be set?
    pub(crate) fn can_be_set(&self, row: &RankingRow) -> bool {
        self.offers(&row.scheduler)
    }

    /// Can this scheduler, which may have settings, be set?
    pub fn offers(&self, scheduler: &str) -> bool {
        match &self.offered {
            Offered::Any => true,
            Offered::These(names) => names.iter().any(|name| *name == name_of(scheduler)),
        }
    }
}

/// The name of a scheduler that may have settings.
pub(crate) fn name_of(scheduler: &str) -> String {
    SchedulerSpec::parse(scheduler).map_or_else(|_| scheduler.to_owned(), |spec| spec.name)
}
