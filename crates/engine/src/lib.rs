//! The engine: the same block layer and schedulers as in the simulator, in real time, on a file or block device through
//! io_uring.
//!
//! [`Target::open`] opens a target and finds out what it is; [`run()`] runs one scheduler on it under the load of a scenario and
//! answers with the same [`dumbwaiter_measure::RunResult`] as a simulation. Nothing writes unless
//! [`Options::allow_writes`] says so.
//!
//! One thread owns the block layer and the ring. Each turn of its loop makes one system call, which hands over everything
//! the scheduler chose and waits for completions. Under a scheduler that needs no common view of the device ([`Rings`]) a run
//! has several of both, each on a CPU of its own.

mod arena;
pub mod bare;
mod clock;
mod cpus;
mod deal;
mod error;
mod experiment;
mod hybrid;
pub mod options;
pub mod part;
pub mod record;
mod ring;
mod run;
mod target;
pub mod verify;

pub use error::Error;
pub use experiment::{Cell, run, writes};
pub use options::{Batching, Completion, Options, Rings, Sleep, Verify};
pub use target::{Facts, Kind, Target, Way};
pub use verify::Verified;
