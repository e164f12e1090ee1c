//! What results say: rankings with significance, and a recommendation in one sentence.
//!
//! Results go in, decisions come out. Nothing here runs a load, reads a clock or opens a file.
#![forbid(unsafe_code)]

mod criterion;
mod document;
mod ranking;
mod recommend;

pub use criterion::{Focus, Goal, Metric};
pub use document::{Document, ParseError, SCHEMA};
pub use ranking::{Cell, Ranking, Row, Several, rank};
pub use recommend::Recommendation;
