//! How long a run lasts.

use crate::Scenario;
use dumbwaiter_block::Nanos;

/// When the measured time of a run begins, and when it ends: at this time or after this many I/Os.
#[derive(Clone, Copy, Debug)]
pub struct RunLimit {
    /// End of the warm-up.
    pub warmup: Nanos,
    /// Time of the end.
    pub time: Nanos,
    /// Largest number of I/Os.
    pub ios: u64,
}

impl RunLimit {
    /// That of a scenario.
    pub fn of(s: &Scenario) -> RunLimit {
        RunLimit {
            warmup: s.warmup,
            time: s.duration.map_or(Nanos::MAX, |d| s.warmup + d),
            ios: s.limit.unwrap_or(u64::MAX),
        }
    }
}
