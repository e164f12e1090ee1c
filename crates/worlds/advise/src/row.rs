//! One scheduler's row in a ranking, and the estimates in it.

use crate::metric::Metric;
use dumbwaiter_measure::{Difference, TestKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The mean of one metric over a scheduler's independent replicates, with its confidence and its difference from the best
/// scheduler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Estimate {
    /// Mean, in the unit of the [`Metric`]; `null` where the metric is undefined in every run, or a run starved.
    pub mean: Option<f64>,
    /// Whether the mean is a lower bound: in some run requests were unfinished after longer waits than any that finished.
    #[serde(default)]
    pub at_least: bool,
    /// Runs in which the requests that it is about got nothing: the worst possible.
    #[serde(default)]
    pub starved: usize,
    /// 95 % confidence interval of the mean, on a logarithmic scale; `null` for a single replicate, and for a lower bound.
    pub ci95: Option<[f64; 2]>,
    /// Independent replicates in which the metric is known. Replicates of a recorded load are one replicate in a
    /// simulation, and so are those that gave the same result.
    pub n: usize,
    /// Compared with the scheduler that is best by this metric.
    #[serde(rename = "verdict")]
    pub difference: Difference,
    /// p value of the difference from the best, by Holm's correction for the number of schedulers; `null` for the best itself
    /// and where no test was possible.
    pub p: Option<f64>,
    /// The significance test that gave `p`.
    pub test: Option<TestKind>,
}

impl Estimate {
    /// The mean; infinite where a run starved, NaN where undefined.
    pub fn value(&self) -> f64 {
        if self.starved > 0 { f64::INFINITY } else { self.mean.unwrap_or(f64::NAN) }
    }
}

/// What a scheduler is worth beside the incumbent. Differences of natural logarithms: a gain of 0.05 is worth as much as a latency that
/// is 5 % lower at the same throughput.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worth {
    /// As it looks.
    pub gain: f64,
    /// At least.
    pub at_least: f64,
    /// At most.
    pub at_most: f64,
    /// Standard error of the gain.
    pub error: f64,
    /// Pairs of runs that it rests on.
    pub runs: usize,
    /// Change of the latency that decides.
    pub latency: f64,
    /// Change of the throughput.
    pub throughput: f64,
    /// It does the same as the incumbent in every run.
    pub same: bool,
}

/// One scheduler in a ranking.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankingRow {
    /// Name of the device.
    pub device: String,
    /// Name of the variant of the scenario; empty if it has none.
    pub variant: String,
    /// 1 is the scheduler that is recommended or kept.
    pub rank: usize,
    /// Name of the scheduler.
    pub scheduler: String,
    /// Completion method.
    #[serde(default)]
    pub completion: String,
    /// The block layer that scheduled: `sim`, `engine` or `kernel`.
    #[serde(default)]
    pub via: String,
    /// Number of runs.
    pub replicates: usize,
    /// Whether its throughput is at least nine tenths of the incumbent's.
    pub keeps_throughput: bool,
    /// Whether the kernel at hand, or a current one for a simulation, offers it.
    #[serde(default = "yes")]
    pub can_be_set: bool,
    /// Seconds of a run's measured time in which bfq raised tasks only since they had begun, the most of its runs; 0 of others.
    #[serde(default)]
    pub raised_s: f64,
    /// Compared with the one that is recommended or kept, in what it is worth.
    #[serde(rename = "verdict")]
    pub difference: Difference,
    /// What it is worth beside the incumbent; `null` for the incumbent itself, and where nothing is known.
    #[serde(default)]
    pub worth: Option<Worth>,
    /// Estimates by [`Metric::key`].
    pub metrics: BTreeMap<String, Estimate>,
}

fn yes() -> bool {
    true
}

impl RankingRow {
    /// The scheduler's name, followed by its values on the axes that vary.
    pub fn name(&self, axes: Axes) -> String {
        axes.name(&self.scheduler, &self.via, &self.completion)
    }

    /// Mean of a metric; infinite where a run starved, NaN where undefined.
    pub fn mean(&self, metric: Metric) -> f64 {
        self.metrics.get(metric.key()).map_or(f64::NAN, Estimate::value)
    }

    /// Whether only a lower bound of a metric is known.
    pub fn is_lower_bound(&self, metric: Metric) -> bool {
        self.metrics.get(metric.key()).is_some_and(|estimate| estimate.at_least && estimate.mean.is_some())
    }
}

/// The axes of an experiment, beside the scheduler, on which its runs differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axes {
    /// Runs went through different block layers: the engine's and the kernel's.
    pub via: bool,
    /// Runs used different completion methods.
    pub completion: bool,
}

impl Axes {
    /// The axes that vary among (`via`, `completion`) pairs.
    pub fn of<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Axes {
        let Some((via, completion)) = pairs.clone().next() else { return Axes { via: false, completion: false } };
        Axes { via: pairs.clone().any(|p| p.0 != via), completion: pairs.clone().any(|p| p.1 != completion) }
    }

    /// The axes that vary among the rows of a ranking.
    pub fn of_rows(rows: &[RankingRow]) -> Axes {
        Axes::of(rows.iter().map(|r| (r.via.as_str(), r.completion.as_str())))
    }

    /// A scheduler's name, followed by its values on the axes that vary.
    pub fn name(self, scheduler: &str, via: &str, completion: &str) -> String {
        let mut name = scheduler.to_string();
        for (_, value) in [(self.via, via), (self.completion, completion)].iter().filter(|(varies, _)| *varies) {
            name += ", ";
            name += value;
        }
        name
    }
}
