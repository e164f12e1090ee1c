//! Latency histograms, time series, fairness and significance.
#![forbid(unsafe_code)]

use dumbwaiter_block::{Nanos, Op, TaskId, TenantId};

/// One finished I/O, as it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Completed {
    /// What it did.
    pub op: Op,
    /// Who asked.
    pub task: TaskId,
    /// Who is charged.
    pub tenant: TenantId,
    /// Length.
    pub bytes: u64,
    /// When the submitter asked.
    pub submit: Nanos,
    /// When the scheduler received it.
    pub insert: Nanos,
    /// When it went to the device.
    pub issue: Nanos,
    /// When the device finished it.
    pub device_done: Nanos,
    /// When the submitter knew.
    pub complete: Nanos,
}
