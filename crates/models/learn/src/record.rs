//! One finished request, the unit of everything that is learned.

use dumbwaiter_block::{IoTag, Nanos, Op};

/// A finished request. All times are of one monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// The request was created (Linux: `block_io_start`).
    pub arrive: Nanos,
    /// It was sent to the device (Linux: `block_rq_issue`).
    pub issue: Nanos,
    /// The device finished it (Linux: `block_rq_complete`).
    pub complete: Nanos,
    /// Operation.
    pub op: Op,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// The kind of data in the file system.
    pub tag: IoTag,
    /// Requests in the device when it was issued, without itself.
    pub depth: u32,
}

impl RequestRecord {
    /// Longest plausible service latency; records above it are dropped.
    pub const LONGEST_LATENCY: Nanos = Nanos::from_secs(60);

    /// Time in the device.
    pub fn latency(&self) -> Nanos {
        Nanos(self.complete.0.saturating_sub(self.issue.0))
    }

    /// Time from creation to completion.
    pub fn total(&self) -> Nanos {
        Nanos(self.complete.0.saturating_sub(self.arrive.0))
    }

    /// First sector after it.
    pub fn end(&self) -> u64 {
        self.sector.saturating_add(u64::from(self.bytes).div_ceil(512))
    }

    /// Whether models may learn from it: only from reads and writes with a plausible latency.
    pub fn is_learnable(&self) -> bool {
        let latency = self.latency();
        matches!(self.op, Op::Read | Op::Write) && latency > Nanos::ZERO && latency <= RequestRecord::LONGEST_LATENCY
    }
}
