//! When a model no longer fits its device: samples to train on, detectors of drift, and which of two models serves.
//!
//! Nothing here is on the path of a request: a completion costs a push, and a thread in the background asks [`Detector::check`]
//! and [`Succession`] now and then. It reads no clock; times are handed in.

mod detector;
mod reservoir;
mod succession;

pub use detector::{Alarm, Detector};
pub use reservoir::{Reservoir, stratum_of};
pub use succession::{Judgement, Reason, Succession, Verdict};
