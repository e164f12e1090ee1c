//! Latency histograms, time series, fairness, energy models and significance tests.
//!
//! A [`Recorder`] takes every completed I/O, every change of the queue depths and what is unfinished at the end, and turns into a
//! [`RunResult`]: the figures of one run, with exactly the keys of its JSON form. Nothing here reads a clock or a file,
//! and equal input gives equal output bit for bit.
#![deny(unsafe_code)]

mod application;
mod energy;
mod fairness;
mod histogram;
mod ledger;
mod maps;
mod nan;
mod parts;
mod recorder;
mod result;
mod series;
mod stats;
mod survival;
mod tally;
mod tenants;
mod text;

use dumbwaiter_block::{Nanos, Op, TaskId, TenantId};

pub use application::{ApplicationStats, PlayerStats, StartUpStats};
pub use energy::{DevicePower, DeviceTimes, HostPower, HostTimes, R230};
pub use fairness::{ideal_shares, jain, pv};
pub use histogram::Histogram;
pub use ledger::{Ledger, Merges};
pub use parts::{Parts, TimeParts};
pub use recorder::{CpuFacts, Recorder, RecorderConfig, RunFacts};
pub use result::{
    Bandwidth, Cdf, Cdfs, Cpu, DepthShare, DepthShares, Depths, Energy, Fairness, Latency, Maps, Nested, NestedRow,
    OpStats, Percentile, Phases, RunResult, SchedulerSwitches, Series, TaskStats, TenantSeries, TenantStats, TimeMap,
};
pub use stats::{
    Comparison, Difference, SIGNIFICANCE, Sample, TestKind, compare, holm, median, paired, student_quantile, student_t,
    welch,
};
pub use tenants::{TaskSpec, TenantSpec};
pub use text::{count_text, grouped, latency_text, rate_text};

/// A completed I/O with the times of its way through the block layer.
#[derive(Clone, Copy, Debug)]
pub struct Completed {
    /// The operation.
    pub op: Op,
    /// The task that submitted it.
    pub task: TaskId,
    /// The tenant that is charged.
    pub tenant: TenantId,
    /// First sector, in units of 512 bytes.
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// The task submitted it.
    pub submit: Nanos,
    /// The scheduler received it.
    pub insert: Nanos,
    /// The block layer sent it to the device.
    pub issue: Nanos,
    /// The device completed it.
    pub device_done: Nanos,
    /// The task was notified of the completion.
    pub complete: Nanos,
}

/// An I/O that is not finished when the run ends.
#[derive(Clone, Copy, Debug)]
pub struct Unfinished {
    /// The operation.
    pub op: Op,
    /// The task that submitted it.
    pub task: TaskId,
    /// The tenant that is charged.
    pub tenant: TenantId,
    /// The task submitted it.
    pub submit: Nanos,
    /// The run ended.
    pub end: Nanos,
}

impl Unfinished {
    /// How long it has waited.
    pub fn wait(&self) -> Nanos {
        self.end.since(self.submit)
    }
}
