//! Reading a sweep, and checking it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dumbwaiter_experiment::{Control, Experiment, InputKind, Overrides, input_kind};
use dumbwaiter_scenario::{Scenario, SchedulerSpec, library, read_text};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::axis::{self, Axis, AxisKind};
use crate::cell::Resolver;
use crate::grid::Grid;
use crate::sweep::{Sweep, scenario_of};
use crate::{Error, key};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    base: String,
    axes: Map<String, Value>,
    replicates: Option<u32>,
    #[serde(default, rename = "where")]
    leave: Where,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Where {
    #[serde(default)]
    not: Vec<Map<String, Value>>,
}

/// Most values of one axis, and most cells of a grid: more is a mistake.
const CELLS_MAX: u64 = 1 << 40;

impl Sweep {
    /// Reads a sweep's file. Its `base` is beside it, unless it is an absolute path or the name of a scenario. Traces are read for their keys, until
    /// `control` is cancelled.
    pub fn read(path: &Path, control: &Control) -> Result<Sweep, Error> {
        let text = read_text(path).map_err(|e| Error::Base(e.into()))?;
        let refused = |e: &dyn std::fmt::Display| Error::input(format!("{}: {e}", path.display()));
        let file: File = toml::from_str(&text).map_err(|e| refused(&e.to_string().trim_end()))?;
        let beside = path.parent().unwrap_or(Path::new("")).join(&file.base);
        let as_it_is = PathBuf::from(&file.base);
        let is_other = !beside.exists() && (as_it_is.exists() || builtin(&as_it_is).is_some());
        let base = read_base(if is_other { &as_it_is } else { &beside })?;
        Sweep::new(base, file.axes, file.replicates, file.leave.not, control).map_err(|e| match e {
            Error::Input(text) => refused(&text),
            other => other,
        })
    }

    /// A sweep over a base with the keys of a scenario's file. `axes`: for each name a list of values, or one value.
    /// `replicates` may be among them. `not`: cells that fit one of these are left out.
    pub fn new(
        base: Value,
        mut axes: Map<String, Value>,
        replicates: Option<u32>,
        not: Vec<Map<String, Value>>,
        control: &Control,
    ) -> Result<Sweep, Error> {
        let scenario = scenario_of(&base)?;
        let given = match axes.remove("replicates") {
            None => None,
            Some(Value::Number(n)) => n.as_u64().and_then(|n| u32::try_from(n).ok()).or(Some(0)),
            Some(other) => {
                return Err(Error::input(format!("axes.replicates: {other} was found; expected a whole number")));
            }
        };
        // Seeds are replicates by themselves.
        let default = if axes.contains_key("seed") { 1 } else { scenario.replicates };
        let replicates = given.or(replicates).unwrap_or(default);
        if replicates == 0 {
            return Err(Error::input("axes.replicates: expected at least 1"));
        }
        let mut list: Vec<Axis> =
            axes.into_iter().map(|(name, values)| read_axis(&name, values)).collect::<Result<_, _>>()?;
        for (kind, name, values) in [
            (AxisKind::Device, "device", scenario.devices.iter().map(|d| Value::from(d.as_str())).collect()),
            (AxisKind::Scheduler, "scheduler", scenario.schedulers.iter().map(|s| s.to_string().into()).collect()),
            (AxisKind::Completion, "completion", scenario.completion.iter().map(|c| c.to_string().into()).collect()),
        ] {
            if !list.iter().any(|axis| axis.kind == kind) {
                list.push(Axis { kind, name: name.into(), values });
            }
        }
        let mut names = BTreeSet::new();
        if let Some(axis) = list.iter().find(|axis| !names.insert(axis.name.clone())) {
            return Err(Error::input(format!("axes.{}: given twice", axis.name)));
        }
        check_seeds(&list, replicates)?;
        let grid = Grid::new(list, replicates, not);
        grid.rules().map_err(Error::Input)?;
        if grid.len().is_none_or(|cells| cells > CELLS_MAX) {
            return Err(Error::input("axes: the grid has more than 10^12 cells; expected fewer"));
        }
        let sweep = Sweep { base, grid, versions: BTreeMap::new() };
        sweep.check_axes(control)?;
        Ok(sweep)
    }

