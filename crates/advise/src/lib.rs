//! Rankings of schedulers with tests of significance, and a recommendation in one sentence.
//!
//! [`rank`] turns the results of runs into decisions. Nothing here runs a load, reads a clock or opens a file.
#![forbid(unsafe_code)]

mod advice;
pub mod completion;
mod criterion;
mod document;
mod figures;
pub mod race;
mod ranking;
mod recommend;
mod row;

pub use advice::{Advice, Survey, advice};
pub use criterion::{Focus, Goal, Metric};
pub use document::{Document, ParseError, SCHEMA};
pub use figures::independent;
pub use ranking::{Ranking, rank};
pub use recommend::Recommendation;
pub use row::{Axes, Estimate, Row};
