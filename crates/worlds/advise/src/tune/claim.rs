//! Gain of a candidate: its comparison with the defaults, run by run, on seeds that the search has not seen.

use dumbwaiter_measure::{RunResult, Sample, paired, student_quantile};
use serde::Serialize;

use crate::figures::repeats_a_recording;
use crate::focus::Focus;
use crate::metric::{Metric, Unit};

/// Figures of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HeldOut {
    /// The seed.
    pub seed: u64,
    /// The figure with the defaults.
    pub defaults: f64,
    /// The figure with the candidate.
    pub tuned: f64,
}

/// By how much a candidate differs from the defaults in one figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// The figure, a [`Metric::key`].
    pub metric: String,
    /// Whose latency it is, if it is one: [`Focus::name`].
    pub focus: String,
    /// Whether a higher value is better.
    pub higher_is_better: bool,
    /// Mean with the defaults, in the metric's unit.
    pub defaults: f64,
    /// Mean with the candidate.
    pub tuned: f64,
    /// `ratio`: `change` is the geometric mean of tuned / defaults, less 1. `difference`: the mean of tuned - defaults.
    pub scale: &'static str,
    /// By how much it changes.
    pub change: f64,
    /// 95 % confidence interval of `change`, by Student's t over the pairs; `null` with fewer than two.
    pub ci95: Option<[f64; 2]>,
    /// Two-sided p value of the paired t test, of the logarithms where `scale` is `ratio`; `null` with fewer than two pairs.
    pub p: Option<f64>,
    /// The pairs.
    pub held_out: Vec<HeldOut>,
}

/// Smaller figures have no logarithm to speak of.
const TINY: f64 = 1e-6;

impl Claim {
    /// Compares runs by seed. A run that starved the focus counts with its longest wait, at least its length. A recorded load that
    /// is simulated again is the same run, and counts once.
    pub(crate) fn of(metric: Metric, focus: &Focus, defaults: &[&RunResult], tuned: &[&RunResult]) -> Claim {
        let value = |run: &RunResult| match metric.of(run, focus) {
            starved if starved.is_infinite() => {
                let second = if metric.unit() == Unit::Seconds { 1.0 } else { 1e6 };
                run.oldest_unfinished_s.max(run.duration_s) * second
            }
            value => value,
        };
        let pair = |run: &&RunResult| {
            let other = defaults.iter().find(|other| other.seed == run.seed)?;
            Some(HeldOut { seed: run.seed, defaults: value(other), tuned: value(run) })
        };
        let mut pairs: Vec<HeldOut> = tuned.iter().filter_map(pair).collect();
        if tuned.iter().all(|run| repeats_a_recording(run)) {
            pairs.truncate(1);
        }
        Claim::of_pairs(metric, focus, pairs)
    }

    /// Compares figures by seed. Pairs without a figure do not count.
    pub(crate) fn of_pairs(metric: Metric, focus: &Focus, mut held_out: Vec<HeldOut>) -> Claim {
        held_out.retain(|pair| pair.defaults.is_finite() && pair.tuned.is_finite());
        let scale = |value: f64| if metric.unit().by_ratio() { libm::log(value.max(TINY)) } else { value };
        let unscale = |value: f64| if metric.unit().by_ratio() { libm::expm1(value) } else { value };
        let (own, other): (Vec<f64>, Vec<f64>) =
            held_out.iter().map(|pair| (scale(pair.tuned), scale(pair.defaults))).unzip();
        let differences: Vec<f64> = own.iter().zip(&other).map(|(a, b)| a - b).collect();
        let sample = Sample::of(&differences);
        let several = sample.n > 1;
        let half = || student_quantile(0.975, sample.n as f64 - 1.0) * sample.stddev / (sample.n as f64).sqrt();
        let mean = |of: fn(&HeldOut) -> f64| Sample::of(&held_out.iter().map(of).collect::<Vec<_>>()).mean;
        Claim {
            metric: metric.key().to_owned(),
            focus: focus.name(),
            higher_is_better: metric.higher_is_better(),
            defaults: mean(|pair| pair.defaults),
            tuned: mean(|pair| pair.tuned),
            scale: if metric.unit().by_ratio() { "ratio" } else { "difference" },
            change: unscale(sample.mean),
            ci95: several.then(|| [unscale(sample.mean - half()), unscale(sample.mean + half())]),
            p: several.then(|| paired(&own, &other)),
            held_out,
        }
    }

    /// By how much the candidate is better, on the scale of [`Metric::useful`]; below 0 where it is worse.
    pub fn better_by(&self, metric: Metric) -> f64 {
        let better = if self.higher_is_better { self.change } else { -self.change };
        better / metric.unit().whole()
    }

    /// Whether the difference is more than chance; with a single pair that is unknown.
    pub fn is_significant(&self) -> bool {
        self.p.is_some_and(|p| p <= dumbwaiter_measure::SIGNIFICANCE)
    }
}
