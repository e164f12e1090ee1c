//! Cells run, and their rows.

use dumbwaiter_experiment::{Control, World};
use dumbwaiter_measure::RunResult;
use dumbwaiter_report::columns::{self, Column, Columns, Values};

use crate::axis::AxisKind;
use crate::cell::Resolver;
use crate::part::part_name;
use crate::{Error, Key, Sweep};

/// Rows of some cells.
pub struct Batch {
    /// Their keys, in the order of the rows.
    pub keys: Vec<Key>,
    /// The rows, as Parquet.
    pub parquet: Vec<u8>,
    /// Of each cell that failed, its values and why.
    pub errors: Vec<(String, String)>,
    /// Number of the given cells that were not run, since the control was cancelled.
    pub left: usize,
}

impl Batch {
    /// The name of the file that holds them. The same cells have the same name.
    pub fn name(&self) -> String {
        part_name(&self.keys)
    }
}

/// The outcome of a cell.
struct Row {
    key: Key,
    places: Vec<usize>,
    replicate: u32,
    seed: Option<u64>,
    outcome: Result<RunResult, String>,
}

/// Runs the cells of these numbers one after the other. A cell that cannot be run has a row with its `error`.
pub fn run_cells(sweep: &Sweep, indices: &[u64], world: &dyn World, control: &Control) -> Result<Batch, Error> {
    let mut resolver = Resolver::new(sweep)?;
    let mut rows = Vec::with_capacity(indices.len());
    for index in indices {
        if control.cancelled() {
            break;
        }
        let (places, replicate) = sweep.grid.at(*index);
        let Some(outcome) = run_one(&mut resolver, &places, replicate, world, control) else { break };
        let key = resolver.key(&places, replicate).unwrap_or_else(|_| sweep.key_of_values(&places, replicate));
        let seed = resolver.seed(&places, replicate);
        rows.push(Row { key, places, replicate, seed, outcome });
    }
    let left = indices.len() - rows.len();
    let failed = rows.iter().filter_map(|row| {
        let cell = crate::SweepCell { index: 0, places: row.places.clone(), replicate: row.replicate };
        row.outcome.as_ref().err().map(|why| (sweep.told(&cell), why.clone()))
    });
    let errors = failed.collect();
    let mut parquet = Vec::new();
    if !rows.is_empty() {
        let written = table(sweep, &rows).write(&mut parquet);
        written.map_err(|e| Error::input(format!("rows cannot be written as Parquet: {e}")))?;
    }
    Ok(Batch { keys: rows.iter().map(|row| row.key).collect(), parquet, errors, left })
}

/// `None` where the control ended the run.
fn run_one(
    resolver: &mut Resolver<'_>,
    places: &[usize],
    replicate: u32,
    world: &dyn World,
    control: &Control,
) -> Option<Result<RunResult, String>> {
    let ran = resolver.cell(places, replicate).map_err(|e| e.to_string()).and_then(|cell| {
        world.supports(&cell).map_err(|e| e.to_string())?;
        world.run(&cell, control).map_err(|e| e.to_string())
    });
    match ran {
        Ok(result) if result.cancelled => None,
        Err(_) if control.cancelled() => None,
        Ok(result) => Some(match result.failure {
            None if result.run.requests == 0 && !result.skipped.is_empty() => {
                Err("no request reached the device".into())
            }
            None => Ok(result.run),
            Some(failure) => Err(failure.reason),
        }),
        Err(why) => Some(Err(why)),
    }
}

/// Columns of a run that a cell's own values stand for, or that mean nothing outside a document.
const NOT_OF_A_CELL: [&str; 8] = ["run", "device", "variant", "scheduler", "replicate", "completion", "seed", "world"];

fn table(sweep: &Sweep, rows: &[Row]) -> Columns {
    let mut c = Columns::default();
    c.text("key", rows.iter().map(|row| row.key.to_string()));
    for (name, kind) in
        [("device", AxisKind::Device), ("scheduler", AxisKind::Scheduler), ("completion", AxisKind::Completion)]
    {
        c.text(name, rows.iter().map(|row| sweep.value(kind, &row.places)));
    }
    c.whole("replicate", rows.iter().map(|row| u64::from(row.replicate)));
    c.push(Column {
        name: "seed".into(),
        values: Values::Whole(rows.iter().map(|row| row.seed.unwrap_or_default()).collect()),
        present: Some(rows.iter().map(|row| row.seed.is_some()).collect()),
    });
    for (number, axis) in sweep.axes().iter().enumerate().filter(|(_, axis)| axis.kind == AxisKind::Key) {
        c.push(axis.column(rows.iter().map(|row| row.places[number])));
    }
    let failed = rows.iter().map(|row| row.outcome.as_ref().err().cloned());
    c.push(Column {
        name: "error".into(),
        values: Values::Text(failed.clone().map(Option::unwrap_or_default).collect()),
        present: Some(failed.map(|why| why.is_some()).collect()),
    });
    let present: Vec<bool> = rows.iter().map(|row| row.outcome.is_ok()).collect();
    let runs: Vec<RunResult> = rows.iter().filter_map(|row| row.outcome.as_ref().ok().cloned()).collect();
    let names: Vec<String> = c.columns().iter().map(|column| column.name.clone()).collect();
    let mut figures = Columns::default();
    columns::figures(&mut figures, &runs);
    for column in figures.into_columns() {
        if !NOT_OF_A_CELL.contains(&column.name.as_str()) && !names.contains(&column.name) {
            c.push(spread(column, &present));
        }
    }
    c
}

/// The column with a gap for each row that is not `present`.
fn spread(column: Column, present: &[bool]) -> Column {
    fn fill<T: Clone + Default>(values: Vec<T>, present: &[bool]) -> Vec<T> {
        let mut values = values.into_iter();
        present.iter().map(|is| if *is { values.next().unwrap_or_default() } else { T::default() }).collect()
    }
    let values = match column.values {
        Values::Text(values) => Values::Text(fill(values, present)),
        Values::Whole(values) => Values::Whole(fill(values, present)),
        Values::Real(values) => Values::Real(fill(values, present)),
    };
    // Every part has the same schema, whether a cell of it failed or not.
    Column { name: column.name, values, present: Some(present.to_vec()) }
}
