//! Test support: a harness that drives a scheduler step by step in virtual time.
//!
//! [`Harness`] is a block layer with a device that can be stalled. [`notation`] writes I/Os in few characters, and
//! [`scenario`] runs text files of arrivals and expected dispatch orders, so that a new case needs no Rust.
//! [`storm`] is what every scheduler must survive.
//! [`allocations`] counts allocations, [`LoopDevice`] is a real block device, [`Browser`] opens pages, and [`StopOnDrop`] ends threads of a test that fails.
#![deny(unsafe_code)]

pub mod allocations;
mod browser;
mod fifo;
mod harness;
mod loop_device;
pub mod notation;
pub mod program;
pub mod scenario;
mod stop_on_drop;
pub mod storm;

pub use browser::{Browser, Page};
pub use fifo::Fifo;
pub use harness::{Done, Harness, Issue, IssuedPart};
pub use loop_device::LoopDevice;
pub use stop_on_drop::StopOnDrop;
