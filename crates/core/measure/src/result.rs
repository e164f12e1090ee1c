//! The figures of one run. The serde form of these types is the JSON that users read, documented in the
//! project's JSON reference: latencies in microseconds, MB = 10^6 bytes, `null` (NaN here) for undefined figures, for
//! example the p99 of reads in a run without reads.

use crate::application::ApplicationStats;
use crate::ledger::{Ledger, Merges};
use crate::nan::{nan, nans, not_known};
use crate::parts::TimeParts;
use crate::survival::is_known;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Latency figures in microseconds; NaN (`null`) if no request was counted.
///
/// They are of requests submitted in the measured time. A request that is unfinished at the end counts as one that takes
/// longer than it has waited (Kaplan-Meier estimate), whenever it was submitted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// Finished requests that the figures rest on.
    pub samples: u64,
    /// Unfinished ones.
    pub unfinished: u64,
    /// Part of the distribution that is known, 0 to 1: below 1 where a request has waited longer than every finished one
    /// took. A percentile beyond it is the longest wait, a lower bound.
    #[serde(deserialize_with = "nan")]
    pub known_to: f64,
    /// Arithmetic mean; exact without unfinished requests, a lower bound where `known_to` is below 1.
    #[serde(deserialize_with = "nan")]
    pub mean: f64,
    /// Median.
    #[serde(deserialize_with = "nan")]
    pub p50: f64,
    /// 95th percentile.
    #[serde(deserialize_with = "nan")]
    pub p95: f64,
    /// 99th percentile.
    #[serde(deserialize_with = "nan")]
    pub p99: f64,
    /// 99.9th percentile.
    #[serde(deserialize_with = "nan")]
    pub p99_9: f64,
    /// Longest latency, or longest wait if that is longer; exact.
    #[serde(deserialize_with = "nan")]
    pub max: f64,
    /// Sample standard deviation, of the same distribution as `mean`; 0 for a single request.
    #[serde(deserialize_with = "nan")]
    pub stddev: f64,
}

impl Default for Latency {
    fn default() -> Latency {
        let nan = f64::NAN;
        Latency {
            samples: 0,
            unfinished: 0,
            known_to: nan,
            mean: nan,
            p50: nan,
            p95: nan,
            p99: nan,
            p99_9: nan,
            max: nan,
            stddev: nan,
        }
    }
}

/// A percentile of a latency: its name, percent, and value.
pub type Percentile = (&'static str, f64, fn(&Latency) -> f64);

impl Latency {
    /// The percentiles that it has, rising.
    pub const PERCENTILES: [Percentile; 5] = [
        ("p50", 50.0, |l| l.p50),
        ("p95", 95.0, |l| l.p95),
        ("p99", 99.0, |l| l.p99),
        ("p99.9", 99.9, |l| l.p99_9),
        ("max", 100.0, |l| l.max),
    ];

    /// Whether the percentile `quantile` (0 to 1) is known, and not just a lower bound.
    pub fn is_known(&self, quantile: f64) -> bool {
        is_known(quantile, self.known_to)
    }
}

/// Requests of one kind of operation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OpStats {
    /// Requests that finished in the measured time.
    pub count: u64,
    /// Requests per second.
    pub iops: f64,
    /// Data moved, MB/s (10^6 bytes).
    pub mb_per_s: f64,
    /// Where the time goes; `null` without a request.
    #[serde(default)]
    pub time_parts_us: Option<TimeParts>,
    /// Submission to completion.
    #[serde(flatten)]
    pub latency_us: Latency,
}

/// Variation of a bandwidth between the complete intervals of a run. MB/s; NaN with fewer than two intervals.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Lowest bandwidth of an interval.
    #[serde(deserialize_with = "nan")]
    pub min: f64,
    /// Highest bandwidth of an interval.
    #[serde(deserialize_with = "nan")]
    pub max: f64,
    /// Sample standard deviation between intervals.
    #[serde(deserialize_with = "nan")]
    pub stddev: f64,
    /// Coefficient of variation, `stddev` over mean.
    #[serde(deserialize_with = "nan")]
    pub cv: f64,
}

/// Statistics of one tenant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TenantStats {
    /// Its name.
    pub name: String,
    /// Its weight, relative to its siblings, at the start of the run.
    pub weight: u32,
    /// Fraction of all data moved, 0 to 1; NaN if no data was moved.
    #[serde(deserialize_with = "nan")]
    pub share: f64,
    /// Ideal share by weight among the tenants with I/O in the measured time; the mean over time if weights changed.
    pub ideal_share: f64,
    /// Whether the scenario marks it as the focus of latency metrics.
    #[serde(default)]
    pub focus: bool,
    /// Requests that finished in the measured time.
    pub count: u64,
    /// Requests per second.
    pub iops: f64,
    /// Data moved, MB/s.
    pub mb_per_s: f64,
    /// Where the time goes; `null` without a request.
    #[serde(default)]
    pub time_parts_us: Option<TimeParts>,
    /// Submission to completion.
    pub latency_us: Latency,
    /// Variation of its bandwidth.
    pub bandwidth: Bandwidth,
}

