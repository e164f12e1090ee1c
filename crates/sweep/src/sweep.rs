//! A sweep: a scenario and a grid.

use dumbwaiter_scenario::Scenario;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::axis::Axis;
use crate::grid::Grid;

/// A grid of experiments. Its serde form is complete: another machine needs nothing else, traces and device files apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// The scenario, with the keys of its file.
    pub(crate) base: Value,
    pub(crate) grid: Grid,
}

impl Sweep {
    /// Reads what [`Sweep::to_json`] wrote.
    pub fn from_json(text: &str) -> Result<Sweep, Error> {
        serde_json::from_str(text).map_err(|e| Error::input(format!("not a sweep: {e}")))
    }

    /// The whole sweep as text, for other processes.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("every key is a string and every number has a form")
    }

    /// The axes, in the order of the cells' numbers.
    pub fn axes(&self) -> &[Axis] {
        &self.grid.axes
    }

    /// Runs of each combination.
    pub fn replicates(&self) -> u32 {
        self.grid.replicates
    }
}

/// The scenario of these keys.
pub(crate) fn scenario_of(base: &Value) -> Result<Scenario, Error> {
    dumbwaiter_experiment::scenario_of_value(base).map_err(|(key, reason)| match key.as_str() {
        "" => Error::input(reason),
        key => Error::input(format!("{key}: {reason}")),
    })
}
