//! Where cells run.

use std::fmt;

use dumbwaiter_measure::RunResult;

use crate::{Cell, CellResult, Control, Stack};

/// Somewhere a [`Cell`] can run: a simulator, a device, a served disk.
pub trait World: Sync {
    /// What it is and what it offers.
    fn about(&self) -> About;

    /// May its runs be made at the same time?
    fn concurrency(&self) -> Concurrency;

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

/// What a world is and offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
}

/// May runs be made at the same time?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// So many at a time; results do not depend on it.
    Independent(usize),
    /// One after the other, since they share a device. Each replicate starts at another cell, so that a drift of the
    /// device favours no place in the order.
    Rotation,
}

/// Why a world does not run a cell, and what would allow it, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// What kind of failure ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The experiment asks for something that cannot be (exit code 2).
    Refused,
    /// A device or an I/O failed, or data was lost (exit code 3).
    Device,
    /// [`Control::cancel`] was set before there was anything to report (exit code 130).
    Interrupted,
}

/// Why a run, or the whole experiment, ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// The reason in one line.
    pub reason: String,
}

impl Failure {
    /// The experiment asks for something that cannot be.
    pub fn refused(reason: impl fmt::Display) -> Failure {
        Failure { kind: FailureKind::Refused, reason: reason.to_string() }
    }

    /// A device or an I/O failed.
    pub fn device(reason: impl fmt::Display) -> Failure {
        Failure { kind: FailureKind::Device, reason: reason.to_string() }
    }

    /// Ended from outside before there was anything to report.
    pub fn interrupted(reason: impl fmt::Display) -> Failure {
        Failure { kind: FailureKind::Interrupted, reason: reason.to_string() }
    }

    /// The same failure with `what` before its reason.
    #[must_use]
    pub fn of(self, what: impl fmt::Display) -> Failure {
        Failure { reason: format!("{what}: {}", self.reason), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Failure {}

impl From<dumbwaiter_load::Error> for Failure {
    fn from(error: dumbwaiter_load::Error) -> Failure {
        Failure::refused(error)
    }
}
