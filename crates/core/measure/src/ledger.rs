//! Counts of a run's requests from end to end: none is lost, and what became of those that were merged.

use serde::{Deserialize, Serialize};

/// Merge counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merges {
    /// Back merges.
    pub back: u64,
    /// Front merges.
    pub front: u64,
    /// Discards merged into a discard.
    pub discard: u64,
    /// Two queued requests merged because an I/O filled the gap between them.
    pub requests: u64,
}

impl From<&dumbwaiter_block::Ledger> for Merges {
    fn from(ledger: &dumbwaiter_block::Ledger) -> Merges {
        Merges {
            back: ledger.merged_back,
            front: ledger.merged_front,
            discard: ledger.merged_ranges,
            requests: ledger.joined,
        }
    }
}

/// Conservation of requests: `submitted` = `completed` + `outstanding`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// I/Os submitted to the block layer.
    pub submitted: u64,
    /// I/Os completed, failed ones included.
    pub completed: u64,
    /// Of those, failed I/Os.
    pub failed: u64,
    /// Of the completed ones, those that were refused because of their deadlines.
    #[serde(default)]
    pub rejected: u64,
    /// I/Os not completed at the end of the run.
    pub outstanding: u64,
}
