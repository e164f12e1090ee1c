//! The grid: cells by number, without a list of them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::axis::{Axis, AxisKind, fits, text};

/// The axes and what is left out. The last axis varies fastest; the replicate varies faster still.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Grid {
    pub(crate) axes: Vec<Axis>,
    pub(crate) replicates: u32,
    /// A cell that fits one of them is left out.
    pub(crate) not: Vec<Map<String, Value>>,
}

impl Grid {
    /// Axes of keys first: cells of one scenario are neighbours.
    pub(crate) fn new(mut axes: Vec<Axis>, replicates: u32, not: Vec<Map<String, Value>>) -> Grid {
        axes.sort_by_key(|axis| axis.kind != AxisKind::Key);
        Grid { axes, replicates, not }
    }

    /// Number of cells, those that are left out included.
    pub(crate) fn len(&self) -> Option<u64> {
        let axes = self.axes.iter().map(|axis| axis.values.len() as u64);
        axes.chain([u64::from(self.replicates)]).try_fold(1u64, u64::checked_mul)
    }

    /// Places on the axes, and the replicate.
    pub(crate) fn at(&self, index: u64) -> (Vec<usize>, u32) {
        let replicate = (index % u64::from(self.replicates)) as u32;
        let mut rest = index / u64::from(self.replicates);
        let mut places = vec![0; self.axes.len()];
        for (place, axis) in places.iter_mut().zip(&self.axes).rev() {
            let values = axis.values.len() as u64;
            *place = (rest % values) as usize;
            rest /= values;
        }
        (places, replicate)
    }

    /// Which values of which axis each rule is about. A rule about an axis that the grid lacks is an error.
    pub(crate) fn rules(&self) -> Result<Rules, String> {
        let mut rules = Vec::new();
        for not in &self.not {
            let mut rule = Vec::new();
            for (name, pattern) in not {
                let number = self.axes.iter().position(|axis| axis.name == *name).ok_or_else(|| {
                    let known: Vec<&str> = self.axes.iter().map(|axis| axis.name.as_str()).collect();
                    format!("where.not: {name:?} is not an axis; expected one of {}", known.join(", "))
                })?;
                rule.push((number, self.axes[number].values.iter().map(|v| matches(pattern, v)).collect()));
            }
            rules.push(rule);
        }
        Ok(Rules(rules))
    }
}

fn matches(pattern: &Value, value: &Value) -> bool {
    match pattern {
        Value::Array(any) => any.iter().any(|pattern| matches(pattern, value)),
        Value::String(pattern) => fits(pattern, &text(value)),
        _ => pattern == value || pattern.as_f64().is_some_and(|number| value.as_f64() == Some(number)),
    }
}

/// Of each rule the axes that it is about, and for each of their values whether it fits.
pub(crate) struct Rules(Vec<Vec<(usize, Vec<bool>)>>);

impl Rules {
    /// Is a cell at these places left out?
    pub(crate) fn leave_out(&self, places: &[usize]) -> bool {
        self.0.iter().any(|rule| rule.iter().all(|(axis, fits)| fits[places[*axis]]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn axis(name: &str, values: Value) -> Axis {
        Axis { kind: Axis::kind_of(name), name: name.into(), values: values.as_array().unwrap().clone() }
    }

    #[test]
    fn every_cell_has_one_number_and_rules_leave_cells_out() {
        let not = json!({"device": "hdd:*", "queue_depth": 32});
        let axes = vec![axis("device", json!(["hdd:a", "ssd:b"])), axis("queue_depth", json!([1, 32]))];
        let grid = Grid::new(axes, 3, vec![not.as_object().unwrap().clone()]);
        assert_eq!(grid.axes[0].name, "queue_depth");
        let rules = grid.rules().unwrap();
        let all: Vec<_> = (0..grid.len().unwrap()).map(|i| grid.at(i)).collect();
        assert_eq!(all.len(), 12);
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 12);
        assert_eq!(all.iter().filter(|(places, _)| rules.leave_out(places)).count(), 3);
    }
}
