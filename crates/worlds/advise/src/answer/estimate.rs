//! How much more an alternative is worth than the incumbent, with bounds.
//!
//! The differences of runs with the same seed have the median of their pairwise means as centre (Hodges and Lehmann 1963), and Student's t
//! as bounds. With few runs their variance is drawn to a prior. Neither the number of alternatives nor their names, order or
//! figures changes what is said of one of them.

use dumbwaiter_measure::{Sample, median, student_quantile};

use super::objective::Judged;

/// Bounds are for this many alternatives together, whatever their number: those that Linux has beside the one that is set.
const ALTERNATIVES: f64 = 3.0;
/// Degrees of freedom of the prior variance.
const PRIOR_FREEDOM: f64 = 2.0;
/// Standard deviation of a difference from which no load is free, and what each request adds.
const PRIOR_DEVIATION: f64 = 0.03;
const PER_REQUEST: f64 = 0.25;
/// Standard deviation of the difference of single runs, on a drive and in a simulation.
const SINGLE_ON_DRIVE: f64 = 0.12;
const SINGLE_SIMULATED: f64 = 0.10;
/// Efficiency of the centre, and the width of a histogram's steps.
const EFFICIENCY: f64 = 1.12;
const STEP: f64 = 0.005;
/// Differences larger than this are not told apart.
const LIMIT: f64 = 9.0;
/// Two that differ by less in latency, throughput and worth in every run do the same.
const SAME_FIGURE: f64 = 0.002;
const SAME_WORTH: f64 = 0.004;
/// Runs from which outliers are clipped.
const CLIP_FROM: usize = 5;

/// What the bounds of a comparison rest on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grounds {
    /// Probability that any bound is wrong.
    pub(crate) error: f64,
    /// Requests of the focus in a run.
    pub(crate) requests: f64,
    /// The runs are of a real drive.
    pub(crate) real: bool,
    /// The runs of each are one: a recorded load that is simulated again.
    pub(crate) one_run: bool,
    /// Standard deviation of what the model of the host does not know, as worth.
    pub(crate) host: f64,
}

/// An alternative beside the incumbent. Differences are of natural logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Against {
    /// How much more it is worth; 0.05 is worth as much as a latency that is 5 % lower.
    pub(crate) gain: f64,
    pub(crate) lo: f64,
    pub(crate) hi: f64,
    /// Standard error of the gain.
    pub(crate) error: f64,
    /// Differences that it rests on.
    pub(crate) n: usize,
    /// Change of latency and throughput.
    pub(crate) latency: f64,
    pub(crate) rate: f64,
    /// Both do the same in every run.
    pub(crate) same: bool,
    /// Of the alternative, and of the incumbent, only bounds are known in some run.
    pub(crate) bounded: [bool; 2],
    /// Width between the bounds without what unfinished requests add.
    pub(crate) width: f64,
}

/// Each seed once, in order.
fn distinct(runs: &[Judged], one: bool) -> Vec<Judged> {
    let mut found: Vec<Judged> = Vec::new();
    for run in runs {
        if !found.iter().any(|other| other.seed == run.seed) {
            found.push(*run);
        }
    }
    found.sort_by_key(|run| run.seed);
    found.truncate(if one { 1 } else { usize::MAX });
    found
}

/// The median of the means of all pairs, each value with itself too.
fn centre(values: &[f64]) -> f64 {
    let means = (0..values.len()).flat_map(|i| (i..values.len()).map(move |j| (i, j)));
    median(means.map(|(i, j)| f64::midpoint(values[i], values[j])).collect())
}

/// A difference within the limits; `unknown` where both are infinite.
fn limited(difference: f64, unknown: f64) -> f64 {
    if difference.is_nan() { unknown } else { difference.clamp(-LIMIT, LIMIT) }
}

/// Values more than three deviations from the median are drawn in, where there are enough to tell, and few of them: more than a fifth
/// are no outliers.
fn clipped(mut values: Vec<f64>) -> Vec<f64> {
    if values.len() >= CLIP_FROM {
        let middle = median(values.clone());
        let deviation = median(values.iter().map(|v| (v - middle).abs()).collect());
        let most = 3.0 * 1.483 * deviation;
        if 5 * values.iter().filter(|v| (*v - middle).abs() > most).count() > values.len() {
            return values;
        }
        values.iter_mut().for_each(|v| *v = v.clamp(middle - most, middle + most));
    }
    values
}

struct Spread {
    centre: f64,
    error: f64,
    freedom: f64,
}

fn paired(values: Vec<f64>, grounds: &Grounds) -> Spread {
    let values = clipped(values);
    let n = values.len() as f64;
    let prior = if values.len() == 1 {
        let single = if grounds.real { SINGLE_ON_DRIVE } else { SINGLE_SIMULATED };
        single * single
    } else {
        PRIOR_DEVIATION * PRIOR_DEVIATION + PER_REQUEST / grounds.requests.max(1.0)
    };
    let sample = Sample::of(&values);
    let (variance, freedom) = drawn(prior, sample.stddev * sample.stddev, n);
    Spread { centre: centre(&values), error: (EFFICIENCY * variance / n + STEP * STEP).sqrt(), freedom }
}

