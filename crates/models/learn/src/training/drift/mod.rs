//! The latency model of one device: drift detection, retraining, replacement and reversal.
//!
//! ```text
//! issue, completion ─► Tracker ─► Outcome ─► ModelWatch ─► Notice::Train ─► Lesson::train (another thread)
//!                                               ▲                               │
//!                                               └────────── conclude ◄──────────┘
//! ```
//!
//! A completion costs one inference and a copy of the inputs, off the request path. No clock is read: times are
//! arguments.

mod lesson;
mod recorded;
mod sample;
mod tracker;
mod watch;

pub use lesson::{Challenger, Lesson};
pub use recorded::{DriftEvent, DriftReport, DriftStep, watch_recorded};
pub use tracker::{Outcome, Tracker};
pub use watch::{ModelWatch, Notice};
