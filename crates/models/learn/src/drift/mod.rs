//! Drift of a model: samples for training, detectors, and the choice between the model in use and a challenger.
//!
//! A completion costs one push; a background thread calls [`Detector::check`] and [`Succession`] from time to time. No clock is read:
//! times are arguments.

mod detector;
mod reservoir;
mod succession;

pub use detector::{Alarm, Detector};
pub use reservoir::{Reservoir, stratum_of};
pub use succession::{Judgement, Reason, Succession, Verdict};