/// Statistics of one task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskStats {
    /// Its name.
    pub name: String,
    /// Name of its tenant.
    pub tenant: String,
    /// Requests that finished in the measured time.
    pub count: u64,
    /// Reads among them.
    #[serde(default)]
    pub reads: u64,
    /// Requests per second.
    pub iops: f64,
    /// Data moved, MB/s.
    pub mb_per_s: f64,
    /// Submission to completion; of tasks behind the first 64 without percentiles, and of finished requests only.
    pub latency_us: Latency,
}

/// The tasks that the scenario marks as the focus, together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FocusTasks {
    /// Their names, without the numbers of instances.
    pub names: Vec<String>,
    /// Their requests.
    #[serde(flatten)]
    pub stats: OpStats,
}

/// Fairness of the run. NaN (`null`) with fewer than two tenants that submitted I/O.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fairness {
    /// Proportionality variation of the A+CFQ paper, 0 is ideal; also NaN if the tenant of the smallest weight moved no
    /// data.
    #[serde(deserialize_with = "nan")]
    pub pv: f64,
    /// The same from shares of the total instead of ratios to the smallest tenant: bounded, 0 is ideal.
    #[serde(deserialize_with = "nan")]
    pub pv_share: f64,
    /// Share error: half the sum over tenants of |share - ideal share|, the part of the data that the wrong tenants moved,
    /// 0 to 1; 0 is ideal.
    #[serde(default = "not_known", deserialize_with = "nan")]
    pub share_error: f64,
    /// Jain's index of bandwidth over ideal share, 1 is ideal, 1/n the worst.
    #[serde(deserialize_with = "nan")]
    pub jain: f64,
    /// Time in which a tenant moved more data than one with a larger ideal share, s: the sum of such intervals of the
    /// series, among the tenants that submitted I/O in them.
    #[serde(default = "not_known", deserialize_with = "nan")]
    pub reversals_s: f64,
}

/// CPU time of the measured time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cpu {
    /// All CPUs together, s.
    pub busy_s: f64,
    /// User time: applications and, on a real device, this project's own block layer, s.
    #[serde(default)]
    pub usr_s: f64,
    /// System time, s; in a simulation everything except think time.
    #[serde(default)]
    pub sys_s: f64,
    /// CPU time per completed I/O, us; NaN without any.
    #[serde(deserialize_with = "nan")]
    pub us_per_io: f64,
    /// Context switches per completed I/O; NaN if unknown.
    #[serde(default = "not_known", deserialize_with = "nan")]
    pub ctx_per_io: f64,
    /// Submission path without the scheduler, s.
    pub submit_s: f64,
    /// Inside the scheduler, s.
    pub scheduler_s: f64,
    /// Interrupts and the completion path, s.
    pub irq_s: f64,
    /// Polling for completions, s.
    pub poll_s: f64,
    /// Busy fraction of each CPU, 0 to 1.
    #[serde(deserialize_with = "nans")]
    pub utilisation: Vec<f64>,
}

/// Energy over the measured time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Energy {
    /// Energy, J.
    pub joules: f64,
    /// Source of the figure: the name of a meter, or `model` and its name.
    pub source: String,
    /// Joules per million I/Os; NaN without any I/O.
    #[serde(deserialize_with = "nan")]
    pub j_per_mio: f64,
    /// Bytes moved per joule.
    #[serde(deserialize_with = "nan")]
    pub bytes_per_j: f64,
}

impl Energy {
    /// The figures of a run that drew `joules` in its measured time, by the meter `source`.
    pub fn of_run(run: &RunResult, joules: f64, source: &str) -> Energy {
        Energy {
            joules,
            source: source.to_owned(),
            j_per_mio: joules / run.completed as f64 * 1e6,
            bytes_per_j: run.mb_per_s * 1e6 * run.duration_s / joules,
        }
    }
}

/// Phases of the latency of finished requests. Percentiles are exact to 1 %.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Phases {
    /// Insertion to issue ("I2D"): time in the scheduler.
    pub queue: Latency,
    /// Issue to completion by the device ("D2C").
    pub device: Latency,
}

/// Bandwidth of one tenant over time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TenantSeries {
    /// Its name.
    pub name: String,
    /// MB/s per interval.
    #[serde(deserialize_with = "nans")]
    pub mb_per_s: Vec<f64>,
}

