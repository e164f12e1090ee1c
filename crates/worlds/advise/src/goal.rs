//! The goal of a user, and the metrics that decide for it.

use dumbwaiter_measure::RunResult;
use serde::{Deserialize, Serialize};

use crate::metric::Metric;

/// The goal of a user: the metric to optimise, among the schedulers that keep a given part of
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

    /// Its name on the command line, the metric to optimise, and the throughput to keep.
    fn row(self) -> (&'static str, Metric, f64) {
        match self {
            Goal::Balanced => ("balanced", Metric::FocusP99, 0.9),
            Goal::Latency => ("latency", Metric::FocusP99, 0.5),
            Goal::Throughput => ("throughput", Metric::MbPerS, 0.0),
            Goal::Fairness => ("fairness", Metric::ShareError, 0.8),
        }
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The goal of this name.
    pub fn parse(name: &str) -> Option<Goal> {
        Goal::ALL.into_iter().find(|goal| goal.name() == name)
    }

    /// The metric to optimise.
    pub fn metric(self) -> Metric {
        self.row().1
    }

    /// The deciding metrics, most important first. A later metric decides where the earlier ones show no practical difference.
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
        self.row().2
    }
}
