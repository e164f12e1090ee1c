//! A sweep: a scenario and a grid.

use std::collections::BTreeMap;

use dumbwaiter_scenario::Scenario;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::axis::Axis;
use crate::grid::Grid;
use crate::model::MODEL;

/// A grid of experiments. Its serde form is complete: another machine needs nothing else, traces and device files apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// The scenario, with the keys of its file.
    pub(crate) base: Value,
    pub(crate) grid: Grid,
    /// For schedulers that are not the program's, by name: what tells one from an older one of the same name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) versions: BTreeMap<String, String>,
}

impl Sweep {
    /// Reads what [`Sweep::to_json`] wrote. One of a process with another version of the model is refused: its cells have other
    /// keys and figures.
    pub fn from_json(text: &str) -> Result<Sweep, Error> {
        let sent: Sent<Sweep> =
            serde_json::from_str(text).map_err(|e| Error::input(format!("not a sweep of this version: {e}")))?;
        if sent.model != MODEL {
            return Err(Error::input(format!(
                "the sweep was planned with version {} of the model, and here it is version {MODEL}; expected the same \
                 dumbwaiter on every machine",
                sent.model
            )));
        }
        Ok(sent.sweep)
    }

    /// The whole sweep as text, for other processes.
    pub fn to_json(&self) -> String {
        let sent = Sent { model: MODEL, sweep: self };
        serde_json::to_string(&sent).expect("every key is a string and every number has a form")
    }

    /// The sweep with schedulers that are not the program's: for each its name and a text that differs where its code does. Their
    /// cells have other keys when that changes.
    pub fn with_versions(self, versions: BTreeMap<String, String>) -> Sweep {
        Sweep { versions, ..self }
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

/// A sweep on its way to another process.
#[derive(Serialize, Deserialize)]
struct Sent<S> {
    model: u32,
    sweep: S,
}

/// The scenario of these keys.
pub(crate) fn scenario_of(base: &Value) -> Result<Scenario, Error> {
    dumbwaiter_experiment::scenario_of_value(base).map_err(|(key, reason)| match key.as_str() {
        "" => Error::input(reason),
        key => Error::input(format!("{key}: {reason}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dumbwaiter_experiment::Control;
    use serde_json::json;

    #[test]
    fn a_process_with_another_model_refuses_the_sweep() {
        let base = json!({"devices": ["null:0us"], "schedulers": ["none"], "duration": "1ms",
            "task": [{"name": "reader", "rw": "randread", "bs": "4k", "iodepth": 1}]});
        let sweep = Sweep::new(base, serde_json::Map::new(), None, Vec::new(), &Control::default()).unwrap();
        let text = sweep.to_json();
        assert_eq!(Sweep::from_json(&text).unwrap(), sweep);
        let other = text.replace(&format!("\"model\":{MODEL}"), "\"model\":4711");
        let said = Sweep::from_json(&other).unwrap_err().to_string();
        assert!(said.contains("version 4711 of the model") && said.contains("the same dumbwaiter"), "{said}");
    }
}
