//! `io.max`: Linux's limits of a group, in bytes and I/Os per second (cgroup v2, 6.12 and 6.18).
//!
//! [`Slices`] is the account of one direction, [`Groups`] what waits behind it. Groups side by side are followed; the limits of
//! a group do not count for those nested in it yet. It is the arithmetic alone: no controller of a block layer uses it yet.

mod group;
mod slices;
mod text;

pub use group::{Bio, Groups};
pub use slices::{Rates, Release, Slices};
pub use text::with_limits;

#[cfg(test)]
mod tests;
