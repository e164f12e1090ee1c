//! One run in numbers. The serde form of these types is the JSON that users read, documented in the
//! project's JSON reference: latencies in microseconds, MB = 10^6 bytes, `null` where a figure is
//! undefined (NaN here), for example the p99 of reads where nothing was read.

use crate::application::ApplicationStats;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// Reads `null` as NaN; serde_json writes NaN as `null`.
pub(crate) fn nan<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(d)?.unwrap_or(f64::NAN))
}

fn nans<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<f64>, D::Error> {
    Ok(Vec::<Option<f64>>::deserialize(d)?.into_iter().map(|v| v.unwrap_or(f64::NAN)).collect())
}

fn not_known() -> f64 {
    f64::NAN
}

/// Latency figures in microseconds; NaN (`null`) where nothing was counted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// Arithmetic mean, exact.
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
    /// Longest, exact.
    #[serde(deserialize_with = "nan")]
    pub max: f64,
    /// Sample standard deviation, exact; 0 for a single request.
    #[serde(deserialize_with = "nan")]
    pub stddev: f64,
}

impl Default for Latency {
    fn default() -> Latency {
        let nan = f64::NAN;
        Latency { mean: nan, p50: nan, p95: nan, p99: nan, p99_9: nan, max: nan, stddev: nan }
    }
}

/// Requests of one kind of operation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OpStats {
    /// Requests counted.
    pub count: u64,
    /// Requests per second.
    pub iops: f64,
    /// Data moved, MB/s (10^6 bytes).
    pub mb_per_s: f64,
    /// Submission to completion.
    #[serde(flatten)]
    pub latency_us: Latency,
}

/// How steady a bandwidth was, over the whole intervals of the run. MB/s; NaN with fewer than two.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Lowest interval.
    #[serde(deserialize_with = "nan")]
    pub min: f64,
    /// Highest interval.
    #[serde(deserialize_with = "nan")]
    pub max: f64,
    /// Sample standard deviation between intervals.
    #[serde(deserialize_with = "nan")]
    pub stddev: f64,
    /// Coefficient of variation, `stddev` over mean.
    #[serde(deserialize_with = "nan")]
    pub cv: f64,
}

/// One tenant's part of the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TenantStats {
    /// Its name.
    pub name: String,
    /// Its weight among its siblings when the run began.
    pub weight: u32,
    /// Fraction of all data moved, 0 to 1; NaN where none was.
    #[serde(deserialize_with = "nan")]
    pub share: f64,
    /// Fraction its weight entitles it to among the tenants that asked for I/O; where weights changed, the mean over time.
    pub ideal_share: f64,
    /// Is it the one whose latency counts most, by the scenario's word?
    #[serde(default)]
    pub focus: bool,
    /// Requests counted.
    pub count: u64,
    /// Requests per second.
    pub iops: f64,
    /// Data moved, MB/s.
    pub mb_per_s: f64,
    /// Submission to completion.
    pub latency_us: Latency,
    /// Steadiness of its bandwidth.
    pub bandwidth: Bandwidth,
}

/// One task's part of the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskStats {
    /// Its name.
    pub name: String,
    /// Name of its tenant.
    pub tenant: String,
    /// Requests counted.
    pub count: u64,
    /// Requests per second.
    pub iops: f64,
    /// Data moved, MB/s.
    pub mb_per_s: f64,
    /// Submission to completion; percentiles only in runs of at most 64 tasks.
    pub latency_us: Latency,
}

/// How the bandwidth was divided. NaN (`null`) with fewer than two tenants that asked for I/O.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fairness {
    /// Proportionality variation of the A+CFQ paper, 0 is ideal; also NaN where the tenant of the
    /// smallest weight got nothing.
    #[serde(deserialize_with = "nan")]
    pub pv: f64,
    /// The same with shares of the total in place of ratios to the smallest: bounded, 0 is ideal.
    #[serde(deserialize_with = "nan")]
    pub pv_share: f64,
    /// Jain's index of bandwidth over ideal share, 1 is ideal, 1/n the worst.
    #[serde(deserialize_with = "nan")]
    pub jain: f64,
    /// Time in which a tenant moved more than another of a larger ideal share, s: the sum of the intervals of the series
    /// for which that is so, among the tenants that asked for I/O in them.
    #[serde(default = "not_known", deserialize_with = "nan")]
    pub reversals_s: f64,
}