/// The variance of `n` differences, drawn to the prior as far as that does not contradict them, and its degrees of freedom.
///
/// Where the differences scatter much more than the prior says, it has no say: else bounds at three runs would be too narrow by
/// half.
fn drawn(prior: f64, own: f64, n: f64) -> (f64, f64) {
    let weight = PRIOR_FREEDOM * prior / (prior + own);
    let freedom = weight + n - 1.0;
    ((weight * prior + (n - 1.0) * own) / freedom, freedom)
}

/// Runs of other seeds: all differences, and Welch's variance.
fn unpaired(own: &[f64], other: &[f64], grounds: &Grounds) -> Spread {
    let all = own.iter().flat_map(|a| other.iter().map(move |b| limited(a - b, 0.0)));
    let prior = PRIOR_DEVIATION * PRIOR_DEVIATION + PER_REQUEST / grounds.requests.max(1.0);
    let n = own.len().min(other.len()) as f64;
    let of = |values: &[f64]| {
        let within: Vec<f64> = values.iter().map(|v| v.clamp(-1e3, 1e3)).collect();
        let sample = Sample::of(&within);
        sample.stddev * sample.stddev / within.len() as f64
    };
    let (variance, freedom) = drawn(prior, n * (of(own) + of(other)), n);
    Spread { centre: median(all.collect()), error: (EFFICIENCY * variance / n + STEP * STEP).sqrt(), freedom }
}

/// Compares the runs of an alternative with the incumbent's; `None` where either has none.
pub(crate) fn against(own: &[Judged], incumbent: &[Judged], grounds: &Grounds) -> Option<Against> {
    let (own, other) = (distinct(own, grounds.one_run), distinct(incumbent, grounds.one_run));
    let pairs: Vec<(Judged, Judged)> =
        own.iter().filter_map(|a| Some((*a, *other.iter().find(|b| b.seed == a.seed)?))).collect();
    let is_paired = pairs.len() >= 2 || pairs.len() == 1 && (own.len() == 1 || other.len() == 1);
    if own.is_empty() || other.is_empty() {
        return None;
    }
    let spread = |of: fn(&Judged) -> f64, from: fn(&Judged) -> f64, unknown: f64| {
        if is_paired {
            paired(pairs.iter().map(|(a, b)| limited(of(a) - from(b), unknown)).collect(), grounds)
        } else {
            unpaired(&own.iter().map(of).collect::<Vec<_>>(), &other.iter().map(from).collect::<Vec<_>>(), grounds)
        }
    };
    let best: fn(&Judged) -> f64 = |run| run.utility[0];
    let worst: fn(&Judged) -> f64 = |run| run.utility[1];
    let (as_seen, low, high) = (spread(best, best, 0.0), spread(worst, best, -LIMIT), spread(best, worst, LIMIT));
    let quantile = |of: &Spread| student_quantile(1.0 - grounds.error / ALTERNATIVES, of.freedom);
    let t = quantile(&as_seen);
    // They differ only where requests were unfinished, and the quantile costs more than all the rest.
    let half = |of: &Spread| if of.freedom == as_seen.freedom { t * of.error } else { quantile(of) * of.error };
    let n = if is_paired { pairs.len() } else { own.len().min(other.len()) };
    let alike = |a: &Judged, b: &Judged| {
        (a.latency[0] - b.latency[0]).abs() < SAME_FIGURE
            && (a.rate - b.rate).abs() < SAME_FIGURE
            && (a.utility[0] - b.utility[0]).abs() < SAME_WORTH
    };
    let bounded = |runs: &[Judged]| runs.iter().any(|run| run.latency[1] > run.latency[0]);
    let known_to_repeat = grounds.one_run || pairs.len() >= 2;
    let same = is_paired && known_to_repeat && pairs.iter().all(|(a, b)| alike(a, b));
    // What the host's own time may hide counts against a change alone.
    let low_error = low.error.hypot(grounds.host);
    let mut found = Against {
        gain: as_seen.centre,
        lo: (low.centre - half(&Spread { error: low_error, ..low })).max(-LIMIT),
        hi: (high.centre + half(&high)).min(LIMIT),
        error: as_seen.error,
        n,
        latency: spread(|run| run.latency[0], |run| run.latency[0], 0.0).centre,
        rate: spread(|run| run.rate, |run| run.rate, 0.0).centre,
        same,
        bounded: [bounded(&own), bounded(&other)],
        width: 2.0 * half(&as_seen),
    };
    if same {
        (found.lo, found.hi) = (found.gain.min(0.0), found.gain.max(0.0));
    }
    Some(found)
}
