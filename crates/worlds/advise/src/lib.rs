//! Rankings of schedulers with tests of significance, and a recommendation in one sentence.
//!
//! [`rank`] turns the results of runs into decisions. Nothing here runs a load, reads a clock or opens a file.
#![forbid(unsafe_code)]

mod advice;
mod apply;
mod bounds;
pub mod completion;
mod conditions;
mod confidence;
mod criterion;
mod decision;
mod diff;
mod document;
mod figures;
mod provenance;
pub mod race;
mod ranking;
mod recommend;
mod row;
mod sentence;
mod suite;
#[cfg(test)]
mod test_runs;
pub mod tune;
mod usage;
mod verdict;

pub use advice::{Advice, Survey, advice};
pub use apply::{Attribute, Commands, Place, commands, commands_with};
pub use bounds::Worse;
pub use conditions::{Conditions, KERNEL_SCHEDULERS, Offered};
pub use confidence::Confidence;
pub use criterion::{Focus, Goal, Metric, USEFUL};
pub use diff::{Change, DIFF_SCHEMA, Diff, Difference, diff};
pub use document::{Document, ParseError, SCHEMA, Sequential};
pub use figures::independent;
pub use provenance::{Drive, DriveKind, Machine, Provenance};
pub use ranking::{Ranking, rank, rank_under};
pub use recommend::Recommendation;
pub use row::{Axes, Estimate, Row};
pub use suite::{Suite, SuiteCase, SuiteLine, SuiteTotal};
pub use usage::Usage;
pub use verdict::Verdict;
