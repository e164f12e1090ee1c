//! How a scheduler agrees with a recording of the kernel's, call by call and free running.
//!
//! [`Recording::read`] reads what a kernel's scheduler received and answered; [`call_by_call`] and [`free_running`] replay
//! it through a scheduler of ours.
#![forbid(unsafe_code)]

pub mod recording;
mod replay;

pub use recording::Recording;
pub use replay::*;
