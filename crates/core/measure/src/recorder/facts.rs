//! Facts of a run that a world knows beside the I/Os.

use crate::application::ApplicationStats;
use crate::ledger::{Ledger, Merges};
use dumbwaiter_block::Nanos;
use std::collections::BTreeMap;

/// CPU time of the measured time, from the host model or the meters.
#[derive(Clone, Debug, Default)]
pub struct CpuFacts {
    /// Busy time of each CPU.
    pub busy: Vec<Nanos>,
    /// Submission path without the scheduler.
    pub submit: Nanos,
    /// Inside the scheduler.
    pub scheduler: Nanos,
    /// Interrupts and the completion path.
    pub irq: Nanos,
    /// Polling for completions.
    pub poll: Nanos,
    /// User time.
    pub usr: Nanos,
    /// System time.
    pub sys: Nanos,
    /// Context switches; `None` if not counted.
    pub switches: Option<u64>,
}

/// Facts that the world adds to a result at the end of a run.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// Name of the device.
    pub device: String,
    /// Name of the scheduler.
    pub scheduler: String,
    /// Name of the variant of the scenario, for example `queue-depth=8`; empty if it has none.
    pub variant: String,
    /// Completion method: `interrupt`, `poll`, `hybrid`.
    pub completion: String,
    /// The world it ran in: `sim` or `real`.
    pub world: String,
    /// The block layer that scheduled: `sim`, `engine` or `kernel`.
    pub via: String,
    /// Energy over the measured time, J, and its source; `None` without meter and model.
    pub energy: Option<(f64, String)>,
    /// Number of the replicate, from 0.
    pub replicate: u32,
    /// Seed of the run.
    pub seed: u64,
    /// Merge counts.
    pub merges: Merges,
    /// Conservation of requests; the recorder fills in the outstanding ones.
    pub ledger: Ledger,
    /// CPU time.
    pub cpu: CpuFacts,
    /// Results of applications.
    pub applications: Vec<ApplicationStats>,
    /// Counters of the host model, such as memory operations.
    pub host_counters: BTreeMap<String, f64>,
    /// Counters of the scheduler.
    pub scheduler_counters: BTreeMap<String, f64>,
    /// How often the scheduler was exchanged, and how long no request was sent on account of that; `None` where it was not.
    pub switches: Option<(u64, Nanos)>,
    /// Counters of the device.
    pub device_counters: BTreeMap<String, f64>,
}
