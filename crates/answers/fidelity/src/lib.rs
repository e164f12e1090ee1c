//! How schedulers, and a simulator around them, agree with recordings of the kernel's.
//!
//! [`Recording::open`] reads what a kernel's scheduler received and answered; [`call_by_call()`] and [`free_running()`]
//! replay it through a scheduler of ours; [`score()`] does both and
//! [`summary()`] adds up. [`compare`] compares two orders of dispatch. [`closed_loops`] runs the jobs of
//! recordings in a world, without any of the kernel's decisions, and compares what they got; [`recorded_again`] compares two
//! recordings of the same jobs in the same way.
#![forbid(unsafe_code)]

mod call_by_call;
mod closed_loop;
pub mod controllers;
mod error;
mod free_running;
pub mod measured;
mod order;
pub mod recording;
mod row_order;
mod rows;
mod score;
mod scores;
mod settings;
mod state;

pub use call_by_call::{CallByCall, Difference, call_by_call};
pub use closed_loop::{
    Agreement, BOUNDS, Bounds, CONTROLLER_BOUNDS, ClosedLoopError, ClosedLoops, NotComparable, closed_loops,
    recorded_again,
};
pub use free_running::{free_running, kernel_order};
pub use measured::{MeasuredAnswers, MeasuredError, MeasuredOptions, measured};
pub use order::{Comparison, Order, compare};
pub use recording::Recording;
pub use score::{Figures, Score, ScoreError, Summary, score, summary};
pub use scores::{Scores, scores};
pub use settings::scheduler_of;
