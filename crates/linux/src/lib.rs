//! Linux as a subject: what a path is, its queue's settings, weights of cgroups, recordings of the block layer, and how
//! our schedulers agree with the kernel's.
//!
//! Whatever is changed here is put back: when its guard is dropped, on a signal (see [`undo::on_signals`]), and, after a
//! crash, by the next process that calls [`undo::leftovers`].
#![deny(unsafe_code)]

pub mod cgroup;
pub mod diskstats;
mod error;
pub mod file;
pub mod ioprio;
mod lock;
pub mod loops;
pub mod place;
pub mod queue;
mod roots;
pub mod target;
pub mod udev;
pub mod undo;

pub use error::Error;
pub use roots::Roots;
