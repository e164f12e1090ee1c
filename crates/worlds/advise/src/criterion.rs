//! Metrics to compare runs by, the focus of latency metrics, and the user's goals.

use dumbwaiter_measure::{Latency, PlayerStats, RunResult, StartUpStats, TenantStats};
use serde::{Deserialize, Serialize};

/// Smaller relative differences are of no practical use.
pub const USEFUL: f64 = 0.03;

/// A figure of a run that schedulers are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Throughput, MB/s (10^6 bytes).
    MbPerS,
    /// Requests per second.
    Iops,
    /// Mean latency, us.
    Mean,
    /// Median latency, us.
    P50,
    /// 99th percentile of the latency, us.
    P99,
    /// 99.9th percentile of the latency, us.
    P999,
    /// 99th percentile of reads, us.
    ReadP99,
    /// 99th percentile of writes, us.
    WriteP99,
    /// 99th percentile of the latency of the [`Focus`], us.
    FocusP99,
    /// Start-up time of the slowest application, s; infinite where it never started.
    StartUp,
    /// Dropped frames of the worst player, %.
    DroppedFrames,
    /// Requests refused because of their deadlines, % of all; undefined where none was.
    Rejected,
    /// Share error: part of the data that the wrong tenants moved, 0 to 1, 0 is best.
    ShareError,
    /// Proportionality variation: deviation of shares from weights, 0 is best (A+CFQ, 2020).
    Pv,
    /// Jain's fairness index over shares by weight, 1 is best.
    Jain,
    /// CPU time per I/O, us.
    CpuUsPerIo,
    /// Context switches per I/O.
    CtxPerIo,
    /// Joules per million I/Os.
    JPerMio,
    /// Bytes per joule.
    BytesPerJ,
}

impl Metric {
    /// All metrics, in order of presentation.
    pub const ALL: [Metric; 19] = [
        Metric::MbPerS,
        Metric::Iops,
        Metric::Mean,
        Metric::P50,
        Metric::P99,
        Metric::P999,
        Metric::ReadP99,
        Metric::WriteP99,
        Metric::FocusP99,
        Metric::StartUp,
        Metric::DroppedFrames,
        Metric::Rejected,
        Metric::ShareError,
        Metric::Pv,
        Metric::Jain,
        Metric::CpuUsPerIo,
        Metric::CtxPerIo,
        Metric::JPerMio,
        Metric::BytesPerJ,
    ];

