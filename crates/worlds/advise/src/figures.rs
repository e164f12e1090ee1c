//! The figures of one scheduler's runs: which runs count, what is known of each, and how two schedulers compare.

use dumbwaiter_measure::{Difference, RunResult, SIGNIFICANCE, Sample, TestKind, compare, holm};

use crate::focus::Focus;
use crate::metric::Metric;
use crate::row::Estimate;

/// One metric in one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    pub(crate) seed: u64,
    /// Infinite where the run starved the requests whose latency or share counts, NaN where it is undefined.
    pub(crate) value: f64,
    /// It is the figure, and not just a lower bound.
    pub(crate) known: bool,
}

/// A p value by Holm's correction, and its test.
type Test = (f64, TestKind);

/// The runs of one scheduler that are independent of each other. Replicates of a recorded load are the same requests again,
/// and in a simulation they are one replicate; so are replicates with the same result, in which nothing was random.
pub fn independent<'a>(runs: &[&'a RunResult]) -> Vec<&'a RunResult> {
    let Some((first, others)) = runs.split_first() else { return Vec::new() };
    if runs.iter().all(|run| repeats_a_recording(run)) || others.iter().all(|run| same_result(first, run)) {
        vec![first]
    } else {
        runs.to_vec()
    }
}

/// Whether a replicate is the same load on the same model again: on a real device at least the device differs.
pub(crate) fn repeats_a_recording(run: &RunResult) -> bool {
    run.same_load && run.world == "sim"
}

/// Whether two runs did exactly the same.
fn same_result(a: &RunResult, b: &RunResult) -> bool {
    let counts = |r: &RunResult| [r.requests, r.completed, r.unfinished, r.errors, r.read.count, r.write.count];
    let figures = |r: &RunResult| {
        let l = &r.latency_us;
        [r.duration_s, r.mb_per_s, l.mean, l.stddev, l.max, r.phases_us.queue.mean, r.phases_us.device.mean]
            .map(f64::to_bits)
    };
    counts(a) == counts(b) && figures(a) == figures(b)
}

/// A metric in the runs of each group by seed, for a comparison run by run; of a recorded load that is simulated again only the
/// first. Equal results count each: they show that nothing in the load is random.
pub(crate) fn by_seed(metric: Metric, groups: &[Vec<&RunResult>], focus: &Focus) -> Vec<Vec<(u64, f64)>> {
    let once = |group: &Vec<&'_ RunResult>| {
        let recorded = group.iter().all(|run| repeats_a_recording(run));
        group[..if recorded { 1 } else { group.len() }].iter().map(|run| (run.seed, metric.of(run, focus))).collect()
    };
    groups.iter().map(once).collect()
}

/// A metric in the independent runs of each group. A run in which the focus got nothing, or in which there are no shares
/// because of that, is the worst possible if any other run has the figure.
pub(crate) fn figures(metric: Metric, groups: &[Vec<&RunResult>], focus: &Focus) -> Vec<Vec<Figure>> {
    let defined = groups.iter().flatten().any(|run| metric.of(run, focus).is_finite());
    let one = |run: &&RunResult| figure(metric, run, focus, defined);
    groups.iter().map(|group| independent(group).iter().map(one).collect()).collect()
}

/// `defined`: some run has the metric.
fn figure(metric: Metric, run: &RunResult, focus: &Focus, defined: bool) -> Figure {
    let value = metric.of(run, focus);
    let starved = defined && value.is_nan() && metric.is_worst_without_service(run, focus);
    let value = if starved { f64::INFINITY } else { value };
    Figure { seed: run.seed, value, known: value.is_finite() && metric.is_known(run, focus) }
}

/// Runs in which the figure is known.
fn known(figures: &[Figure]) -> usize {
    figures.iter().filter(|f| f.known).count()
}

fn starved(figures: &[Figure]) -> usize {
    figures.iter().filter(|f| f.value.is_infinite()).count()
}

fn sample(figures: &[Figure]) -> Sample {
    Sample::of(&figures.iter().map(|f| f.value).collect::<Vec<f64>>())
}

