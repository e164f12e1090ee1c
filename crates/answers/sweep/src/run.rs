//! A sweep on this machine.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dumbwaiter_experiment::{Control, World};

use crate::{Error, Folder, Sweep, run_cells};

/// Wall-clock time that a batch should take.
const BATCH: Duration = Duration::from_secs(2);

/// How many cells the next batch gets, from how long those before took.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchSize {
    cells: u64,
    took: Duration,
}

impl BatchSize {
    /// A batch took so long.
    pub fn record(&mut self, cells: u64, took: Duration) {
        // Older batches count less: cells differ.
        if self.took > 10 * BATCH {
            self.cells = self.cells.div_ceil(2);
            self.took /= 2;
        }
        self.cells += cells;
        self.took += took;
    }

    /// Cells for the next batch, where `left` cells are left for `workers` workers.
    pub fn next(&self, left: u64, workers: u64) -> u64 {
        if self.cells == 0 {
            return 1;
        }
        let each = (self.took.as_nanos() / u128::from(self.cells)).max(1);
        let fitting = (BATCH.as_nanos() / each).clamp(1, 1 << 20) as u64;
        // So that all workers end at about the same time.
        fitting.min(left.div_ceil(2 * workers.max(1))).max(1)
    }
}

/// How far a sweep is. Read it from another thread.
#[derive(Debug, Default)]
pub struct Progress {
    /// Cells of the whole grid.
    pub cells: AtomicU64,
    /// Cells that had their rows before this call.
    pub found: AtomicU64,
    /// Cells that this call has run.
    pub ran: AtomicU64,
    /// Those of them that failed.
    pub failed: AtomicU64,
}

/// The outcome of [`run`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Cells of the grid.
    pub cells: u64,
    /// Cells whose rows were there.
    pub found: u64,
    /// Cells that were run.
    pub ran: u64,
    /// Cells of those that failed, which have a row with an `error`.
    pub failed: u64,
    /// Whether the control ended it before every cell had its row.
    pub cancelled: bool,
}

struct Work<'a> {
    pending: crate::Pending<'a>,
    /// Cells that a batch had no time for.
    returned: Vec<u64>,
    size: BatchSize,
    left: u64,
    error: Option<Error>,
}

/// Runs the cells that `folder` lacks, `jobs` at a time, and writes their rows into it.
pub fn run(
    sweep: &Sweep,
    folder: &Path,
    jobs: usize,
    fail_fast: bool,
    world: &dyn World,
    control: &Control,
    progress: &Progress,
) -> Result<Finished, Error> {
    let folder = Folder::open(folder, sweep)?;
    let done = folder.done(control)?;
    let cells = sweep.len();
    progress.cells.store(cells, Ordering::Relaxed);
    progress.found.store(done.len() as u64, Ordering::Relaxed);
    let jobs = jobs.max(1);
    let left = cells.saturating_sub(done.len() as u64);
    let pending = sweep.pending(&done, 0, control)?;
    let work = Mutex::new(Work { pending, returned: Vec::new(), size: BatchSize::default(), left, error: None });
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(left.max(1) as usize) {
            scope.spawn(|| {
                while let Some(error) = one_batch(sweep, &folder, &work, jobs, fail_fast, world, control, progress) {
                    if let Err(error) = error {
                        lock(&work).error.get_or_insert(error);
                        break;
                    }
                }
            });
        }
    });
    let work = work.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(error) = work.error {
        return Err(error);
    }
    Ok(Finished {
        cells,
        found: done.len() as u64,
        ran: progress.ran.load(Ordering::Relaxed),
        failed: progress.failed.load(Ordering::Relaxed),
        cancelled: control.cancelled(),
    })
}

fn lock<'a, 'b>(work: &'a Mutex<Work<'b>>) -> std::sync::MutexGuard<'a, Work<'b>> {
    work.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Takes cells, runs them and writes their rows; `None` where none are left.
#[expect(clippy::too_many_arguments, reason = "what the threads of `run` share")]
fn one_batch(
    sweep: &Sweep,
    folder: &Folder,
    work: &Mutex<Work<'_>>,
    jobs: usize,
    fail_fast: bool,
    world: &dyn World,
    control: &Control,
    progress: &Progress,
) -> Option<Result<(), Error>> {
    let indices: Vec<u64> = {
        let mut work = lock(work);
        if control.cancelled() || work.error.is_some() {
            return None;
        }
        let size = work.size.next(work.left, jobs as u64);
        let Work { pending, returned, .. } = &mut *work;
        let indices: Vec<u64> = match returned.len() {
            0 => pending.by_ref().take(size as usize).collect(),
            waiting => returned.drain(waiting.saturating_sub(size as usize)..).collect(),
        };
        work.left = work.left.saturating_sub(indices.len() as u64);
        indices
    };
    if indices.is_empty() {
        return None;
    }
    let started = Instant::now();
    let batch = match run_cells(sweep, &indices, world, control) {
        Ok(batch) => batch,
        Err(error) => return Some(Err(error)),
    };
    let stops = fail_fast.then(|| batch.errors.first().cloned()).flatten();
    if let Err(error) = folder.add(&batch) {
        return Some(Err(error));
    }
    let ran = batch.keys.len() as u64;
    progress.ran.fetch_add(ran, Ordering::Relaxed);
    progress.failed.fetch_add(batch.errors.len() as u64, Ordering::Relaxed);
    {
        let mut work = lock(work);
        work.size.record(ran, started.elapsed());
        work.returned.extend(&indices[indices.len() - batch.left..]);
        work.left += batch.left as u64;
    }
    match stops {
        Some((cell, reason)) => Some(Err(Error::Cell { cell, reason })),
        None => Some(Ok(())),
    }
}
