//! One scheduler's row in a ranking, and the estimates in it.

use crate::criterion::Metric;
use dumbwaiter_measure::{TestKind, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The mean of one metric over a scheduler's replicates, with its confidence and its difference from the best scheduler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Estimate {
    /// Mean, in the unit of the [`Metric`]; `null` where the metric is undefined in every run.
    pub mean: Option<f64>,
    /// Half width of the 95 % confidence interval; `null` for a single run.
    pub ci95: Option<f64>,
    /// Runs in which the metric is defined.
    pub n: usize,
    /// Compared with the scheduler that is best by this metric.
    pub verdict: Verdict,
    /// p value of the difference from the best; `null` for the best itself and where no test was possible.
    pub p: Option<f64>,
    /// The significance test that gave `p`.
    pub test: Option<TestKind>,
}

impl Estimate {
    /// The mean; NaN where undefined.
    pub fn value(&self) -> f64 {
        self.mean.unwrap_or(f64::NAN)
    }
}

/// One scheduler in a ranking.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name of the device.
    pub device: String,
    /// Name of the variant of the scenario; empty if it has none.
    pub variant: String,
    /// 1 is the recommended scheduler.
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
    /// Whether its throughput is at least the goal's [`throughput_floor`](crate::Goal::throughput_floor).
    pub keeps_throughput: bool,
    /// Compared with the recommended scheduler, by the metric that decided.
    pub verdict: Verdict,
    /// Estimates by [`Metric::key`].
    pub metrics: BTreeMap<String, Estimate>,
}

impl Row {
    /// The scheduler's name, followed by its values on the axes that vary.
    pub fn name(&self, axes: Axes) -> String {
        axes.name(&self.scheduler, &self.via, &self.completion)
    }

    /// Mean of a metric; NaN where undefined.
    pub fn mean(&self, metric: Metric) -> f64 {
        self.metrics.get(metric.key()).map_or(f64::NAN, Estimate::value)
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
    pub fn of_rows(rows: &[Row]) -> Axes {
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
