//! When the measured part of a run was, in time of day.

use std::time::{SystemTime, UNIX_EPOCH};

use dumbwaiter_measure::RunResult;

/// The time of day, ns since 1970.
pub(crate) fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64)
}

/// Stores when the measured time of a run began and ended.
pub(crate) fn stamp(run: &mut RunResult, started_unix_ns: u64) {
    run.started_unix_ns = Some(started_unix_ns);
    run.ended_unix_ns = Some(started_unix_ns + (run.duration_s * 1e9) as u64);
}