/// Time series. All lists have one entry per interval.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// Length of an interval, s; the last one may be shorter or up to half longer.
    pub interval_s: f64,
    /// Start of each interval, s since the start of the run.
    #[serde(deserialize_with = "nans")]
    pub times: Vec<f64>,
    /// Data moved, MB/s.
    #[serde(deserialize_with = "nans")]
    pub mb_per_s: Vec<f64>,
    /// Requests per second.
    #[serde(deserialize_with = "nans")]
    pub iops: Vec<f64>,
    /// 99th percentile of the latency of requests that finished in the interval, us; for joined intervals the highest of
    /// theirs.
    #[serde(deserialize_with = "nans")]
    pub p99_us: Vec<f64>,
    /// Proportionality variation of each interval, among the tenants that submitted I/O in it, by their weights at that
    /// time.
    #[serde(default, deserialize_with = "nans")]
    pub pv: Vec<f64>,
    /// Mean number of requests in the scheduler over time.
    #[serde(deserialize_with = "nans")]
    pub depth_scheduler: Vec<f64>,
    /// Mean number of requests in the device over time.
    #[serde(deserialize_with = "nans")]
    pub depth_device: Vec<f64>,
    /// Bandwidth by tenant.
    pub tenants: Vec<TenantSeries>,
}

/// Fraction of the time in which a queue held `from` to `to` requests.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DepthShare {
    /// Lower bound of the depth.
    pub from: u64,
    /// Upper bound of the depth.
    pub to: u64,
    /// Fraction of the measured time, 0 to 1.
    pub share: f64,
}

/// Time-weighted mean and distribution of a queue's depth.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DepthShares {
    /// Mean over time.
    #[serde(deserialize_with = "nan")]
    pub mean: f64,
    /// Largest depth; for several rings the sum of their largest depths, an upper bound.
    pub max: u64,
    /// Distribution: exact up to 32, then by powers of two. Empty for several rings, whose joint distribution is
    /// unknown.
    pub distribution: Vec<DepthShare>,
}

/// Queue depths over the measured time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Depths {
    /// Requests in the scheduler.
    pub scheduler: DepthShares,
    /// Requests in the device.
    pub device: DepthShares,
}

/// A cumulative distribution as points: `fraction[i]` of the latencies are at most `us[i]`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cdf {
    /// Latencies, us, rising.
    #[serde(deserialize_with = "nans")]
    pub us: Vec<f64>,
    /// Fractions, rising to 1, or to [`Latency::known_to`] if that is less.
    #[serde(deserialize_with = "nans")]
    pub fraction: Vec<f64>,
}

/// Latency distributions, each thinned to at most 200 points.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cdfs {
    /// All operations.
    pub all: Cdf,
    /// Reads.
    pub read: Cdf,
    /// Writes.
    pub write: Cdf,
}

/// One row of the nested latency table: the distribution over the intervals of one percentile of each interval. It
/// distinguishes a short total stall from a permanent tail.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NestedRow {
    /// The percentile taken in each interval: `p50`, `p90`, `p99`, `p99.9` or `max`.
    pub percentile: String,
    /// The same percentile of all requests together, us.
    #[serde(deserialize_with = "nan")]
    pub cumulative: f64,
    /// Lowest interval, us.
    #[serde(deserialize_with = "nan")]
    pub best: f64,
    /// Median interval, us.
    #[serde(deserialize_with = "nan")]
    pub p50: f64,
    /// 90th percentile of the intervals, us.
    #[serde(deserialize_with = "nan")]
    pub p90: f64,
    /// 99th percentile of the intervals, us.
    #[serde(deserialize_with = "nan")]
    pub p99: f64,
    /// Highest interval, us.
    #[serde(deserialize_with = "nan")]
    pub worst: f64,
}

/// Distribution over the intervals of the percentiles of each interval.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Nested {
    /// Length of an interval, s.
    pub interval_s: f64,
    /// Intervals with completed requests; others are left out. Each of several rings counts its own.
    pub intervals: u64,
    /// One row per percentile.
    pub rows: Vec<NestedRow>,
}

/// Counts of completed I/Os over time, by rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeMap {
    /// Start of the first column, s since the start of the run.
    pub start_s: f64,
    /// Length of a column, s.
    pub interval_s: f64,
    /// Lower end of each row, and the upper end of the last.
    pub bounds: Vec<f64>,
    /// I/Os by column and row; empty if there were none.
    pub counts: Vec<Vec<u32>>,
}

/// When and where I/Os completed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Maps {
    /// By latency, us.
    pub latency_us: TimeMap,
    /// By position on the device, MB; of I/Os that carry data.
    pub position_mb: TimeMap,
}