    /// The key in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Metric::MbPerS => "mb_per_s",
            Metric::Iops => "iops",
            Metric::Mean => "latency_mean_us",
            Metric::P50 => "latency_p50_us",
            Metric::P99 => "latency_p99_us",
            Metric::P999 => "latency_p99_9_us",
            Metric::ReadP99 => "read_p99_us",
            Metric::WriteP99 => "write_p99_us",
            Metric::FocusP99 => "focus_p99_us",
            Metric::StartUp => "start_up_s",
            Metric::DroppedFrames => "dropped_frames_percent",
            Metric::Rejected => "rejected_percent",
            Metric::ShareError => "share_error",
            Metric::Pv => "pv",
            Metric::Jain => "jain",
            Metric::CpuUsPerIo => "cpu_us_per_io",
            Metric::CtxPerIo => "ctx_per_io",
            Metric::JPerMio => "j_per_mio",
            Metric::BytesPerJ => "bytes_per_j",
        }
    }

    /// Whether differences are ratios, as of times and rates. Those of percentages and shares are differences in points.
    pub(crate) fn by_ratio(self) -> bool {
        !matches!(self, Metric::DroppedFrames | Metric::Rejected | Metric::ShareError | Metric::Pv | Metric::Jain)
    }

    /// A difference of 1 in the metric's unit, where differences are not ratios.
    fn whole(self) -> f64 {
        if matches!(self, Metric::DroppedFrames | Metric::Rejected) { 100.0 } else { 1.0 }
    }

    /// How much worse `own` is than `other`, as a fraction: 0.5 for a latency half longer or a throughput lower by a half; for
    /// percentages and shares the difference.
    pub fn worse_by(self, own: f64, other: f64) -> f64 {
        let signed = if self.by_ratio() { own / other - 1.0 } else { (own - other) / self.whole() };
        if self.higher_is_better() { -signed } else { signed }
    }

    /// The smallest difference, as [`Metric::worse_by`] gives it, that is of practical use.
    pub fn useful(self) -> f64 {
        // One frame in 200 can be seen.
        if self == Metric::DroppedFrames { 0.005 } else { USEFUL }
    }

    /// Whether a higher value is better.
    pub fn higher_is_better(self) -> bool {
        matches!(self, Metric::MbPerS | Metric::Iops | Metric::Jain | Metric::BytesPerJ)
    }

    /// Whether `a` is better than `b`. NaN, an undefined value, is worse than every number.
    pub fn better(self, a: f64, b: f64) -> bool {
        match (a.is_nan(), b.is_nan()) {
            (true, _) => false,
            (false, true) => true,
            _ if self.higher_is_better() => a > b,
            _ => a < b,
        }
    }

    /// The largest value that it can have.
    pub(crate) fn largest(self) -> f64 {
        match self {
            Metric::Jain | Metric::ShareError => 1.0,
            Metric::DroppedFrames | Metric::Rejected => 100.0,
            _ => f64::INFINITY,
        }
    }

    /// Whether the metric of a run is known, and not just a lower bound because of unfinished requests.
    pub(crate) fn is_known(self, run: &RunResult, focus: &Focus) -> bool {
        match self {
            Metric::Mean => run.latency_us.is_known(1.0),
            Metric::P50 => run.latency_us.is_known(0.5),
            Metric::P99 => run.latency_us.is_known(0.99),
            Metric::P999 => run.latency_us.is_known(0.999),
            Metric::ReadP99 => run.read.latency_us.is_known(0.99),
            Metric::WriteP99 => run.write.latency_us.is_known(0.99),
            Metric::FocusP99 => focus.latencies(run).all(|latency| latency.is_known(0.99)),
            Metric::StartUp => start_ups(run).all(|start_up| !start_up.at_least),
            _ => true,
        }
    }

    /// Whether the run lacks the metric because it starved those that the metric is about.
    pub(crate) fn is_worst_without_service(self, run: &RunResult, focus: &Focus) -> bool {
        match self {
            Metric::FocusP99 => focus.count(run) == 0,
            Metric::Pv | Metric::ShareError => true,
            _ => false,
        }
    }

    /// The metric of one run; NaN where undefined, infinite for the latency of a focus that waits and gets nothing.
    pub fn of(self, run: &RunResult, focus: &Focus) -> f64 {
        match self {
            Metric::MbPerS => run.mb_per_s,
            Metric::Iops => run.iops,
            Metric::Mean => run.latency_us.mean,
            Metric::P50 => run.latency_us.p50,
            Metric::P99 => run.latency_us.p99,
            Metric::P999 => run.latency_us.p99_9,
            Metric::ReadP99 => run.read.latency_us.p99,
            Metric::WriteP99 => run.write.latency_us.p99,
            Metric::FocusP99 => focus.p99_us(run),
            Metric::StartUp => start_ups(run).map(start_up_s).fold(f64::NAN, f64::max),
            Metric::DroppedFrames => players(run).map(|player| player.drop_percent).fold(f64::NAN, f64::max),
            Metric::Rejected if run.rejected == 0 => f64::NAN,
            Metric::Rejected => 100.0 * run.rejected as f64 / (run.rejected + run.requests) as f64,
            Metric::ShareError => run.fairness.share_error,
            Metric::Pv => run.fairness.pv,
            Metric::Jain => run.fairness.jain,
            Metric::CpuUsPerIo => run.cpu.us_per_io,
            Metric::CtxPerIo => run.cpu.ctx_per_io,
            Metric::JPerMio => run.energy.as_ref().map_or(f64::NAN, |e| e.j_per_mio),
            Metric::BytesPerJ => run.energy.as_ref().map_or(f64::NAN, |e| e.bytes_per_j),
        }
    }
}

