//! Runs of schedulers that are written in Python, and where they are made: here, or in processes of their own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use dumbwaiter_experiment::{About, Cell, CellResult, Concurrency, Control, Failure, Refusal, Stack, World};
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use dumbwaiter_sim::Simulator;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::errors;
use crate::failed::Failed;

/// The simulator, with its own way to run schedulers that are written in Python.
pub(crate) struct Attached {
    pub(crate) simulator: Simulator,
    /// Labels of the schedulers that are written in Python.
    pub(crate) own: Vec<String>,
    pub(crate) failed: Failed,
    /// The processes that run them (`dumbwaiter._workers.Workers`); `None` where they run here, one after the other.
    pub(crate) workers: Option<Py<PyAny>>,
}

#[deny(clippy::missing_trait_methods)]
impl World for Attached {
    fn about(&self) -> About {
        self.simulator.about()
    }

    fn concurrency(&self) -> Concurrency {
        self.simulator.concurrency()
    }

    fn capacity_sectors(&self, device: &str) -> Option<u64> {
        self.simulator.capacity_sectors(device)
    }

    fn supports(&self, cell: &Cell) -> Result<(), Refusal> {
        self.simulator.supports(cell)
    }

    fn run(&self, cell: &Cell, control: &Control) -> Result<CellResult, Failure> {
        let is_own = self.own.contains(&cell.scheduler.to_string());
        match &self.workers {
            _ if !is_own => self.simulator.run(cell, control),
            None => self.failed.attached(|| self.simulator.run(cell, control)),
            Some(workers) => self.run_elsewhere(workers, cell),
        }
    }

    fn conclude(&self, runs: &mut [RunResult], control: &Control) -> Result<Vec<String>, Failure> {
        self.simulator.conclude(runs, control)
    }
}

impl Attached {
    fn run_elsewhere(&self, workers: &Py<PyAny>, cell: &Cell) -> Result<CellResult, Failure> {
        let words = (&cell.device, cell.scheduler.to_string(), cell.completion.to_string(), cell.replicate);
        let answer = Python::attach(|py| workers.call_method1(py, "run", words)?.extract::<Option<String>>(py));
        match answer {
            Ok(Some(text)) => Told::read(&text),
            Ok(None) => Err(Failure::interrupted("interrupted")),
            Err(error) => {
                self.failed.set(error);
                Err(Failure::interrupted("a scheduler raised an exception"))
            }
        }
    }
}

/// A result on its way from a process to another.
#[derive(Serialize, Deserialize)]
struct Told {
    run: RunResult,
    notes: Vec<String>,
    skipped: BTreeMap<String, u64>,
}

impl Told {
    fn read(text: &str) -> Result<CellResult, Failure> {
        let Told { run, notes, skipped } = serde_json::from_str(text).map_err(Failure::refused)?;
        Ok(CellResult { notes, skipped, ..CellResult::of(run) })
    }
}

/// Makes the runs of a process.
#[pyclass(frozen, module = "dumbwaiter._native")]
pub(crate) struct OwnRuns {
    scenario: Scenario,
    simulator: Simulator,
    failed: Failed,
    /// The load, made at the first run.
    load: Mutex<Option<Arc<Prepared>>>,
}

impl OwnRuns {
    /// Runs of a scenario in a simulator that no other thread uses, so that a process that is forked can use it.
    pub(crate) fn new(scenario: Scenario, simulator: Simulator, failed: Failed) -> OwnRuns {
        OwnRuns { scenario, simulator, failed, load: Mutex::default() }
    }

    fn load(&self) -> Result<Arc<Prepared>, Failure> {
        let mut load = self.load.lock().unwrap_or_else(PoisonError::into_inner);
        match &*load {
            Some(load) => Ok(Arc::clone(load)),
            None => {
                let made = Arc::new(Prepared::new(&self.scenario)?);
                Ok(Arc::clone(load.insert(made)))
            }
        }
    }
}

#[pymethods]
impl OwnRuns {
    /// Makes one run; its result as text.
    fn __call__(
        &self,
        py: Python<'_>,
        device: &str,
        scheduler: &str,
        completion: &str,
        replicate: u32,
    ) -> PyResult<String> {
        let scheduler = SchedulerSpec::parse(scheduler).map_err(errors::plain)?;
        let completion = completion.parse().map_err(errors::plain)?;
        let failure = |failure: Failure| errors::of_failure(py, &failure, self.failed.held());
        let load = self.load().map_err(failure)?;
        let cell = Cell { completion, replicate, ..Cell::of(&load, device, Stack::Simulated, scheduler) };
        self.failed.reset();
        let ran = self.failed.attached(|| self.simulator.run(&cell, &Control::default()));
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let CellResult { run, notes, skipped, failure: why, .. } = ran.map_err(failure)?;
        match why {
            Some(why) => Err(failure(why)),
            None => serde_json::to_string(&Told { run, notes, skipped }).map_err(errors::plain),
        }
    }
}

/// Starts the processes.
pub(crate) fn start_workers(py: Python<'_>, count: usize, runs: OwnRuns) -> PyResult<Py<PyAny>> {
    let class = py.import("dumbwaiter._workers")?.getattr("Workers")?;
    Ok(class.call1((count, Py::new(py, runs)?))?.unbind())
}
