//! What a run is worth: latency, throughput, shares and frames on one scale, at their best and at their worst.

use dumbwaiter_measure::{Latency, RunResult, StartUpStats, median};

use super::rates::Rates;
use crate::focus::Focus;
use crate::metric::Metric;

/// Requests of the focus in a run from which the tail weighs as much as the mean, and those from which a p99 decides alone in the tail:
/// ten of a run lie beyond the percentile.
const TAIL_FROM: f64 = 200.0;
const P99_FROM: f64 = 1000.0;
/// Share error, and percent of dropped frames, that cost as much as a doubling of the latency.
const SHARE_UNIT: f64 = 0.10;
const FRAMES_UNIT: f64 = 10.0;
/// The tenant of what the system itself does.
const ROOT: &str = "/";
/// Smaller throughputs have no logarithm to speak of: one request in the measured time.
const REQUEST_MB: f64 = 4096.0 / 1e6;

/// The parts of mean, p95 and p99 in the latency that decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Blend {
    pub(crate) mean: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
}

impl Blend {
    /// For this many requests in a run: continuous, so that no count is a threshold.
    pub(crate) fn of(requests: f64) -> Blend {
        let tail = 0.5 * (requests / TAIL_FROM).min(1.0);
        let far = (libm::log(requests.max(1.0) / TAIL_FROM) / libm::log(P99_FROM / TAIL_FROM)).clamp(0.0, 1.0);
        Blend { mean: 1.0 - tail, p95: tail * (1.0 - far), p99: tail * far }
    }

    fn ln(&self, mean: f64, p95: f64, p99: f64) -> f64 {
        let part = |weight: f64, value: f64| if weight > 0.0 { weight * libm::log(value.max(1e-3)) } else { 0.0 };
        part(self.mean, mean) + part(self.p95, p95) + part(self.p99, p99)
    }
}

/// What decides, by the goal and the incumbent's runs alone: adding a scheduler changes nothing of it.
#[derive(Clone, Debug)]
pub(crate) struct Objective {
    pub(crate) rates: Rates,
    pub(crate) focus: Focus,
    pub(crate) blend: Blend,
    /// Requests of the focus in the median run of the incumbent.
    pub(crate) requests: f64,
    /// The focus has requests.
    pub(crate) waits: bool,
    /// Applications start.
    pub(crate) launches: bool,
    /// Players play.
    pub(crate) plays: bool,
    /// Somebody set weights that differ.
    pub(crate) shares: bool,
}

/// One run: natural logarithms of its figures, and what it is worth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    pub(crate) seed: u64,
    /// ln of the latency that decides, us: as reported, and with unfinished requests waiting for the whole run.
    pub(crate) latency: [f64; 2],
    /// ln of the throughput, MB/s.
    pub(crate) rate: f64,
    /// What it is worth at its best and at its worst.
    pub(crate) utility: [f64; 2],
}

impl Objective {
    pub(crate) fn of(rates: Rates, incumbent: &[&RunResult]) -> Objective {
        let focus = Focus::of(incumbent);
        let requests = median(incumbent.iter().map(|run| focus.pooled(run).samples as f64).collect());
        let requests = if requests.is_finite() { requests } else { 0.0 };
        let waits = incumbent.iter().any(|run| {
            let latency = focus.pooled(run);
            latency.samples + latency.unfinished > 0
        });
        let weights_differ = |run: &&RunResult| {
            // Nobody set the weight of what writeback does for no group of its own.
            let of_groups = run.tenants.iter().filter(|tenant| tenant.name != ROOT);
            let mut due = of_groups.map(|tenant| tenant.weight);
            due.next().is_some_and(|first| due.any(|weight| weight != first))
        };
        let shares =
            incumbent.iter().any(weights_differ) && incumbent.iter().any(|run| run.fairness.share_error.is_finite());
        Objective {
            rates,
            blend: Blend::of(requests),
            requests,
            waits,
            launches: incumbent.iter().any(|run| starts(run).any(|of| of.count > 0)),
            plays: incumbent.iter().any(|run| Metric::DroppedFrames.of(run, &focus).is_finite()),
            shares,
            focus,
        }
    }

    /// Whether somebody marked whose latency counts, beside applications.
    fn focus_is_marked(&self, run: &RunResult) -> bool {
        run.focus_tasks.is_some() || run.tenants.iter().any(|tenant| tenant.focus)
    }

