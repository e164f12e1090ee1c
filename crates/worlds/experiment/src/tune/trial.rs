//! A run of a search as text, so that another process can make it.

use std::sync::Arc;

use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use serde::{Deserialize, Serialize};

use crate::{Cell, Control, Failure, Stack, World};

/// A run that another process can make.
#[derive(Serialize, Deserialize)]
pub(super) struct RemoteTrial {
    pub(super) scenario: serde_json::Value,
    pub(super) device: String,
    pub(super) scheduler: SchedulerSpec,
    pub(super) replicate: u32,
}

impl RemoteTrial {
    pub(super) fn to_text(&self) -> Result<String, Failure> {
        serde_json::to_string(self).map_err(Failure::refused)
    }
}

/// Runs a trial that [`super::Tuner::remote`] wrote.
///
/// # Errors
/// Text that is no trial, or a run that fails.
pub fn run_trial(text: &str, world: &dyn World, control: &Control) -> Result<RunResult, Failure> {
    let trial: RemoteTrial = serde_json::from_str(text).map_err(|e| Failure::refused(format!("not a trial: {e}")))?;
    let scenario: Scenario = serde_json::from_value(trial.scenario).map_err(Failure::refused)?;
    let load = Arc::new(Prepared::unless(&scenario, &|| control.cancelled())?);
    let completion = scenario.completion.first().copied().unwrap_or_default();
    let of = Cell::of(&load, &trial.device, Stack::Simulated, trial.scheduler);
    let result = world.run(&Cell { completion, replicate: trial.replicate, ..of }, control)?;
    match result.failure {
        Some(failure) => Err(failure),
        None if result.cancelled => Err(Failure::interrupted("interrupted")),
        None => Ok(result.run),
    }
}
