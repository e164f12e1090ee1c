//! How a scheduler agrees with a recording of the kernel's, call by call and free running.
//!
//! [`Recording::open`] reads what a kernel's scheduler received and answered; [`call_by_call()`] and [`free_running()`]
//! replay it through a scheduler of ours; [`compare`] compares two orders of dispatch.
#![forbid(unsafe_code)]

mod call_by_call;
mod free_running;
mod order;
pub mod recording;
mod state;

pub use call_by_call::{CallByCall, Difference, call_by_call};
pub use free_running::{free_running, kernel_order};
pub use order::{Comparison, Order, compare};
pub use recording::Recording;
