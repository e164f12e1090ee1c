//! How long a sweep will take, from a sample.

use std::time::{Duration, Instant};

use dumbwaiter_experiment::{Control, World};
use dumbwaiter_measure::grouped;

use crate::{Done, Error, Sweep, run_cells};

impl Sweep {
    /// How many cells it has and why, such as `84 cells: 1 duration x 4 queue_depth x 2 device x 4 scheduler x 3 replicates`; those
    /// that it leaves out are not among them.
    pub fn extent(&self) -> String {
        let axes = self.axes().iter().map(|axis| format!("{} {}", axis.values.len(), axis.name));
        let factors: Vec<String> = axes.chain([format!("{} replicates", self.replicates())]).collect();
        format!("{} cells: {}", grouped(self.len()), factors.join(" x "))
    }
}

/// An estimate of a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Cells of the grid.
    pub cells: u64,
    /// Cells that were run for the estimate, spread over the grid.
    pub sampled: u64,
    /// Time of one cell on one CPU, on average; `None` where none was run.
    pub each: Option<Duration>,
    /// Bytes of the data set.
    pub bytes: Option<u64>,
}

/// Cells of a sample, and the time after which no other is begun.
const SAMPLE_CELLS: u64 = 8;
const SAMPLE_TIME: Duration = Duration::from_secs(5);

/// Runs some cells, spread over the grid, and estimates the whole.
pub fn estimate(sweep: &Sweep, world: &dyn World, control: &Control) -> Result<Estimate, Error> {
    let cells = sweep.len();
    let (all, none) = (sweep.grid.len().unwrap_or(0), Done::default());
    let started = Instant::now();
    let (mut sampled, mut bytes) = (0, 0);
    for i in 0..SAMPLE_CELLS.min(cells) {
        if sampled > 0 && started.elapsed() > SAMPLE_TIME || control.cancelled() {
            break;
        }
        // In the middle of each eighth of the grid.
        let from = (2 * i + 1) * (all / SAMPLE_CELLS.min(cells)) / 2;
        let Some(index) = sweep.pending(&none, from, control)?.next() else { break };
        let batch = run_cells(sweep, &[index], world, control)?;
        sampled += 1;
        bytes += batch.parquet.len() as u64;
    }
    let each = (sampled > 0).then(|| started.elapsed() / sampled as u32);
    // A part of one row is mostly the names of its columns: rows of large parts take a quarter of it.
    let bytes = (sampled > 0).then(|| bytes / sampled * cells / 4);
    Ok(Estimate { cells, sampled, each, bytes })
}
