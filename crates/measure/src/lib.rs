//! Latency histograms, time series, fairness and significance.
//!
//! A [`Recorder`] is told of every finished I/O and every change of the queue depths, and ends as a
//! [`RunResult`]: one run, in numbers, with exactly the keys of the JSON that users see. Several
//! results become a [`Ranking`] per device, with tests of significance and a recommendation.
//! Nothing here reads a clock, and equal input gives equal output bit for bit; but for [`meters`],
//! which read the clocks and counters of the machine.
#![deny(unsafe_code)]

mod application;
mod energy;
mod fairness;
mod histogram;
mod recorder;
mod result;
mod series;
mod stats;
mod tally;
mod text;

use dumbwaiter_block::{Nanos, Op, TaskId, TenantId};

pub use application::{ApplicationStats, PlayerStats, StartUpStats};
pub use energy::{DevicePower, DeviceTimes, HostPower, HostTimes, R230};
pub use fairness::{ideal_shares, jain, pv};
pub use recorder::{CpuFacts, Recorder, RecorderConfig, RunFacts, TaskSpec, TenantSpec};
pub use result::{
    Bandwidth, Cdf, Cdfs, Cpu, DepthShare, DepthShares, Depths, Energy, Fairness, Latency, Ledger, Merges, Nested,
    NestedRow, OpStats, Phases, RunResult, Series, TaskStats, TenantSeries, TenantStats,
};
pub use stats::{Comparison, SIGNIFICANCE, Sample, TestKind, Verdict, compare, median, paired, student_t, welch};
pub use text::{count_text, grouped, latency_text, rate_text};

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
