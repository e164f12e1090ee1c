//! `io.max`: Linux's limits of a group, in bytes and I/Os per second (cgroup v2, 6.12 and 6.18).
//!
//! [`Slices`] is the account of one direction of one group, [`Groups`] are groups in one another with what waits for them.

mod agenda;
mod groups;
mod level;
mod slices;
mod text;

pub use groups::{DEVICE, Groups};
pub use level::Bio;
pub use slices::{Rates, Release, Slices};
pub use text::with_limits;

#[cfg(test)]
mod tests;
