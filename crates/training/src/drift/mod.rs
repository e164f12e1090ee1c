//! A latency model that serves on one device: watched for drift, trained again, replaced by a better one, taken back.
//!
//! ```text
//! issue, completion ─► Tracker ─► Outcome ─► ModelWatch ─► Notice::Train ─► Lesson::train (another thread)
//!                                               ▲                               │
//!                                               └────────── conclude ◄──────────┘
//! ```
//!
//! A completion costs one inference and a copy of the inputs; nothing here is called from the path of a request. It reads no
//! clock: times are handed in.

mod lesson;
mod recorded;
mod sample;
mod tracker;
mod watch;

pub use lesson::{Challenger, Lesson};
pub use recorded::{DriftEvent, DriftReport, DriftStep, watch_recorded};
pub use tracker::{Outcome, Tracker};
pub use watch::{ModelWatch, Notice};
