//! What is surveyed.

use std::sync::atomic::AtomicBool;

use dumbwaiter_block::Nanos;
use serde::Serialize;

use crate::{Error, Load, Point};

/// Properties of a subject that need no measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// Its path, or the name of the model.
    pub name: String,
    /// What it says it is; empty if it does not.
    pub model: String,
    /// Size in 512-byte sectors.
    pub capacity_sectors: u64,
    /// Largest I/O, in sectors.
    pub max_sectors: u32,
    /// Commands that its driver gives it at once in all queues, if the driver says so.
    pub depth: Option<u32>,
    /// Hardware queues, if the driver says so.
    pub queues: Option<u32>,
    /// Whether its driver says that it rotates; virtual drives often say so wrongly.
    pub rotational: Option<bool>,
    /// Notes for people: what makes figures doubtful.
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

    /// Part of the time so far for which the program that measures waited for a CPU, 0 to 1.
    fn cpu_wait(&self) -> f64 {
        0.0
    }
}
