//! The subject of a survey.

use std::sync::atomic::AtomicBool;

use dumbwaiter_block::Nanos;
use serde::Serialize;

use crate::fit::{Error, Load, Point};

/// Properties of a subject that need no measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// Its path, or the name of the model.
    pub name: String,
    /// Its model name; empty if it reports none.
    pub model: String,
    /// Size in 512-byte sectors.
    pub capacity_sectors: u64,
    /// Largest I/O, in sectors.
    pub max_sectors: u32,
    /// Queue depth over all hardware queues, if the driver reports it.
    pub depth: Option<u32>,
    /// Hardware queues, if the driver reports them.
    pub queues: Option<u32>,
    /// Whether its driver reports it as rotational; virtual drives often do so wrongly.
    pub rotational: Option<bool>,
    /// Remarks on conditions that make figures doubtful.
    pub notes: Vec<String>,
}

/// How long a load runs: until the first limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Real or virtual time.
    pub time: Nanos,
    /// I/Os.
    pub ios: u64,
}

/// A drive, or a model of one, on which loads can be measured.
pub trait Subject {
    /// Properties that need no measurement.
    fn facts(&self) -> Facts;

    /// Runs a load.
    ///
    /// # Errors
    /// The device failed, or `stop` became true.
    fn measure(&mut self, load: &Load, limits: Limits, stop: &AtomicBool) -> Result<Point, Error>;

    /// Share of the time so far that the measuring program waited for a CPU, 0 to 1.
    fn cpu_wait(&self) -> f64 {
        0.0
    }
}