    /// ln of the latency that decides, us, at its best and at its worst.
    fn latency(&self, run: &RunResult) -> [f64; 2] {
        let of_focus = || self.of_focus(&self.focus.pooled(run), run.duration_s * 1e6);
        match (self.launches, self.waits) {
            (true, true) if self.focus_is_marked(run) => {
                let (start, wait) = (start_up(run), of_focus());
                [0.5 * (start[0] + wait[0]), 0.5 * (start[1] + wait[1])]
            }
            (true, _) => start_up(run),
            (false, true) => of_focus(),
            (false, false) => [0.0; 2],
        }
    }

    fn of_focus(&self, latency: &Latency, window_us: f64) -> [f64; 2] {
        if latency.samples == 0 {
            return [libm::log(window_us), f64::INFINITY];
        }
        let best = self.blend.ln(latency.mean, latency.p95, latency.p99);
        let unknown = if latency.known_to.is_finite() { 1.0 - latency.known_to } else { 0.0 };
        if unknown <= 0.0 {
            return [best; 2];
        }
        let tail = |quantile: f64, value: f64| if latency.is_known(quantile) { value } else { value.max(window_us) };
        let mean = latency.mean + unknown * window_us;
        [best, self.blend.ln(mean, tail(0.95, latency.p95), tail(0.99, latency.p99)).max(best)]
    }

    /// Judges a run.
    pub(crate) fn judged(&self, run: &RunResult) -> Judged {
        let least = REQUEST_MB / run.duration_s.max(1e-3);
        let rate = libm::log(run.mb_per_s.max(least));
        let latency = self.latency(run);
        let Rates { latency: a, throughput: b, shares: c } = self.rates;
        let error = run.fairness.share_error;
        let error = if error.is_finite() { error } else { 1.0 };
        let dropped = Metric::DroppedFrames.of(run, &self.focus);
        let dropped = if dropped.is_finite() { dropped } else { 100.0 };
        let mut others = b * rate;
        others -= if self.shares { c * libm::log1p(error / SHARE_UNIT) } else { 0.0 };
        others -= if self.plays { a * libm::log1p(dropped / FRAMES_UNIT) } else { 0.0 };
        let a = if self.has_latency() { a } else { 0.0 };
        let utility = |latency: f64| if a == 0.0 { others } else { others - a * latency };
        Judged { seed: run.seed, latency, rate, utility: latency.map(utility) }
    }

    /// Whether anybody waits.
    pub(crate) fn has_latency(&self) -> bool {
        self.launches || self.waits
    }

    /// The figure that a reader should look at first.
    pub(crate) fn primary(&self, goal: crate::Goal) -> Metric {
        match goal {
            crate::Goal::Throughput => Metric::MbPerS,
            crate::Goal::Fairness if self.shares => Metric::ShareError,
            _ if self.launches => Metric::StartUp,
            _ if self.plays => Metric::DroppedFrames,
            _ if self.waits => self.shown(),
            _ => Metric::MbPerS,
        }
    }

    /// The latency of the focus that is shown with its levels: a p99 where enough requests lie beyond it.
    pub(crate) fn shown(&self) -> Metric {
        if self.requests >= P99_FROM { Metric::FocusP99 } else { Metric::FocusMean }
    }
}

fn starts(run: &RunResult) -> impl Iterator<Item = &StartUpStats> {
    run.applications.iter().filter_map(|application| application.start_up.as_ref())
}

/// ln of the start-up time of the slowest application, us, at its best and at its worst.
fn start_up(run: &RunResult) -> [f64; 2] {
    let window = run.duration_s;
    let mut slowest = [f64::NEG_INFINITY; 2];
    let mut launched = false;
    for of in starts(run).filter(|of| of.count > 0) {
        launched = true;
        let mean = of.mean_s;
        let one = match () {
            () if of.started == 0 => [window, f64::INFINITY],
            () if of.at_least => {
                let left = (of.count - of.started) as f64 / of.count as f64;
                [mean, mean + left * window]
            }
            () => [mean; 2],
        };
        let ln = one.map(|seconds| libm::log((seconds * 1e6).max(1.0)));
        slowest = [slowest[0].max(ln[0]), slowest[1].max(ln[1])];
    }
    // Nothing was launched although the incumbent's runs had launches: as if it never started.
    if launched { slowest } else { [libm::log(window * 1e6), f64::INFINITY] }
}
