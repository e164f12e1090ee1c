//! Going on with a comparison that ended early: the runs of its result are not made again.

use std::collections::BTreeSet;

use dumbwaiter_advise::Document;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::Scenario;
use serde_json::Value;

use crate::cell::{Cell, CellResult};
use crate::input::{Experiment, ReadError};
use crate::matrix::Matrix;
use crate::suite::{Case, Input};

/// Keys of a scenario that say which runs are made, not what each of them is.
const WHICH_RUNS: [&str; 5] = ["devices", "schedulers", "completion", "replicates", "name"];

impl Input {
    /// Takes over the runs of `document`, a result of the same input.
    ///
    /// # Errors
    /// A result of another scenario, or without a run of this comparison's devices and schedulers.
    pub fn resume(&mut self, document: &Document) -> Result<(), ReadError> {
        let taken_over = match self {
            Input::One(experiment) => {
                same_scenario(&document.scenario, &experiment.scenario)?;
                experiment.finished.clone_from(&document.runs);
                takes_over_any(experiment)
            }
            Input::Several { cases, .. } => {
                let none = Vec::new();
                let scenarios = document.scenario.get("scenarios").and_then(Value::as_array).unwrap_or(&none);
                if scenarios.len() != cases.len() {
                    return Err(other_scenario("it has other scenarios"));
                }
                for (case, scenario) in cases.iter_mut().zip(scenarios) {
                    same_scenario(scenario, &case.experiment.scenario)?;
                    let runs = document.runs.iter().filter(|run| run.variant == case.variant);
                    case.experiment.finished = runs.filter_map(|run| of_case(run, case)).collect();
                }
                cases.iter().any(|case| takes_over_any(&case.experiment))
            }
        };
        if taken_over || document.runs.is_empty() {
            return Ok(());
        }
        let ran = |of: fn(&RunResult) -> &String| {
            let names: BTreeSet<&str> = document.runs.iter().map(|run| of(run).as_str()).collect();
            names.into_iter().collect::<Vec<_>>().join(", ")
        };
        Err(ReadError::Input(format!(
            "--resume: the result has no run of this comparison: its devices are {}, its schedulers {}",
            ran(|run| &run.device),
            ran(|run| &run.scheduler)
        )))
    }
}

/// A run of a case as its own comparison makes it; `None` for one of another drive.
fn of_case(run: &RunResult, case: &Case) -> Option<RunResult> {
    let mut run = RunResult { variant: String::new(), ..run.clone() };
    if let Some((_, device)) = &case.drive {
        let own = case.experiment.scenario.devices.first()?;
        run.device = (run.device == *device).then(|| own.clone())?;
    }
    Some(run)
}

/// Whether a run that was made before belongs to the experiment.
fn takes_over_any(experiment: &Experiment) -> bool {
    let Scenario { devices, schedulers, .. } = &experiment.scenario;
    experiment.finished.iter().any(|run| {
        let scheduler = schedulers.iter().any(|spec| spec.to_string() == run.scheduler);
        scheduler && (run.world != "sim" || devices.iter().any(|device| is_device(device, &run.device)))
    })
}

/// Whether results call the device `device` by this name.
fn is_device(device: &str, name: &str) -> bool {
    device == name || dumbwaiter_devices::load(device).is_ok_and(|model| model.name() == name)
}

fn same_scenario(found: &Value, expected: &Scenario) -> Result<(), ReadError> {
    let expected = serde_json::to_value(expected).map_err(|e| ReadError::Input(e.to_string()))?;
    let load = |of: &Value| {
        let mut of = of.clone();
        if let Some(map) = of.as_object_mut() {
            WHICH_RUNS.iter().for_each(|key| _ = map.remove(*key));
        }
        of
    };
    let (found, expected) = (load(found), load(&expected));
    match (found.as_object(), expected.as_object()) {
        _ if found == expected => Ok(()),
        (Some(found), Some(expected)) => {
            let differs = expected.keys().chain(found.keys()).find(|key| found.get(*key) != expected.get(*key));
            Err(other_scenario(&format!("its {:?} differs", differs.map_or("content", String::as_str))))
        }
        _ => Err(other_scenario("it has none")),
    }
}

fn other_scenario(why: &str) -> ReadError {
    ReadError::Input(format!("--resume: the result is of another scenario: {why}; expected one of this comparison"))
}

impl Experiment {
    /// Enters the runs that were made before. Returns how many.
    pub(crate) fn restore(&self, matrix: &mut Matrix) -> usize {
        let mut restored = 0;
        for i in 0..matrix.cells().len() {
            if matrix.result(i).is_none()
                && let Some(run) = self.finished.iter().find(|run| is_run_of(run, &matrix.cells()[i]))
            {
                matrix.restore(i, CellResult::of(run.clone()));
                restored += 1;
            }
        }
        restored
    }
}

fn is_run_of(run: &RunResult, cell: &Cell) -> bool {
    is_device(&cell.device, &run.device)
        && run.replicate == cell.replicate
        && run.via == cell.stack.name()
        && run.scheduler == cell.scheduler.to_string()
        && run.completion == cell.completion.to_string()
        && run.variant == cell.variant
}
