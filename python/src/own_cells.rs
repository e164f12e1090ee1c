//! The cells of a sweep, some of whose schedulers are written in Python.

use std::sync::Arc;

use dumbwaiter_experiment::{About, Cell, CellResult, Concurrency, Control, Failure, Refusal, World};
use dumbwaiter_measure::RunResult;
use dumbwaiter_sim::Simulator;
use dumbwaiter_sweep::Axis;
use pyo3::prelude::*;

use crate::failed::Failed;
use crate::own_class::OwnClass;
use crate::own_runs::Attached;

/// A simulator in which a cell whose scheduler raises an exception fails, and the others go on.
pub(crate) struct OwnCells(Attached);

impl OwnCells {
    /// A simulator of the program's schedulers and these classes, with the settings that they have on an axis.
    pub(crate) fn new(classes: &[Bound<'_, PyAny>], axes: &[Axis]) -> PyResult<OwnCells> {
        let failed = Failed::new(|| {});
        let mut simulator = Simulator::new(1);
        let mut own = Vec::new();
        for class in classes {
            let class = OwnClass::of(class, &failed)?;
            simulator = simulator.with_scheduler(&class.name, class.like, Arc::clone(&class.factory));
            let values = axes.iter().filter(|axis| axis.name == "scheduler").flat_map(|axis| &axis.values);
            for text in values.filter_map(|value| value.as_str()) {
                if text.split_once(':').is_some_and(|(name, _)| name == class.name) {
                    let (name, like, factory) = class.with(text)?;
                    simulator = simulator.with_scheduler(&name, like, factory);
                    own.push(name);
                }
            }
            own.push(class.name);
        }
        Ok(OwnCells(Attached { simulator, own, failed, workers: None }))
    }
}

#[deny(clippy::missing_trait_methods)]
impl World for OwnCells {
    fn about(&self) -> About {
        self.0.about()
    }

    fn concurrency(&self) -> Concurrency {
        self.0.concurrency()
    }

    fn capacity_sectors(&self, device: &str) -> Option<u64> {
        self.0.capacity_sectors(device)
    }

    fn supports(&self, cell: &Cell) -> Result<(), Refusal> {
        self.0.supports(cell)
    }

    fn run(&self, cell: &Cell, control: &Control) -> Result<CellResult, Failure> {
        self.0.failed.reset();
        let ran = self.0.run(cell, control);
        match self.0.failed.take() {
            Some(error) => Err(Failure::refused(format!("scheduler {} raised {error}", cell.scheduler))),
            None => ran,
        }
    }

    fn conclude(&self, runs: &mut [RunResult], control: &Control) -> Result<Vec<String>, Failure> {
        self.0.conclude(runs, control)
    }
}

/// Checks a class of a scheduler that is written in Python; its name.
#[pyfunction]
pub(crate) fn own_scheduler(class: &Bound<'_, PyAny>) -> PyResult<String> {
    OwnClass::of(class, &Failed::new(|| {})).map(|class| class.name)
}
