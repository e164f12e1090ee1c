//! Test support: a small world that drives a scheduler step by step in virtual time.
//!
//! [`World`] is a block layer with a device that can be stalled. [`notation`] writes I/Os in few characters, and
//! [`scenario`] runs text files of arrivals and expected dispatch orders, so that a new case needs no Rust.
#![forbid(unsafe_code)]

mod fifo;
mod loop_device;
pub mod notation;
pub mod program;
pub mod scenario;
mod world;

pub use fifo::Fifo;
pub use loop_device::LoopDevice;
pub use world::{Done, Issue, IssuedPart, World};