    /// Each value of each axis with the first values of the others: one that no cell can have is a mistake of the sweep, as
    /// are two that mean the same.
    fn check_axes(&self, control: &Control) -> Result<(), Error> {
        let mut resolver = Resolver::new(self, control);
        for (number, axis) in self.grid.axes.iter().enumerate() {
            let mut refusal = None;
            let mut accepted = false;
            let mut seen: BTreeMap<key::Key, String> = BTreeMap::new();
            // Different whole numbers mean different things: of a million seeds not all need be resolved.
            let are_distinct = axis.values.iter().all(|value| value.is_i64() || value.is_u64());
            for at in 0..axis.values.len() {
                if accepted && are_distinct {
                    break;
                }
                let mut places = vec![0; self.grid.axes.len()];
                places[number] = at;
                match resolver.key(&places, 0) {
                    Ok(key) => {
                        accepted = true;
                        if let Some(other) = seen.insert(key, axis.text(at)) {
                            let (name, this) = (&axis.name, axis.text(at));
                            return Err(Error::input(format!(
                                "axes.{name}: {other} and {this} mean the same; leave one out"
                            )));
                        }
                    }
                    Err(Error::Interrupted) => return Err(Error::Interrupted),
                    Err(why) => refusal = refusal.or(Some(why)),
                }
            }
            if !accepted && let Some(why) = refusal {
                return Err(Error::input(format!("axes.{}: {why}", axis.name)));
            }
        }
        Ok(())
    }
}

/// A replicate adds its number to the seed: seeds that are too near to each other would give the same runs twice.
fn check_seeds(axes: &[Axis], replicates: u32) -> Result<(), Error> {
    let Some(axis) = axes.iter().find(|axis| axis.name == "seed") else { return Ok(()) };
    let mut seeds: Vec<u64> = axis.values.iter().filter_map(Value::as_u64).collect();
    seeds.sort_unstable();
    match seeds.windows(2).find(|pair| pair[1] - pair[0] < u64::from(replicates)) {
        Some(pair) => Err(Error::input(format!(
            "axes.seed: {} and {} have the same runs among their {replicates} replicates; expected seeds {replicates} apart, or \
             replicates = 1",
            pair[0], pair[1]
        ))),
        None => Ok(()),
    }
}

/// The scenario inside the program that is named where no file is.
fn builtin(path: &Path) -> Option<library::Named> {
    path.to_str().filter(|_| !path.exists()).and_then(library::named)
}

/// Reads the base of a sweep: a scenario, by its file or its name, a fio job or a trace, as a value with the keys of a scenario's file. TOML keeps its keys
/// as they are, so that axes can name them; others get those of the scenario they make.
pub fn read_base(path: &Path) -> Result<Value, Error> {
    if let Some(named) = builtin(path) {
        return toml::from_str(named.toml).map_err(|e| Error::input(format!("{}: {e}", named.name)));
    }
    let paths = [path.to_owned()];
    let known = |e: dumbwaiter_experiment::ReadError| Error::Base(e);
    if input_kind(path).map_err(known)? == InputKind::Scenario {
        let (scenario, _) = Scenario::load(path).map_err(|e| Error::Base(e.into()))?;
        let text = read_text(path).map_err(|e| Error::Base(e.into()))?;
        let plain: Value = toml::from_str(&text).map_err(|e| Error::input(format!("{}: {e}", path.display())))?;
        return if names_fio(&plain) { value_of(&scenario) } else { Ok(plain) };
    }
    let experiment =
        Experiment::read(&paths, Scenario::builtin, &Overrides::default(), Default::default()).map_err(known)?;
    value_of(&experiment.scenario)
}

fn value_of(scenario: &Scenario) -> Result<Value, Error> {
    serde_json::to_value(scenario).map_err(|e| Error::input(e.to_string()))
}

/// Does a task name a fio file, which is beside the scenario's?
fn names_fio(scenario: &Value) -> bool {
    let tasks = |table: &Value| {
        let list = table.get("task").and_then(Value::as_array);
        list.is_some_and(|list| list.iter().any(|task| task.get("fio").is_some()))
    };
    let tenants = scenario.get("tenant").and_then(Value::as_array);
    tasks(scenario) || tenants.is_some_and(|list| list.iter().any(tasks))
}

fn read_axis(name: &str, values: Value) -> Result<Axis, Error> {
    let kind = Axis::kind_of(name);
    let name = match kind {
        AxisKind::Device => "device",
        AxisKind::Scheduler => "scheduler",
        AxisKind::Completion => "completion",
        AxisKind::Key => name,
    };
    let mut values = match values {
        Value::Array(values) => values,
        one => vec![one],
    };
    if values.is_empty() {
        return Err(Error::input(format!("axes.{name}: the list is empty; expected at least one value")));
    }
    if kind != AxisKind::Key {
        for value in &mut values {
            if kind == AxisKind::Scheduler {
                let spec =
                    SchedulerSpec::deserialize(&*value).map_err(|e| Error::input(format!("axes.{name}: {e}")))?;
                *value = spec.to_string().into();
            }
            if !value.is_string() {
                return Err(Error::input(format!("axes.{name}: {value} was found; expected text")));
            }
        }
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = values.iter().find(|value| !seen.insert(axis::text(value))) {
        return Err(Error::input(format!("axes.{name}: {} is given twice", axis::text(twice))));
    }
    Ok(Axis { kind, name: name.into(), values })
}