/// Processor time over the whole run, warm-up included.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cpu {
    /// All CPUs together, s.
    pub busy_s: f64,
    /// Outside the kernel: applications and, on a real device, our own block layer, s.
    #[serde(default)]
    pub usr_s: f64,
    /// In the kernel, s. In a simulation everything but the time between I/Os counts here.
    #[serde(default)]
    pub sys_s: f64,
    /// Processor time per finished I/O, us; NaN without any.
    #[serde(deserialize_with = "nan")]
    pub us_per_io: f64,
    /// Context switches per finished I/O; NaN where they are not known.
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
    /// What was drawn, J.
    pub joules: f64,
    /// Where the figure comes from: the name of a meter, or `model` with its name.
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

/// Parts of the way of a request. Percentiles to 1 %.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Phases {
    /// Insertion to issue ("I2D"): time in the scheduler's queue.
    pub queue: Latency,
    /// Issue to the device's end ("D2C").
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

/// What happened over time. All lists have one entry per interval.
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
    /// 99th percentile of the latency, us; where an interval joins several, the highest of theirs.
    #[serde(deserialize_with = "nans")]
    pub p99_us: Vec<f64>,
    /// Proportionality variation of each interval, among the tenants that asked for I/O in it, by their weights of then.
    #[serde(default, deserialize_with = "nans")]
    pub pv: Vec<f64>,
    /// Requests in the scheduler, averaged over time.
    #[serde(deserialize_with = "nans")]
    pub depth_scheduler: Vec<f64>,
    /// Requests in the device, averaged over time.
    #[serde(deserialize_with = "nans")]
    pub depth_device: Vec<f64>,
    /// Bandwidth by tenant.
    pub tenants: Vec<TenantSeries>,
}

/// Fraction of the time that a queue held `from` to `to` requests.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DepthShare {
    /// Fewest.
    pub from: u64,
    /// Most.
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
    /// Deepest; of several rings together the sum of what was deepest in each, which was not exceeded.
    pub max: u64,
    /// Distribution; exact up to 32, then by powers of two. Empty for several rings together: it is not known.
    pub distribution: Vec<DepthShare>,
}

/// Queue depths over the measured time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Depths {
    /// Requests the scheduler held.
    pub scheduler: DepthShares,
    /// Requests the device held.
    pub device: DepthShares,
}

/// A cumulative distribution as points: `fraction[i]` of the latencies are at most `us[i]`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cdf {
    /// Latencies, us, rising.
    #[serde(deserialize_with = "nans")]
    pub us: Vec<f64>,
    /// Fractions, rising to 1.
    #[serde(deserialize_with = "nans")]
    pub fraction: Vec<f64>,
}

/// Latency distributions, each thinned to at most 200 points.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cdfs {
    /// Every operation.
    pub all: Cdf,
    /// Reads.
    pub read: Cdf,
    /// Writes.
    pub write: Cdf,
}

/// One row of the nested latency table: how one percentile, taken in each interval, was distributed
/// over the intervals. It tells a short total stall from a tail that is always there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NestedRow {
    /// The percentile taken in each interval: `p50`, `p90`, `p99`, `p99.9` or `max`.
    pub percentile: String,
    /// The same percentile of all requests together, us.
    #[serde(deserialize_with = "nan")]
    pub cumulative: f64,
    /// Best interval, us.
    #[serde(deserialize_with = "nan")]
    pub best: f64,
    /// Median interval, us.
    #[serde(deserialize_with = "nan")]
    pub p50: f64,
    /// 90 % of the intervals were no worse, us.
    #[serde(deserialize_with = "nan")]
    pub p90: f64,
    /// 99 % of the intervals were no worse, us.
    #[serde(deserialize_with = "nan")]
    pub p99: f64,
    /// Worst interval, us.
    #[serde(deserialize_with = "nan")]
    pub worst: f64,
}

/// Percentiles of per-interval percentiles.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Nested {
    /// Length of an interval, s.
    pub interval_s: f64,
    /// Intervals in which something finished; the others count for nothing here. Of several rings each counts its own.
    pub intervals: u64,
    /// One row per percentile.
    pub rows: Vec<NestedRow>,
}

