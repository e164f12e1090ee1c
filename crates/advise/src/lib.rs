//! Rankings of schedulers with tests of significance, and a recommendation in one sentence.
//!
//! [`rank`] turns the results of runs into decisions. Nothing here runs a load, reads a clock or opens a file.
#![forbid(unsafe_code)]

mod criterion;
mod document;
mod ranking;
mod recommend;
mod row;

pub use criterion::{Focus, Goal, Metric};
pub use document::{Document, ParseError, SCHEMA};
pub use ranking::{Ranking, rank};
pub use recommend::Recommendation;
pub use row::{Axes, Estimate, Row};
