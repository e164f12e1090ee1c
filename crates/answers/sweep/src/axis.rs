//! An axis of a grid: what varies, and its values.

use dumbwaiter_report::columns::{Column, Values};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;

/// The target of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AxisKind {
    /// The device.
    Device,
    /// The scheduler with its settings.
    Scheduler,
    /// How completions are found.
    Completion,
    /// A key of the scenario, by its path.
    Key,
}

/// An axis of a grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The kind of value that it sets.
    pub kind: AxisKind,
    /// `device`, `scheduler`, `completion`, or the path of a key, such as `task.reader.size`.
    pub name: String,
    /// Its values, in order.
    pub values: Vec<Value>,
}

impl Axis {
    /// The kind that a name has.
    pub(crate) fn kind_of(name: &str) -> AxisKind {
        match name {
            "device" | "devices" => AxisKind::Device,
            "scheduler" | "schedulers" => AxisKind::Scheduler,
            "completion" => AxisKind::Completion,
            _ => AxisKind::Key,
        }
    }

    /// A value as text.
    pub fn text(&self, at: usize) -> String {
        text(&self.values[at])
    }

    /// The values of these rows as a column: whole numbers, real ones, or text.
    pub(crate) fn column(&self, rows: impl Iterator<Item = usize> + Clone) -> Column {
        let values = if self.values.iter().all(Value::is_u64) {
            Values::Whole(rows.map(|at| self.values[at].as_u64().unwrap_or_default()).collect())
        } else if self.values.iter().all(Value::is_number) {
            Values::Real(rows.map(|at| self.values[at].as_f64().unwrap_or(f64::NAN)).collect())
        } else {
            Values::Text(rows.map(|at| self.text(at)).collect())
        };
        Column { name: self.name.clone(), values, present: None }
    }
}

/// A value as people write it.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Does `name` fit `pattern`, in which `*` stands for anything?
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            let mut ends = (0..=name.len()).filter(|at| name.is_char_boundary(*at));
            ends.any(|at| fits(rest, &name[at..]))
        }),
    }
}

/// Sets a key of a scenario by its path. Tenants and tasks are found by their names.
pub(crate) fn set(scenario: &mut Value, path: &str, value: &Value) -> Result<(), Error> {
    let mut parts: Vec<&str> = path.split('.').collect();
    let last = parts.pop().filter(|last| !last.is_empty()).ok_or_else(|| unknown(path, "it is empty"))?;
    let mut at = scenario;
    let mut rest = parts.as_slice();
    while let Some((part, after)) = rest.split_first() {
        (at, rest) = match *part {
            "task" | "tenant" => {
                let (name, after) = after.split_first().ok_or_else(|| unknown(path, "it names no task or tenant"))?;
                (named(at, part, name).ok_or_else(|| unknown(path, &format!("no {part} is called {name:?}")))?, after)
            }
            part => {
                let table = at.as_object_mut().ok_or_else(|| unknown(path, &format!("{part:?} is in no table")))?;
                (table.entry(part).or_insert_with(|| Value::Object(serde_json::Map::new())), after)
            }
        };
    }
    let table = at.as_object_mut().ok_or_else(|| unknown(path, &format!("{last:?} is in no table")))?;
    table.insert(last.to_owned(), value.clone());
    Ok(())
}

fn unknown(path: &str, why: &str) -> Error {
    Error::input(format!(
        "axis {path:?}: {why}; expected the path of a key of the scenario, such as queue_depth or task.NAME.bs"
    ))
}

/// The tenant or task of this name in `at`; a task may be in a tenant.
fn named<'a>(at: &'a mut Value, kind: &str, name: &str) -> Option<&'a mut Value> {
    let is = |entry: &Value| entry.get("name").and_then(Value::as_str) == Some(name);
    let here = at.get(kind).and_then(Value::as_array).and_then(|list| list.iter().position(is));
    if let Some(i) = here {
        return at.get_mut(kind)?.get_mut(i);
    }
    if kind != "task" {
        return None;
    }
    let tenants = at.get_mut("tenant")?.as_array_mut()?;
    tenants.iter_mut().find_map(|tenant| tenant.get_mut("task")?.as_array_mut()?.iter_mut().find(|task| is(task)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_star_stands_for_anything() {
        assert!(fits("hdd:*", "hdd:st1000dm003") && fits("*", "") && fits("a*c*", "abcd"));
        assert!(!fits("hdd:*", "ssd:850pro-256") && !fits("a*c", "abcd"));
    }

    #[test]
    fn a_path_finds_tasks_by_name_wherever_they_are() {
        let mut scenario = json!({"tenant": [{"name": "t", "task": [{"name": "reader", "bs": "4k"}]}]});
        set(&mut scenario, "task.reader.bs", &json!("8k")).unwrap();
        set(&mut scenario, "tenant.t.weight", &json!(200)).unwrap();
        set(&mut scenario, "host.cpus", &json!(2)).unwrap();
        assert_eq!(
            scenario,
            json!({"tenant": [{"name": "t", "weight": 200, "task": [{"name": "reader", "bs": "8k"}]}], "host": {"cpus": 2}})
        );
        let said = set(&mut scenario, "task.writer.bs", &json!("8k")).unwrap_err().to_string();
        assert!(said.contains("no task is called \"writer\""), "{said}");
    }
}