/// One run: one scheduler on one device under one load with one seed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// Name of the device.
    pub device: String,
    /// Name of the scheduler.
    pub scheduler: String,
    /// Name of the variant of the scenario, for example `queue-depth=8`; empty if it has none.
    #[serde(default)]
    pub variant: String,
    /// Completion method: `interrupt`, `poll`, `hybrid`.
    #[serde(default)]
    pub completion: String,
    /// The world it ran in: `sim` or `real`.
    #[serde(default)]
    pub world: String,
    /// The block layer that scheduled: `sim`, `engine` or `kernel`.
    #[serde(default)]
    pub via: String,
    /// Number of the replicate, from 0.
    pub replicate: u32,
    /// Seed of the run.
    pub seed: u64,
    /// All of the load is recorded, so that replicates submit the same requests. The world sets it.
    #[serde(default)]
    pub same_load: bool,
    /// Requests submitted, warm-up included, without failed ones: always `warmup_completed` + `completed` + `unfinished`.
    pub requests: u64,
    /// Requests that finished in the warm-up; no figure counts them.
    pub warmup_completed: u64,
    /// Requests that finished in the measured time, whenever they were submitted; rates and shares count them.
    pub completed: u64,
    /// Requests not finished at the end.
    pub unfinished: u64,
    /// How long the oldest of those had waited, s; 0 without any.
    pub oldest_unfinished_s: f64,
    /// Length of the measured time, s: from the end of the warm-up to the end of the run.
    pub duration_s: f64,
    /// Start of the measured time, ns since 1970 (UTC); `null` in a simulation.
    #[serde(default)]
    pub started_unix_ns: Option<u64>,
    /// End of the measured time, ns since 1970 (UTC); `null` in a simulation.
    #[serde(default)]
    pub ended_unix_ns: Option<u64>,
    /// Requests that finished in the measured time, per second.
    pub iops: f64,
    /// Data that they moved, MB/s (10^6 bytes), reads and writes together.
    pub mb_per_s: f64,
    /// Where the time goes: parts that add up to the mean latency; `null` without a request.
    #[serde(default)]
    pub time_parts_us: Option<TimeParts>,
    /// Submission to completion of all operations.
    pub latency_us: Latency,
    /// Latencies of the tenants that the scenario marks as the focus, together; left out where it marks fewer than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus_latency_us: Option<Latency>,
    /// The tasks that the scenario marks as the focus; left out where it marks none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus_tasks: Option<FocusTasks>,
    /// All requests but write-back, for which nobody waits; left out where nothing is written back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<OpStats>,
    /// Reads.
    pub read: OpStats,
    /// Writes that carry data.
    pub write: OpStats,
    /// Flushes, discards and writes of zeroes.
    pub other: OpStats,
    /// Phases of the latency, us.
    pub phases_us: Phases,
    /// Statistics by tenant.
    pub tenants: Vec<TenantStats>,
    /// Statistics by task; of more than 256 tasks the first 64, and of the others those that moved the most data.
    pub tasks: Vec<TaskStats>,
    /// Tasks left out of `tasks`.
    pub tasks_omitted: u64,
    /// Results of applications: start-ups, players.
    #[serde(default)]
    pub applications: Vec<ApplicationStats>,
    /// Fairness between tenants.
    pub fairness: Fairness,
    /// Variation of the total bandwidth.
    pub bandwidth: Bandwidth,
    /// CPU time.
    pub cpu: Cpu,
    /// Energy; `null` if there is neither a meter nor a model.
    #[serde(default)]
    pub energy: Option<Energy>,
    /// Time series.
    pub series: Series,
    /// Queue depths.
    pub depth: Depths,
    /// Nested percentiles, us.
    pub latency_nested_us: Nested,
    /// Latency distributions.
    pub latency_cdf: Cdfs,
    /// Latencies and positions over time; of the first replicate only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maps: Option<Maps>,
    /// Merge counts.
    pub merges: Merges,
    /// Requests that failed.
    pub errors: u64,
    /// Requests that were refused because of their deadlines, warm-up included; no other figure counts them.
    #[serde(default)]
    pub rejected: u64,
    /// Conservation of requests.
    pub ledger: Ledger,
    /// Counters of the host over the measured time, by name; empty if none are known.
    #[serde(default)]
    pub host_counters: BTreeMap<String, f64>,
    /// Exchanges of the scheduler during the run; left out where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches: Option<SchedulerSwitches>,
    /// Counters of the scheduler, by name.
    #[serde(default)]
    pub scheduler_counters: BTreeMap<String, f64>,
    /// Counters of the device, by name.
    #[serde(default)]
    pub device_counters: BTreeMap<String, f64>,
}

/// Exchanges of the scheduler during a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchedulerSwitches {
    /// Schedulers exchanged.
    pub count: u64,
    /// Time in which I/O waited and no request was sent because of them, ms.
    pub pause_ms: f64,
}

impl RunResult {
    /// The compared combination: (scheduler, block layer, completion method).
    pub fn configuration(&self) -> (&str, &str, &str) {
        (&self.scheduler, &self.via, &self.completion)
    }
}