fn start_ups(run: &RunResult) -> impl Iterator<Item = &StartUpStats> {
    run.applications.iter().filter_map(|application| application.start_up.as_ref())
}

fn players(run: &RunResult) -> impl Iterator<Item = &PlayerStats> {
    run.applications.iter().filter_map(|application| application.player.as_ref())
}

/// Mean start-up time, s: infinite where no launch completed, NaN without a launch.
fn start_up_s(of: &StartUpStats) -> f64 {
    if of.count > 0 && of.started == 0 { f64::INFINITY } else { of.mean_s }
}

/// The requests whose latency the recommendation looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Focus {
    /// Requests of these tenants; of several, the tenant with the worst p99.
    Tenants(Vec<String>),
    /// All reads: applications usually wait for them.
    Reads,
    /// Every request.
    All,
}

impl Focus {
    /// Chooses the focus of runs of one device and load: the tenants that the scenario marks; else the tenant
    /// that uses the smallest part of its weight's share over all runs, if below one half (an interactive
    /// or starved tenant); else reads where they are at least 5 % of the requests; else all requests.
    pub fn of(runs: &[&RunResult]) -> Focus {
        let Some(first) = runs.first() else { return Focus::All };
        let marked: Vec<String> = first.tenants.iter().filter(|t| t.focus).map(|t| t.name.clone()).collect();
        if !marked.is_empty() {
            return Focus::Tenants(marked);
        }
        // A run that moved nothing says nothing of shares.
        let moving: Vec<&RunResult> = runs.iter().copied().filter(|r| r.mb_per_s > 0.0).collect();
        let used_share = |i: usize| -> f64 {
            let tenants = moving.iter().filter_map(|r| r.tenants.get(i));
            tenants.map(|t| if t.ideal_share > 0.0 { t.share / t.ideal_share } else { f64::NAN }).sum::<f64>()
                / moving.len() as f64
        };
        let least = (0..first.tenants.len())
            .map(|i| (i, used_share(i)))
            .filter(|(_, a)| *a < 0.5)
            .reduce(|a, b| if b.1 < a.1 { b } else { a });
        if let Some((i, _)) = least {
            return Focus::Tenants(vec![first.tenants[i].name.clone()]);
        }
        let (reads, all) = runs.iter().fold((0u64, 0u64), |(r, a), run| (r + run.read.count, a + run.completed));
        if reads > 0 && reads.saturating_mul(20) >= all { Focus::Reads } else { Focus::All }
    }

    fn tenants<'a>(&'a self, run: &'a RunResult) -> impl Iterator<Item = &'a TenantStats> {
        let names: &[String] = if let Focus::Tenants(names) = self { names } else { &[] };
        run.tenants.iter().filter(|t| names.contains(&t.name))
    }

