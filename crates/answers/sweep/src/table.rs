//! Cells run, and their rows.

use std::time::{Duration, Instant};

use dumbwaiter_experiment::{Control, World};
use dumbwaiter_measure::RunResult;
use dumbwaiter_report::columns::{self, Column, Columns, ParquetFile, Values};

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
    /// Number of the given cells, the last ones, that were not run: time was over, or the control was cancelled.
    pub left: usize,
}

impl Batch {
    /// The name of the file that holds them. The same cells have the same name.
    pub fn name(&self) -> String {
        part_name(&self.keys)
    }
}

/// The result of a cell.
struct Row {
    key: Key,
    places: Vec<usize>,
    replicate: u32,
    seed: Option<u64>,
    outcome: Result<RunResult, String>,
}

/// Rows encoded together. A batch that Ctrl-C ends has at most this many left to encode, and a part has few groups, for each
/// takes 10 kB by itself.
const GROUP_ROWS: usize = 250;

/// Encodes rows while further cells run.
struct Encoder<'a> {
    sweep: &'a Sweep,
    waiting: Vec<Row>,
    file: Option<ParquetFile<Vec<u8>>>,
    keys: Vec<Key>,
    errors: Vec<(String, String)>,
}

impl<'a> Encoder<'a> {
    fn new(sweep: &'a Sweep) -> Encoder<'a> {
        Encoder { sweep, waiting: Vec::new(), file: None, keys: Vec::new(), errors: Vec::new() }
    }

    fn add(&mut self, row: Row) -> Result<(), Error> {
        self.keys.push(row.key);
        if let Err(why) = &row.outcome {
            let cell = crate::SweepCell { index: 0, places: row.places.clone(), replicate: row.replicate };
            self.errors.push((self.sweep.told(&cell), why.clone()));
        }
        self.waiting.push(row);
        if self.waiting.len() == GROUP_ROWS { self.encode() } else { Ok(()) }
    }

    fn encode(&mut self) -> Result<(), Error> {
        let failed = |e: std::io::Error| Error::input(format!("rows cannot be written as Parquet: {e}"));
        let rows = table(self.sweep, std::mem::take(&mut self.waiting));
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(ParquetFile::create(Vec::new(), &rows).map_err(failed)?),
        };
        file.add(&rows).map_err(failed)
    }

    fn finish(mut self, left: usize) -> Result<Batch, Error> {
        if !self.waiting.is_empty() {
            self.encode()?;
        }
        let parquet = self.file.map_or(Ok(Vec::new()), ParquetFile::finish);
        let parquet = parquet.map_err(|e| Error::input(format!("rows cannot be written as Parquet: {e}")))?;
        Ok(Batch { keys: self.keys, parquet, errors: self.errors, left })
    }
}

/// Time after which a batch begins no further cell: its size was chosen by cells that may have been much shorter.
const BATCH_LIMIT: Duration = Duration::from_secs(5);

/// Runs the cells of these numbers one after the other, for some seconds: [`Batch::left`] says how many at the end of the list were
/// not begun. A cell that cannot be run has a row with its `error`.
pub fn run_cells(sweep: &Sweep, indices: &[u64], world: &dyn World, control: &Control) -> Result<Batch, Error> {
    run_cells_for(BATCH_LIMIT, sweep, indices, world, control)
}

fn run_cells_for(
    limit: Duration,
    sweep: &Sweep,
    indices: &[u64],
    world: &dyn World,
    control: &Control,
) -> Result<Batch, Error> {
    let started = Instant::now();
    let mut resolver = Resolver::new(sweep, control);
    let mut encoder = Encoder::new(sweep);
    let mut ran = 0;
    for index in indices {
        if control.cancelled() || ran > 0 && started.elapsed() >= limit {
            break;
        }
        let (places, replicate) = sweep.grid.at(*index);
        let Some(outcome) = run_one(&mut resolver, &places, replicate, world, control) else { break };
        let key = resolver.key(&places, replicate).unwrap_or_else(|_| sweep.key_of_values(&places, replicate));
        let seed = resolver.seed(&places, replicate);
        encoder.add(Row { key, places, replicate, seed, outcome })?;
        ran += 1;
    }
    encoder.finish(indices.len() - ran)
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

fn table(sweep: &Sweep, rows: Vec<Row>) -> Columns {
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
    // Seeds have their column above: readers refuse a table with two of one name.
    let is_new = |axis: &crate::Axis| axis.kind == AxisKind::Key && axis.name != "seed";
    for (number, axis) in sweep.axes().iter().enumerate().filter(|(_, axis)| is_new(axis)) {
        c.push(axis.column(rows.iter().map(|row| row.places[number])));
    }
    let present: Vec<bool> = rows.iter().map(|row| row.outcome.is_ok()).collect();
    let (mut runs, mut errors) = (Vec::new(), Vec::new());
    for row in rows {
        match row.outcome {
            Ok(run) => {
                runs.push(run);
                errors.push(String::new());
            }
            Err(why) => errors.push(why),
        }
    }
    let failed = present.iter().map(|ran| !ran).collect();
    c.push(Column { name: "error".into(), values: Values::Text(errors), present: Some(failed) });
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

#[cfg(test)]
mod tests {
    use super::*;
    use dumbwaiter_sim::Simulator;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use serde_json::json;

    fn grid(seeds: u64) -> Sweep {
        let base = json!({"devices": ["null:0us"], "schedulers": ["none"], "duration": "1ms", "warmup": 0, "limit": 2,
            "task": [{"name": "reader", "rw": "randread", "bs": "4k", "iodepth": 1}]});
        let axes = json!({"seed": (0..seeds).collect::<Vec<u64>>()});
        Sweep::new(base, axes.as_object().unwrap().clone(), None, Vec::new(), &Control::default()).unwrap()
    }

    #[test]
    fn a_batch_of_several_groups_has_every_row_once() {
        let cells = 2 * GROUP_ROWS as u64 + 7;
        let sweep = grid(cells);
        let all: Vec<u64> = (0..cells).collect();
        let batch = run_cells_for(Duration::MAX, &sweep, &all, &Simulator::new(1), &Control::default()).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(batch.parquet.clone())).unwrap();
        assert_eq!(reader.num_row_groups(), 3);
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let names: std::collections::BTreeSet<&str> = schema.columns().iter().map(|column| column.name()).collect();
        assert_eq!(names.len(), schema.num_columns(), "two columns of one name");
        assert_eq!(crate::part_keys("part", batch.parquet).unwrap(), batch.keys);
        let different: std::collections::BTreeSet<Key> = batch.keys.iter().copied().collect();
        assert_eq!((different.len() as u64, batch.left), (cells, 0));
    }

    #[test]
    fn a_batch_without_time_runs_one_cell_and_returns_the_others() {
        let (sweep, world, control) = (grid(5), Simulator::new(1), Control::default());
        let batch = run_cells_for(Duration::ZERO, &sweep, &[3, 1, 4], &world, &control).unwrap();
        assert_eq!((batch.keys.len(), batch.left), (1, 2));
        let alone = run_cells(&sweep, &[3], &world, &control).unwrap();
        assert_eq!(batch.keys, alone.keys);
    }

    #[test]
    fn a_batch_that_is_cancelled_has_no_part() {
        let control = Control::default();
        control.cancel.store(true, std::sync::atomic::Ordering::Relaxed);
        let batch = run_cells(&grid(3), &[0, 1, 2], &Simulator::new(1), &control).unwrap();
        assert_eq!((batch.keys.len(), batch.parquet.len(), batch.left), (0, 0, 3));
    }
}
