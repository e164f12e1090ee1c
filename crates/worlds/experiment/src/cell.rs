//! One run of an experiment, and its result.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_scenario::{Completion, Scenario, SchedulerSpec};

use crate::Failure;

/// The block layer and schedulers that a run goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stack {
    /// Ours, in virtual time.
    Simulated,
    /// Ours, in real time on a file or device.
    Engine,
    /// The kernel's own.
    Kernel,
    /// Ours, in a served disk, in real time.
    Served,
}

impl Stack {
    /// As results name it (`via`).
    pub fn name(self) -> &'static str {
        match self {
            Stack::Simulated => "sim",
            Stack::Engine => "engine",
            Stack::Kernel => "kernel",
            Stack::Served => "serve",
        }
    }
}

/// RocksDB's `db_bench readrandom` on a file system of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DbBench {
    /// Threads that read.
    pub threads: u32,
    /// Length in seconds.
    pub seconds: u32,
}

/// The load of a run.
#[derive(Clone)]
pub enum Work {
    /// The tenants and tasks of a scenario.
    Scenario(Arc<Prepared>),
    /// A database; only real devices run it.
    DbBench(DbBench),
}

/// One run: a load on a device, under a scheduler, with a completion method and a seed.
#[derive(Clone)]
pub struct Cell {
    /// The load.
    pub work: Work,
    /// The device, as `--device` takes it; a world with one device ignores it.
    pub device: String,
    /// Whose block layer.
    pub stack: Stack,
    /// The scheduler with its settings.
    pub scheduler: SchedulerSpec,
    /// How completions are found.
    pub completion: Completion,
    /// Number of the replicate from 0; the run's seed is the scenario's plus this.
    pub replicate: u32,
    /// Another varied dimension, such as the point of a survey; empty if there is none.
    pub variant: String,
}

impl Cell {
    /// A run of a scenario's load with interrupts, replicate 0.
    pub fn of(load: &Arc<Prepared>, device: &str, stack: Stack, scheduler: SchedulerSpec) -> Cell {
        Cell {
            work: Work::Scenario(Arc::clone(load)),
            device: device.to_owned(),
            stack,
            scheduler,
            completion: Completion::Interrupt,
            replicate: 0,
            variant: String::new(),
        }
    }

    /// The scenario, where the load is one.
    pub fn scenario(&self) -> Option<&Scenario> {
        self.prepared().map(|load| load.scenario())
    }

    /// The prepared load, where it is a scenario's.
    pub fn prepared(&self) -> Option<&Arc<Prepared>> {
        match &self.work {
            Work::Scenario(load) => Some(load),
            Work::DbBench(_) => None,
        }
    }
}

/// Its name for people: the scheduler, and the database if there is one.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.work {
            Work::Scenario(_) => write!(f, "{}", self.scheduler),
            Work::DbBench(bench) => write!(f, "readrandom, {} threads, {}", bench.threads, self.scheduler),
        }
    }
}

/// The result of one run, with what does not belong into its figures.
#[derive(Clone, Debug)]
pub struct CellResult {
    /// Its figures.
    pub run: RunResult,
    /// Remarks for people.
    pub notes: Vec<String>,
    /// Records of traces that were left out or changed, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// [`crate::Control::cancel`] ended it: its figures do not count.
    pub cancelled: bool,
    /// Why no other run should follow: an I/O failed, or data was lost.
    pub failure: Option<Failure>,
}

impl CellResult {
    /// A result without remarks.
    pub fn of(run: RunResult) -> CellResult {
        CellResult { run, notes: Vec::new(), skipped: BTreeMap::new(), cancelled: false, failure: None }
    }
}
