//! A load on a [`Disk`](dumbwaiter_path::Disk): the same block layer and schedulers as in the simulator, in real time, on a
//! file or block device.
//!
//! [`Target::open`] opens a target and finds out what it is; [`run()`] runs one scheduler on it under the load of a scenario and
//! answers with the same [`dumbwaiter_measure::RunResult`] as a simulation. Nothing writes unless [`Options::allow_writes`]
//! says so.
//!
//! One thread has the load and the disk. Under a scheduler that needs no common view of the device ([`Rings`]) a run has
//! several of both, each on a CPU of its own.

pub mod bare;
mod cpus;
mod error;
mod experiment;
mod journal_path;
pub mod options;
mod partition;
pub mod record;
mod run;
mod target;
mod usage;
pub mod verify;
pub mod worker;

pub use dumbwaiter_path::{Batching, CompletionMode, CompletionSupport, Facts, Kind, Sleep};
pub use error::Error;
pub use experiment::{DriveRun, run, writes};
pub use options::{Options, Rings, Verify};
pub use target::Target;
pub use usage::Usage;
pub use verify::{JournalHeader, Verified};