/// Requests that joined others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merges {
    /// At the end of a queued request.
    pub back: u64,
    /// At its beginning.
    pub front: u64,
    /// Discards that joined a discard.
    pub discard: u64,
    /// Two queued requests that became one because a third filled the gap.
    pub requests: u64,
}

/// Conservation of requests: what came in must have gone out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Handed to the block layer.
    pub submitted: u64,
    /// Finished, well or not.
    pub completed: u64,
    /// Of those, finished as errors.
    pub failed: u64,
    /// Still on their way at the end.
    pub outstanding: u64,
}

/// One run: one scheduler on one device under one load with one seed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// Name of the device.
    pub device: String,
    /// Name of the scheduler.
    pub scheduler: String,
    /// Whatever else is varied, for example `queue-depth=8`; empty where nothing is.
    #[serde(default)]
    pub variant: String,
    /// How completions were found: `interrupt`, `poll`, `hybrid`.
    #[serde(default)]
    pub completion: String,
    /// Where it ran: `sim` or `real`.
    #[serde(default)]
    pub world: String,
    /// Whose block layer scheduled: `sim`, `engine` or `kernel`.
    #[serde(default)]
    pub via: String,
    /// Number of the replicate, from 0.
    pub replicate: u32,
    /// Seed of the run.
    pub seed: u64,
    /// Requests submitted, warm-up included.
    pub requests: u64,
    /// Requests counted: submitted after the warm-up and finished before the end.
    pub completed: u64,
    /// Length of the measured time, s: from the end of the warm-up to the end of the run.
    pub duration_s: f64,
    /// When the measured time began, ns since 1970 (UTC); `null` in simulation.
    #[serde(default)]
    pub started_unix_ns: Option<u64>,
    /// When it ended.
    #[serde(default)]
    pub ended_unix_ns: Option<u64>,
    /// Requests counted per second.
    pub iops: f64,
    /// Data moved, MB/s (10^6 bytes), reads and writes together.
    pub mb_per_s: f64,
    /// Submission to completion of every request.
    pub latency_us: Latency,
    /// Reads.
    pub read: OpStats,
    /// Writes that carry data.
    pub write: OpStats,
    /// Flushes, discards and writes of zeroes.
    pub other: OpStats,
    /// Parts of the latency, us.
    pub phases_us: Phases,
    /// By tenant.
    pub tenants: Vec<TenantStats>,
    /// By task; the 256 that moved most where there are more.
    pub tasks: Vec<TaskStats>,
    /// Tasks left out of `tasks`.
    pub tasks_omitted: u64,
    /// How applications fared: start-ups, players.
    #[serde(default)]
    pub applications: Vec<ApplicationStats>,
    /// How the bandwidth was divided.
    pub fairness: Fairness,
    /// Steadiness of the whole bandwidth.
    pub bandwidth: Bandwidth,
    /// Processor time.
    pub cpu: Cpu,
    /// Energy; `null` where there is neither a meter nor a model.
    #[serde(default)]
    pub energy: Option<Energy>,
    /// Over time.
    pub series: Series,
    /// Queue depths.
    pub depth: Depths,
    /// Percentiles of per-interval percentiles, us.
    pub latency_nested_us: Nested,
    /// Distributions.
    pub latency_cdf: Cdfs,
    /// Requests that joined others.
    pub merges: Merges,
    /// Requests that ended in an error.
    pub errors: u64,
    /// Conservation.
    pub ledger: Ledger,
    /// Counters of the host over the measured time, by name; empty where nothing is known.
    #[serde(default)]
    pub host_counters: BTreeMap<String, f64>,
    /// Counters of the scheduler, by name.
    #[serde(default)]
    pub scheduler_counters: BTreeMap<String, f64>,
    /// Counters of the device, by name.
    #[serde(default)]
    pub device_counters: BTreeMap<String, f64>,
}

impl RunResult {
    /// What was compared: scheduler, whose block layer, completion method.
    pub fn way(&self) -> (&str, &str, &str) {
        (&self.scheduler, &self.via, &self.completion)
    }
}
