//! A scenario's tenants and tasks as threads of I/O, for the simulator and for real devices alike.
//!
//! [`Prepared`] surveys the traces of a scenario once; [`Prepared::load`] builds the threads of one run; [`RunningLoad`] says what
//! they submit, and when.
#![forbid(unsafe_code)]

mod application;
mod build;
mod change;
mod error;
mod limit;
mod prepared;
mod replays;
mod running;
mod slots;
mod thread;
mod trace;
mod wake_queue;

pub use application::applications;
pub use build::Load;
pub use change::Change;
pub use error::Error;
pub use limit::RunLimit;
pub use prepared::{LeftOut, Prepared};
pub use replays::Replays;
pub use running::{RunningLoad, Step};
pub use slots::Slots;
pub use thread::{Mode, Thread, ring_workers};
pub use wake_queue::WakeQueue;
