//! What stands between a task and the scheduler, without clock or I/O: one controller a file, each a
//! [`dumbwaiter_block::Controller`].
//!
//! | controller | what it does |
//! |---|---|
//! | [`deadlines`] | refuses an I/O that would wait for longer than its task's deadline |
//! | [`adaptive`] | exchanges the scheduler by what [`switching`] decides |
#![forbid(unsafe_code)]

pub mod adaptive;
mod adaptive_settings;
pub mod deadlines;
pub mod switching;

pub use adaptive::Adaptive;
pub use deadlines::{Deadlines, set_deadline};