    /// Finished requests and latencies of each group of these requests that did or wanted any.
    fn groups<'a>(&'a self, run: &'a RunResult) -> impl Iterator<Item = (u64, &'a Latency)> {
        let (all, reads) = ((run.completed, &run.latency_us), (run.read.count, &run.read.latency_us));
        let whole = match self {
            Focus::Tenants(_) => None,
            Focus::Reads => Some(reads),
            Focus::All => Some(all),
        };
        let groups = whole.into_iter().chain(self.tenants(run).map(|t| (t.count, &t.latency_us)));
        groups.filter(|(count, latency)| count + latency.unfinished > 0)
    }

    /// Their latencies.
    pub(crate) fn latencies<'a>(&'a self, run: &'a RunResult) -> impl Iterator<Item = &'a Latency> {
        self.groups(run).map(|(_, latency)| latency)
    }

    /// The 99th percentile of the latency of these requests in a run, us: of several tenants the worst. Infinite if one of
    /// them waits and got nothing, NaN if none wanted anything.
    pub fn p99_us(&self, run: &RunResult) -> f64 {
        let p99 = |(count, latency): (u64, &Latency)| if count == 0 { f64::INFINITY } else { latency.p99 };
        self.groups(run).map(p99).fold(f64::NAN, f64::max)
    }

    /// Completed requests in a run; of several tenants the smallest count.
    pub fn count(&self, run: &RunResult) -> u64 {
        match self {
            Focus::Tenants(_) => self.tenants(run).map(|t| t.count).min().unwrap_or(0),
            Focus::Reads => run.read.count,
            Focus::All => run.completed,
        }
    }

    /// Latencies in a run that the percentile rests on; of several tenants the smallest number.
    pub(crate) fn samples(&self, run: &RunResult) -> u64 {
        self.latencies(run).map(|latency| latency.samples).min().unwrap_or(0)
    }

    /// Part of their latencies in a run of which only a lower bound is known, 0 to 1: unfinished I/Os that waited longer than any
    /// that finished. Of several tenants the largest.
    pub(crate) fn unknown_share(&self, run: &RunResult) -> f64 {
        self.latencies(run).map(|latency| 1.0 - latency.known_to).fold(0.0, f64::max)
    }

    /// Its name in texts: `reads`, `all requests`, `desktop`.
    pub fn name(&self) -> String {
        match self {
            Focus::Tenants(names) => names.join(", "),
            Focus::Reads => "reads".to_string(),
            Focus::All => "all requests".to_string(),
        }
    }
}

/// What a user wants most: the metric to optimise, among the schedulers that keep a given part of
/// the best throughput.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// The lowest p99 of the focus within 10 % of the best throughput.
    #[default]
    Balanced,
    /// The lowest p99 of the focus, if at least half of the best throughput is kept.
    Latency,
    /// The highest throughput.
    Throughput,
    /// The lowest share error within 20 % of the best throughput.
    Fairness,
}

impl Goal {
    /// All goals.
    pub const ALL: [Goal; 4] = [Goal::Balanced, Goal::Latency, Goal::Throughput, Goal::Fairness];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Goal::Balanced => "balanced",
            Goal::Latency => "latency",
            Goal::Throughput => "throughput",
            Goal::Fairness => "fairness",
        }
    }

    /// The goal of this name.
    pub fn parse(name: &str) -> Option<Goal> {
        Goal::ALL.into_iter().find(|g| g.name() == name)
    }

    /// The metric to optimise.
    pub fn metric(self) -> Metric {
        match self {
            Goal::Balanced | Goal::Latency => Metric::FocusP99,
            Goal::Throughput => Metric::MbPerS,
            Goal::Fairness => Metric::ShareError,
        }
    }

    /// What decides, most important first. A later metric decides where the earlier ones show no practical difference.
    pub(crate) fn criteria(self, runs: &[&RunResult]) -> Vec<Metric> {
        let weights_differ = runs.iter().any(|run| {
            let mut due = run.tenants.iter().map(|tenant| tenant.weight);
            due.next().is_some_and(|first| due.any(|weight| weight != first))
        });
        let applications = [Metric::StartUp, Metric::DroppedFrames];
        let shares = weights_differ.then_some(Metric::ShareError);
        match self {
            Goal::Balanced | Goal::Latency => {
                let latencies = applications.into_iter().chain([Metric::FocusP99]);
                latencies.chain(shares).chain([Metric::MbPerS]).collect()
            }
            Goal::Throughput => vec![Metric::MbPerS, Metric::FocusP99],
            Goal::Fairness => vec![Metric::ShareError, Metric::FocusP99, Metric::MbPerS],
        }
    }

    /// The throughput to keep, as a part of the best scheduler's, 0 to 1.
    pub fn throughput_floor(self) -> f64 {
        match self {
            Goal::Balanced => 0.9,
            Goal::Latency => 0.5,
            Goal::Throughput => 0.0,
            Goal::Fairness => 0.8,
        }
    }
}
