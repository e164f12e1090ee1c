//! A scenario's tenants and tasks as threads of I/O, for the simulator and for real devices alike.
//!
//! [`Prepared`] surveys the traces of a scenario once; [`Prepared::load`] builds the threads of one run.
#![forbid(unsafe_code)]

mod application;
mod build;
mod change;
mod error;
mod prepared;
mod replays;
mod running;
mod thread;
mod trace;

pub use application::application;
pub use build::{Load, set_controllers};
pub use change::Change;
pub use error::Error;
pub use prepared::{LeftOut, Prepared};
pub use replays::Replays;
pub use running::{Running, lowest_stage};
pub use thread::{Mode, Thread, ring_workers};
