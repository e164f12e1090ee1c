//! What results say: rankings with significance, and a recommendation in one sentence.
//!
//! Results go in, decisions come out. Nothing here runs a load, reads a clock or opens a file.
#![forbid(unsafe_code)]

mod advice;
pub mod completion;
mod criterion;
mod document;
pub mod race;
mod ranking;
mod recommend;

pub use advice::{Advice, Survey, advice};
pub use criterion::{Focus, Goal, Metric};
pub use document::{Document, ParseError, SCHEMA};
pub use ranking::{Cell, Ranking, Row, Several, rank};
pub use recommend::Recommendation;
