//! Where cells run.

use dumbwaiter_advise::{Drive, Machine};
use dumbwaiter_measure::RunResult;

use crate::cell::{Cell, CellResult, Stack};
use crate::control::Control;
use crate::failure::{Failure, Refusal};

/// Somewhere a [`Cell`] can run: a simulator, a device, a served disk.
pub trait World: Sync {
    /// Its properties.
    fn about(&self) -> About;

    /// May its runs be made at the same time?
    fn concurrency(&self) -> Concurrency;

    /// Size of a device in sectors of 512 bytes, named as a cell names it; `None` where that is not known before a run.
    fn capacity_sectors(&self, device: &str) -> Option<u64> {
        let _ = device;
        None
    }

    /// Can it run this cell? Cheap, and changes nothing.
    fn supports(&self, cell: &Cell) -> Result<(), Refusal>;

    /// Runs a cell that it supports, to its end or until `control` cancels.
    fn run(&self, cell: &Cell, control: &Control) -> Result<CellResult, Failure>;

    /// Called once after the last run: puts back what was changed, and completes the figures (a power logger's joules).
    /// Takes long where a load pattern for a logger runs; `control` ends it. Returns remarks for people.
    fn conclude(&self, runs: &mut [RunResult], control: &Control) -> Result<Vec<String>, Failure> {
        let _ = (runs, control);
        Ok(Vec::new())
    }
}

/// Properties of a world.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// A name for people: `simulator`, or the path of a device.
    pub name: String,
    /// Real time on real hardware?
    pub real: bool,
    /// The block layers that it has, in the order in which they run.
    pub stacks: Vec<Stack>,
    /// Its only device; `None` where a cell names one.
    pub device: Option<String>,
    /// Why runs have no energy, in one line; `None` where they have it.
    pub no_energy: Option<String>,
    /// Remarks that hold for every run.
    pub notes: Vec<String>,
    /// The machine, with its load at this moment; `None` in a simulation.
    pub machine: Option<Machine>,
    /// The drive as it is set at this moment; `None` in a simulation.
    pub drive: Option<Drive>,
}

/// May runs be made at the same time?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// This many at a time; results do not depend on it.
    Independent(usize),
    /// One after the other, since they share a device. Each replicate starts at another cell, so that a drift of the
    /// device favours no place in the order.
    Rotation,
}