/// The mean; infinite where a run starved, NaN where none has the figure.
fn mean(figures: &[Figure]) -> f64 {
    if starved(figures) > 0 { f64::INFINITY } else { sample(figures).mean }
}

/// The p value of each scheduler's difference from the `reference`, by Holm's correction for all these tests together, and the
/// test. None for the reference itself and where no test is possible.
fn p_values(all: &[Vec<Figure>], reference: usize) -> Vec<Option<Test>> {
    let pairs = |figures: &[Figure]| figures.iter().map(|f| (f.seed, f.value)).collect::<Vec<_>>();
    let reference_pairs = pairs(&all[reference]);
    let tests: Vec<_> = all
        .iter()
        .enumerate()
        .map(|(i, own)| {
            let testable = i != reference && starved(own) == 0 && starved(&all[reference]) == 0;
            testable.then(|| compare(&pairs(own), &reference_pairs))
        })
        .collect();
    let p: Vec<f64> = tests.iter().map(|test| test.map_or(f64::NAN, |test| test.p)).collect();
    let adjusted = holm(&p);
    tests.iter().zip(adjusted).map(|(test, p)| test.filter(|_| !p.is_nan()).map(|test| (p, test.test))).collect()
}

/// How each scheduler compares with the `reference`, with the p value and its test.
fn differences(metric: Metric, all: &[Vec<Figure>], reference: usize) -> Vec<(Difference, Option<Test>)> {
    let best = &all[reference];
    let tests = p_values(all, reference);
    let one = |(i, test): (usize, Option<Test>)| {
        let (own_mean, best_mean) = (mean(&all[i]), mean(best));
        let difference = match test {
            _ if own_mean.is_nan() || !best_mean.is_finite() => Difference::Undefined,
            _ if i == reference => Difference::Best,
            _ if own_mean.is_infinite() => Difference::Worse,
            None => Difference::Untested,
            // Lower bounds that are no better may be much worse.
            Some((p, _)) if p > SIGNIFICANCE && known(&all[i]) < known(best) => Difference::Untested,
            Some((p, _)) if p > SIGNIFICANCE => Difference::Tie,
            _ if metric.better(own_mean, best_mean) => Difference::Better,
            _ => Difference::Worse,
        };
        (difference, test.filter(|_| difference != Difference::Untested))
    };
    tests.into_iter().enumerate().map(one).collect()
}

/// Index of the best: of those with the most known figures the one with the best mean, the first of equals; `None` if none
/// has a finite mean.
fn best(metric: Metric, all: &[Vec<Figure>]) -> Option<usize> {
    let finite = || (0..all.len()).filter(|i| mean(&all[*i]).is_finite());
    let most = finite().map(|i| known(&all[i])).max()?;
    let valid = finite().filter(|i| known(&all[*i]) == most);
    valid.reduce(|a, b| if metric.better(mean(&all[b]), mean(&all[a])) { b } else { a })
}

/// The estimates of one metric, one per scheduler.
pub(crate) fn estimates(metric: Metric, all: &[Vec<Figure>]) -> Vec<Estimate> {
    let differences = differences(metric, all, best(metric, all).unwrap_or(0));
    let one = |(figures, (difference, test)): (&Vec<Figure>, (Difference, Option<Test>))| {
        let mean = mean(figures);
        let at_least = figures.iter().any(|f| f.value.is_finite() && !f.known);
        let sample = sample(figures);
        let plain = || (sample.n > 1).then(|| [(mean - sample.ci95()).max(0.0), mean + sample.ci95()]);
        let interval = if metric.unit().is_part() { plain() } else { sample.interval95() };
        let interval = interval.filter(|_| mean.is_finite() && !at_least);
        Estimate {
            mean: mean.is_finite().then_some(mean),
            at_least,
            starved: starved(figures),
            ci95: interval.map(|[low, high]| [low, high.min(metric.unit().largest())]),
            n: known(figures),
            difference,
            p: test.map(|(p, _)| p),
            test: test.map(|(_, test)| test),
        }
    };
    all.iter().zip(differences).map(one).collect()
}
