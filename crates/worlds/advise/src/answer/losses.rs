//! What a change costs: figures that get worse by more than chance.

use dumbwaiter_measure::{RunResult, Sample, student_quantile};
use serde::{Deserialize, Serialize};

/// A loss is told from here, as a fraction.
const TOLD_FROM: f64 = 0.05;

/// A figure that gets worse.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Losing {
    /// The figure: `throughput`, `throughput of backup`, `mean latency of backup`.
    pub what: String,
    /// Its key: `mb_per_s` or `latency_mean_us`.
    pub metric: String,
    /// The tenant; `null`: all together.
    pub tenant: Option<String>,
    /// Geometric mean with what is set, and with what is recommended.
    pub now: f64,
    /// With what is recommended.
    pub then: f64,
    /// `then` / `now` - 1.
    pub change: f64,
}

/// Figures of `own` that are worse than those of `incumbent` by over 5 %, and not by chance: throughput, and throughput and mean latency
/// of each tenant.
pub(crate) fn losses(own: &[&RunResult], incumbent: &[&RunResult]) -> Vec<Losing> {
    let mut found = Vec::new();
    found.extend(losing(own, incumbent, ("throughput", "mb_per_s", None), true, |run| Some(run.mb_per_s)));
    let tenants: &[_] = incumbent.first().map_or(&[], |run| &run.tenants);
    for tenant in tenants.iter().filter(|_| tenants.len() > 1) {
        let of = |run: &RunResult| run.tenants.iter().find(|other| other.name == tenant.name).cloned();
        let name = Some(tenant.name.as_str());
        found.extend(losing(own, incumbent, ("throughput", "mb_per_s", name), true, |run| Some(of(run)?.mb_per_s)));
        found.extend(losing(own, incumbent, ("mean latency", "latency_mean_us", name), false, |run| {
            Some(of(run)?.latency_us.mean)
        }));
    }
    found
}

fn losing(
    own: &[&RunResult],
    incumbent: &[&RunResult],
    (what, metric, tenant): (&str, &str, Option<&str>),
    higher_is_better: bool,
    of: impl Fn(&RunResult) -> Option<f64>,
) -> Option<Losing> {
    let ln = |run: &RunResult| Some(libm::log(of(run)?.max(1e-6))).filter(|value| value.is_finite());
    let pairs: Vec<(f64, f64)> = own
        .iter()
        .filter_map(|run| Some((ln(run)?, ln(incumbent.iter().find(|other| other.seed == run.seed)?)?)))
        .collect();
    let sign = if higher_is_better { -1.0 } else { 1.0 };
    let worse: Vec<f64> = pairs.iter().map(|(then, now)| sign * (then - now)).collect();
    let sample = Sample::of(&worse);
    if sample.n == 0 {
        return None;
    }
    let n = sample.n as f64;
    let half = if sample.n > 1 { student_quantile(0.95, n - 1.0) * sample.stddev / n.sqrt() } else { 0.0 };
    if sample.mean < libm::log1p(TOLD_FROM) || sample.mean - half <= 0.0 {
        return None;
    }
    let level = |part: fn(&(f64, f64)) -> f64| super::rounded(libm::exp(pairs.iter().map(part).sum::<f64>() / n));
    let (now, then) = (level(|pair| pair.1), level(|pair| pair.0));
    let name = tenant.map_or(what.to_owned(), |tenant| format!("{what} of {tenant}"));
    let change = super::rounded(libm::expm1(sign * sample.mean));
    Some(Losing { what: name, metric: metric.to_owned(), tenant: tenant.map(str::to_owned), now, then, change })
}

impl Losing {
    /// `throughput -85 % (47.2 to 7.20 MB/s)`.
    pub fn text(&self) -> String {
        let metric = crate::Metric::of_key(&self.metric).unwrap_or(crate::Metric::MbPerS);
        let change = super::change_text(1.0 + self.change);
        format!("{} {change} ({} to {})", self.what, metric.shown(self.now), metric.shown(self.then))
    }
}
