//! Rankings of schedulers with tests of significance, and a recommendation in one sentence.
//!
//! [`rank`] turns the results of runs into decisions. Nothing here runs a load, reads a clock or opens a file.
#![forbid(unsafe_code)]

mod advice;
mod answer;
mod apply;
mod bounds;
mod class_verdict;
pub mod completion;
mod conditions;
mod confidence;
mod controls;
mod diff;
mod document;
mod figures;
mod focus;
mod forms;
mod goal;
mod isolation;
mod measured_error;
mod metric;
mod provenance;
pub mod race;
mod ranking;
mod recommend;
mod row;
mod sentence;
mod suite;
mod suite_verdict;
mod tenant_units;
#[cfg(test)]
mod test_runs;
pub mod tune;
mod usage;
mod verdict;

pub use advice::{Advice, Survey, advice};
pub use answer::{Decision, FrontierMember, Losing, Rates};
pub use apply::{Attribute, Commands, TargetDrive, commands, commands_with};
pub use bounds::Worse;
pub use conditions::{Conditions, KERNEL_SCHEDULERS, Offered};
pub use confidence::Confidence;
pub use diff::{Change, DIFF_SCHEMA, Diff, Difference, diff};
pub use document::{Document, ParseError, SCHEMA, Sequential};
pub use figures::independent;
pub use focus::Focus;
pub use forms::Form;
pub use goal::Goal;
pub use isolation::{FrontPoint, Isolation, isolation};
pub use measured_error::{DriveClass, ERROR_COLUMNS, LoadKind, RelativeError, measured_error};
pub use metric::{Extent, Metric, Scale, USEFUL, Unit};
pub use provenance::{Drive, DriveKind, Machine, Provenance};
pub use ranking::{Ranking, rank, rank_under};
pub use recommend::Recommendation;
pub use row::{Axes, Estimate, RankingRow, Worth};
pub use suite::{Suite, SuiteCase, SuiteLine, SuiteTotal};
pub use suite_verdict::{SuiteAgainst, SuiteVerdict};
pub use usage::Usage;
pub use verdict::Verdict;
