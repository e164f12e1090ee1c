//! Conservation: every I/O submitted is completed exactly once, whatever happens in between.

/// Counts of what passed each point of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// I/Os submitted.
    pub submitted: u64,
    /// I/Os completed, failed ones included.
    pub completed: u64,
    /// I/Os that failed.
    pub failed: u64,
    /// I/Os that were refused because of their deadlines: completed, and not failed.
    pub rejected: u64,
    /// I/Os that joined a request at its end.
    pub merged_back: u64,
    /// I/Os that joined a request at its start.
    pub merged_front: u64,
    /// Discards that became one more range of another.
    pub merged_ranges: u64,
    /// Requests that became part of another request.
    pub joined: u64,
    /// Pieces made by splitting.
    pub pieces: u64,
    /// Requests inserted into the scheduler, requeues not counted.
    pub inserted: u64,
    /// Requests the scheduler dispatched.
    pub dispatched: u64,
    /// Requests the device took.
    pub issued: u64,
    /// Requests the device refused or gave back.
    pub returned: u64,
    /// Requests the device finished.
    pub finished: u64,
    /// Flush requests made by the flush machine.
    pub flushes: u64,
    /// Sectors submitted.
    pub sectors_submitted: u64,
    /// Sectors completed.
    pub sectors_completed: u64,
}

impl Ledger {
    /// Adds the counts of another path.
    pub fn join(&mut self, other: &Ledger) {
        let Ledger {
            submitted,
            completed,
            failed,
            rejected,
            merged_back,
            merged_front,
            merged_ranges,
            joined,
            pieces,
            inserted,
            dispatched,
            issued,
            returned,
            finished,
            flushes,
            sectors_submitted,
            sectors_completed,
        } = other;
        self.submitted += submitted;
        self.completed += completed;
        self.failed += failed;
        self.rejected += rejected;
        self.merged_back += merged_back;
        self.merged_front += merged_front;
        self.merged_ranges += merged_ranges;
        self.joined += joined;
        self.pieces += pieces;
        self.inserted += inserted;
        self.dispatched += dispatched;
        self.issued += issued;
        self.returned += returned;
        self.finished += finished;
        self.flushes += flushes;
        self.sectors_submitted += sectors_submitted;
        self.sectors_completed += sectors_completed;
    }

    /// The first inconsistency of the counts once everything has drained; `None` if there is none.
    pub fn imbalance(&self) -> Option<String> {
        let l = self;
        if l.submitted != l.completed {
            Some(format!("{} I/Os submitted, {} completed", l.submitted, l.completed))
        } else if l.sectors_submitted != l.sectors_completed {
            Some(format!("{} sectors submitted, {} completed", l.sectors_submitted, l.sectors_completed))
        } else if l.issued != l.finished + l.returned {
            Some(format!("{} requests issued, {} finished and {} returned", l.issued, l.finished, l.returned))
        } else {
            None
        }
    }
}
