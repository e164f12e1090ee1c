//! A world that makes each run once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use dumbwaiter_measure::RunResult;

use crate::{About, Cell, CellResult, Concurrency, Control, Failure, Refusal, Work, World};

/// A world that answers a cell that it ran before with the result of then: for figures that show the same runs.
pub struct Cached<'a> {
    world: &'a dyn World,
    results: Mutex<BTreeMap<String, CellResult>>,
}

impl Cached<'_> {
    /// A cache of the runs of `world`. Cancelled and failed runs are not kept.
    pub fn new(world: &dyn World) -> Cached<'_> {
        Cached { world, results: Mutex::default() }
    }
}

fn key(cell: &Cell) -> String {
    let work = match &cell.work {
        Work::Scenario(load) => load.scenario().to_toml(),
        Work::DbBench(bench) => format!("{bench:?}"),
    };
    let Cell { device, stack, scheduler, completion, replicate, variant, .. } = cell;
    format!("{device}\n{}\n{scheduler}\n{completion}\n{replicate}\n{variant}\n{work}", stack.name())
}

#[deny(clippy::missing_trait_methods)]
impl World for Cached<'_> {
    fn about(&self) -> About {
        self.world.about()
    }

    fn concurrency(&self) -> Concurrency {
        self.world.concurrency()
    }

    fn capacity_sectors(&self, device: &str) -> Option<u64> {
        self.world.capacity_sectors(device)
    }

    fn supports(&self, cell: &Cell) -> Result<(), Refusal> {
        self.world.supports(cell)
    }

    fn run(&self, cell: &Cell, control: &Control) -> Result<CellResult, Failure> {
        let key = key(cell);
        let known = |results: &Mutex<BTreeMap<String, CellResult>>| {
            results.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
        };
        if let Some(result) = known(&self.results) {
            return Ok(result);
        }
        let result = self.world.run(cell, control)?;
        if !result.cancelled && result.failure.is_none() {
            self.results.lock().unwrap_or_else(PoisonError::into_inner).insert(key, result.clone());
        }
        Ok(result)
    }

    fn conclude(&self, runs: &mut [RunResult], control: &Control) -> Result<Vec<String>, Failure> {
        self.world.conclude(runs, control)
    }
}
