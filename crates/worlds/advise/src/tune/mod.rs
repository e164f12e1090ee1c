//! The search for better settings: successive halving, as a state machine without a clock, a file or a thread.
//!
//! [`Search`] draws [`Candidate`]s and names [`Trial`]s; the caller runs them, here or on a cluster, and hands the results back. Short runs
//! with few seeds come first, and only the best candidates get longer runs with more seeds. The best of all then runs beside the
//! defaults with seeds that the search has not seen, and only those runs make its [`Claim`]; then on another drive of the class.

mod candidate;
mod claim;
mod elsewhere;
mod plan;
mod search;
mod tuned;
mod words;

pub use candidate::{Candidate, Range, Setting, Space};
pub use claim::{Claim, HeldOut};
pub use elsewhere::{AnotherDrive, Elsewhere};
pub use plan::{LoadKind, RunTime, Rung, TunePlan};
pub use search::{Choice, HELD_OUT_FROM, Outcome, Search, Trial};
pub use tuned::{Applied, TUNE_SCHEMA, Tried, TunedDevice, TunedGain, Tuning, tuned};

#[cfg(test)]
mod tests;
