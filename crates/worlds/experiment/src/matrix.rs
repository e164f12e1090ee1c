//! The loop over the cells of an experiment.

use std::collections::BTreeSet;

use dumbwaiter_block::Nanos;
use rayon::prelude::*;

use crate::{Cell, CellResult, Concurrency, Control, Failure, FailureKind, Stack, Step, World};

/// The cells of an experiment with the results that are there. Running it again makes only those that are missing.
pub struct Matrix {
    cells: Vec<Cell>,
    results: Vec<Option<CellResult>>,
    /// Cells in the order in which they were finished.
    order: Vec<usize>,
}

/// How a call of [`Matrix::run`] ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// Every cell has a result.
    All,
    /// [`Control::cancel`] ended it.
    Cancelled,
    /// A cell failed. Of cells that share a device, no other was begun after it.
    Failed(Failure),
}

impl Matrix {
    /// A matrix without results.
    pub fn new(cells: Vec<Cell>) -> Matrix {
        Matrix { results: vec![None; cells.len()], cells, order: Vec::new() }
    }

    /// Adds cells without results.
    pub fn add(&mut self, cells: Vec<Cell>) {
        self.results.resize(self.results.len() + cells.len(), None);
        self.cells.extend(cells);
    }

    /// The finished results so far, in the order of the cells.
    pub fn results(&self) -> impl Iterator<Item = &CellResult> {
        self.results.iter().flatten()
    }

    /// The cells, finished or not.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Stores a result that was made before, such as by an earlier session.
    pub fn restore(&mut self, cell: usize, result: CellResult) {
        if self.results[cell].replace(result).is_none() {
            self.order.push(cell);
        }
    }

    /// The result of a cell.
    pub fn result(&self, cell: usize) -> Option<&CellResult> {
        self.results[cell].as_ref()
    }

    /// The finished results: in the order of the cells where runs are independent, in the order of the runs where they
    /// share a device.
    pub fn into_results(self, concurrency: Concurrency) -> Vec<CellResult> {
        let mut results = self.results;
        match concurrency {
            Concurrency::Independent(_) => results.into_iter().flatten().collect(),
            Concurrency::Rotation => self.order.into_iter().filter_map(|cell| results[cell].take()).collect(),
        }
    }

    /// Runs every cell that has no result.
    pub fn run(&mut self, world: &dyn World, control: &Control) -> Finished {
        let missing: Vec<usize> = (0..self.cells.len()).filter(|i| self.results[*i].is_none()).collect();
        control.step(&Step::Planned { cells: missing.len() as u64, each: self.longest() });
        match world.concurrency() {
            Concurrency::Independent(jobs) => self.run_independent(&missing, jobs, world, control),
            Concurrency::Rotation => self.run_in_rotation(&missing, world, control),
        }
    }

    /// The longest run, where all lengths are known.
    fn longest(&self) -> Option<Nanos> {
        let lengths = self.cells.iter().map(|cell| cell.prepared().and_then(|load| load.expected()));
        lengths.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max())
    }

    fn run_independent(&mut self, missing: &[usize], jobs: usize, world: &dyn World, control: &Control) -> Finished {
        let pool = match rayon::ThreadPoolBuilder::new().num_threads(jobs).build() {
            Ok(pool) => pool,
            Err(error) => return Finished::Failed(Failure::refused(format!("cannot start worker threads: {error}"))),
        };
        let cells = &self.cells;
        let one = |i: &usize| {
            let made = !control.cancelled();
            made.then(|| run_one(&cells[*i], world, control))
        };
        let made: Vec<Option<Result<CellResult, Failure>>> =
            pool.install(|| missing.par_iter().with_max_len(1).map(one).collect());
        let mut finished = Finished::All;
        for (i, result) in missing.iter().zip(made) {
            finished = match (finished, self.take(*i, result)) {
                (Finished::All, ended) => ended,
                (ended, _) => ended,
            };
        }
        finished
    }

    fn run_in_rotation(&mut self, missing: &[usize], world: &dyn World, control: &Control) -> Finished {
        for i in self.rotated(missing) {
            if control.cancelled() {
                return Finished::Cancelled;
            }
            let result = run_one(&self.cells[i], world, control);
            match self.take(i, Some(result)) {
                Finished::All => {}
                ended => return ended,
            }
        }
        Finished::All
    }

    /// Stack after stack in the order of the cells; of each, replicate after replicate, each begun one cell further on.
    fn rotated(&self, missing: &[usize]) -> Vec<usize> {
        let mut stacks: Vec<Stack> = Vec::new();
        for cell in missing.iter().map(|i| &self.cells[*i]) {
            if !stacks.contains(&cell.stack) {
                stacks.push(cell.stack);
            }
        }
        let replicates: BTreeSet<u32> = missing.iter().map(|i| self.cells[*i].replicate).collect();
        let mut order = Vec::with_capacity(missing.len());
        for stack in stacks {
            for replicate in &replicates {
                let here = |i: &usize| (self.cells[*i].stack, self.cells[*i].replicate) == (stack, *replicate);
                let mut round: Vec<usize> = missing.iter().copied().filter(here).collect();
                let first = *replicate as usize % round.len().max(1);
                round.rotate_left(first);
                order.extend(round);
            }
        }
        order
    }

    /// Stores a result, and says whether the matrix goes on.
    fn take(&mut self, cell: usize, result: Option<Result<CellResult, Failure>>) -> Finished {
        let what = |failure: Failure| {
            let named = failure.kind == FailureKind::Device;
            Finished::Failed(if named { failure.of(&self.cells[cell]) } else { failure })
        };
        match result {
            None => Finished::Cancelled,
            Some(Err(failure)) if failure.kind == FailureKind::Interrupted => Finished::Cancelled,
            Some(Err(failure)) => what(failure),
            // Lost data is lost, whether or not the run came to its end.
            Some(Ok(result)) if result.cancelled => result.failure.map_or(Finished::Cancelled, what),
            Some(Ok(result)) => {
                let ended = result.failure.clone().map_or(Finished::All, what);
                self.restore(cell, result);
                ended
            }
        }
    }
}

/// Runs one cell, with its variant in the result and its steps reported.
pub(crate) fn run_one(cell: &Cell, world: &dyn World, control: &Control) -> Result<CellResult, Failure> {
    control.step(&Step::Began(cell));
    let mut result = world.run(cell, control)?;
    if !cell.variant.is_empty() {
        result.run.variant.clone_from(&cell.variant);
    }
    control.step(&Step::Finished(cell, &result));
    Ok(result)
}
