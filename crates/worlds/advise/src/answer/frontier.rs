//! The trades on offer: schedulers that nobody else beats in both latency and throughput.

use dumbwaiter_measure::{RunResult, median};
use serde::{Deserialize, Serialize};

use super::field::{Answer, Field};
use super::objective::Judged;
use crate::metric::Metric;
use crate::row::Axes;

/// A scheduler that nobody else beats in both latency and throughput. Levels are geometric means over the runs, so that their quotient
/// is the change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrontierMember {
    /// Its name, with block layer and completion method where these differ.
    pub scheduler: String,
    /// p99 and mean latency of the focus, us; `null` where it has none.
    pub focus_p99_us: Option<f64>,
    /// Mean latency of the focus, us.
    pub focus_mean_us: Option<f64>,
    /// Requests of the focus in the median run.
    pub focus_requests: f64,
    /// Throughput of all tenants, MB/s.
    pub throughput_mb_s: f64,
    /// Change of the latency that decides from the incumbent's, as a fraction.
    pub latency_change: f64,
    /// Change of the throughput from the incumbent's, as a fraction.
    pub throughput_change: f64,
}

/// The geometric mean of a figure over runs; NaN without any, infinite where one is.
pub(crate) fn level(runs: &[&RunResult], of: impl Fn(&RunResult) -> f64) -> f64 {
    let known: Vec<f64> = runs.iter().map(|run| of(run)).filter(|value| !value.is_nan()).collect();
    let sum: f64 = known.iter().map(|value| libm::log(value.max(1e-9))).sum();
    libm::exp(sum / known.len() as f64)
}

/// The mean difference of runs with the same seed, else that of the means.
pub(crate) fn difference(own: &[Judged], other: &[Judged], of: fn(&Judged) -> f64) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let pairs: Vec<f64> = own
        .iter()
        .filter_map(|a| Some(of(a) - of(other.iter().find(|b| b.seed == a.seed)?)))
        .filter(|difference| difference.is_finite())
        .collect();
    if !pairs.is_empty() {
        return mean(&pairs);
    }
    let all = |runs: &[Judged]| mean(&runs.iter().map(of).collect::<Vec<_>>());
    all(own) - all(other)
}

/// Logarithms differ between platforms in the last bits, and results must not.
pub(crate) fn rounded(value: f64) -> f64 {
    if value.is_finite() { format!("{value:.5e}").parse().unwrap_or(value) } else { value }
}

/// The frontier, the incumbent included where it is on it; what is worth most first.
pub(crate) fn frontier(field: &Field<'_>, found: &Answer, axes: Axes) -> Vec<FrontierMember> {
    let incumbent = field.judged(field.incumbent);
    let one = |i: usize| {
        let (runs, own) = (&field.groups[i], field.judged(i));
        let change = |of: fn(&Judged) -> f64| {
            if i == field.incumbent { 0.0 } else { rounded(libm::expm1(difference(&own, &incumbent, of))) }
        };
        let focus = &field.objective.focus;
        let known = |metric: Metric| Some(rounded(level(runs, |run| metric.of(run, focus)))).filter(|v| v.is_finite());
        FrontierMember {
            scheduler: field.rows[i].name(axes),
            focus_p99_us: known(Metric::FocusP99),
            focus_mean_us: known(Metric::FocusMean),
            focus_requests: median(runs.iter().map(|run| focus.pooled(run).samples as f64).collect()),
            throughput_mb_s: rounded(level(runs, |run| run.mb_per_s)),
            latency_change: change(|run| run.latency[0]),
            throughput_change: change(|run| run.rate),
        }
    };
    found.frontier(field.incumbent).into_iter().map(one).collect()
}
