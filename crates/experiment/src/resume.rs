//! Going on with a comparison that ended early: the runs of its result are not made again.

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
    /// A result of another scenario.
    pub fn resume(&mut self, document: &Document) -> Result<(), ReadError> {
        match self {
            Input::One(experiment) => {
                same_scenario(&document.scenario, &experiment.scenario)?;
                experiment.finished.clone_from(&document.runs);
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
            }
        }
        Ok(())
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
    let device = run.device == cell.device
        || dumbwaiter_devices::load(&cell.device).is_ok_and(|model| model.name() == run.device);
    device
        && run.replicate == cell.replicate
        && run.via == cell.stack.name()
        && run.scheduler == cell.scheduler.to_string()
        && run.completion == cell.completion.to_string()
        && run.variant == cell.variant
}
