//! Interfaces to Linux: the block layer as a subject (the kind of a path, the settings of a disk's queue, weights of cgroups, I/O
//! priorities, loop devices and mounts), its [`recording`], [`meters`] of energy and CPU time, and the parts of a [`service`].
//!
//! Every change is put back: when its guard is dropped, on a signal (see [`undo::on_signals`]), and, after a
//! crash, by the next process that calls [`undo::leftovers`].
#![deny(unsafe_code)]

mod backing;
pub mod cgroup;
pub mod claim;
pub mod disk;
pub mod diskstats;
mod error;
pub mod file;
pub mod filesystem;
pub mod in_force;
pub mod io_cost;
pub mod ioprio;
mod lock;
pub mod loops;
pub mod machine;
pub mod meters;
pub mod null_blk;
mod owned;
pub mod process;
pub mod queue;
pub mod recording;
mod roots;
pub mod service;
pub mod setters;
pub mod settings;
pub mod target;
pub mod udev;
pub mod undo;

pub use error::Error;
pub use roots::Roots;
