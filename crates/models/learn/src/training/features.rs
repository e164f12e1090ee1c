//! Rows of inputs as files for other frameworks.

use std::io::{self, Write};

use crate::FeatureSet;

use crate::training::Error;
use crate::training::data::DataSet;
use crate::training::samples::{Geometry, Rows};
use crate::training::task::{RECORDED_SECTORS, Task, task_rows};

/// Rows of one run, with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedRows {
    /// `repeat/workload`.
    pub run: String,
    /// The rows.
    pub rows: Rows,
}

/// The rows of recorded runs, and the runs without rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeatureRows {
    /// Runs with rows.
    pub runs: Vec<NamedRows>,
    /// Runs that were skipped.
    pub skipped: Vec<SkippedRun>,
}

/// A run without rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRun {
    /// `repeat/workload`.
    pub run: String,
    /// Why, as a sentence.
    pub why: String,
}

/// The rows that training would use, run by run: a classifier's truth is the class, otherwise ln latency in us.
///
/// # Errors
/// No run gives rows.
pub fn rows_by_run(data: &DataSet, task: Task, features: FeatureSet) -> Result<FeatureRows, Error> {
    let device = Geometry { sectors: RECORDED_SECTORS, ..Geometry::default() };
    let mut found = FeatureRows::default();
    for run in &data.runs {
        let name = run.name();
        if !task.uses(run) {
            let why = format!("the task {} covers the workloads {}", task.name(), task.workloads().join(", "));
            found.skipped.push(SkippedRun { run: name, why });
            continue;
        }
        let one = DataSet { runs: vec![run.clone()] };
        let rows = task_rows(&one, task, features, &device);
        if rows.is_empty() {
            let why = "too few reads and writes: the inputs need 16 that completed before".to_owned();
            found.skipped.push(SkippedRun { run: name, why });
        } else {
            found.runs.push(NamedRows { run: name, rows });
        }
    }
    if found.runs.is_empty() {
        let skipped = found.skipped.iter().map(|skipped| format!("{}: {}", skipped.run, skipped.why));
        let skipped: Vec<String> = skipped.collect();
        return Err(Error::Usage(format!("no run gives rows; {}", skipped.join("; "))));
    }
    Ok(found)
}

/// The rows of all runs by column: inputs `x0` and on, the truth, mean and deviation of the last 16 ln latencies.
pub fn columns(runs: &[NamedRows]) -> Vec<(String, Vec<f32>)> {
    let column = |of_row: &dyn Fn(&Rows, usize) -> f32| -> Vec<f32> {
        runs.iter().flat_map(|run| (0..run.rows.len()).map(|index| of_row(&run.rows, index))).collect()
    };
    let width = runs.first().map_or(0, |run| run.rows.width);
    let mut columns: Vec<(String, Vec<f32>)> =
        (0..width).map(|input| (format!("x{input}"), column(&|rows, index| rows.row(index)[input]))).collect();
    columns.push(("truth".to_owned(), column(&|rows, index| rows.truths[index])));
    columns.push(("history_mean".to_owned(), column(&|rows, index| rows.normals[index].0)));
    columns.push(("history_deviation".to_owned(), column(&|rows, index| rows.normals[index].1)));
    columns
}

/// Writes rows as one NumPy array of 32-bit floats (`.npy`, version 1.0): a line per row; its inputs, the truth, mean and
/// deviation of the last 16 ln latencies, and the number of the run.
pub fn write_npy(runs: &[NamedRows], out: &mut impl Write) -> io::Result<()> {
    let rows: usize = runs.iter().map(|run| run.rows.len()).sum();
    let columns = runs.first().map_or(0, |run| run.rows.width) + 4;
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    // Magic, version, length and header together are a multiple of 64 bytes and end with a line feed.
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    header += &" ".repeat(length - header.len() - 1);
    header.push('\n');
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&(header.len() as u16).to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    for (number, run) in runs.iter().enumerate() {
        for index in 0..run.rows.len() {
            let (mean, deviation) = run.rows.normals[index];
            let others = [run.rows.truths[index], mean, deviation, number as f32];
            for value in run.rows.row(index).iter().chain(&others) {
                out.write_all(&value.to_le_bytes())?;
            }
        }
    }
    Ok(())
}
