//! Schedulers side by side on one device.

use crate::criterion::{Focus, Goal, Metric};
use crate::recommend::{Recommendation, recommend};
use dumbwaiter_measure::RunResult;
use dumbwaiter_measure::{SIGNIFICANCE, Sample, TestKind, Verdict, compare};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Means nearer than this are the same for all practical purposes.
const SAME: f64 = 0.02;
/// A tie that tests cannot tell apart still has to be this near to count as equally good.
const NEAR: f64 = 0.10;

/// One figure of one scheduler over its replicates.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// Mean; `null` where no run has the figure.
    pub mean: Option<f64>,
    /// Half width of the 95 % confidence interval; `null` for a single run.
    pub ci95: Option<f64>,
    /// Runs that have the figure.
    pub n: usize,
    /// Against the best scheduler by this figure.
    pub verdict: Verdict,
    /// p value of the difference to the best; `null` for the best itself and where it was not tested.
    pub p: Option<f64>,
    /// The test that gave it.
    pub test: Option<TestKind>,
}

impl Cell {
    /// The mean, NaN where there is none.
    pub fn value(&self) -> f64 {
        self.mean.unwrap_or(f64::NAN)
    }
}

/// One scheduler in a ranking.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name of the device.
    pub device: String,
    /// What else is varied.
    pub variant: String,
    /// 1 is the recommended one.
    pub rank: usize,
    /// Name of the scheduler.
    pub scheduler: String,
    /// How completions were found.
    #[serde(default)]
    pub completion: String,
    /// Whose block layer scheduled.
    #[serde(default)]
    pub via: String,
    /// Its runs.
    pub replicates: usize,
    /// Does it keep the part of the best throughput that the goal asks for?
    pub keeps_throughput: bool,
    /// Against the recommended one, by the goal's figure.
    pub verdict: Verdict,
    /// Figures by [`Metric::key`].
    pub metrics: BTreeMap<String, Cell>,
}

impl Row {
    /// The scheduler's name, with what `several` says that there are several of.
    pub fn name(&self, several: Several) -> String {
        several.name(&self.scheduler, &self.via, &self.completion)
    }

    /// Mean of a figure; NaN where there is none.
    pub fn mean(&self, metric: Metric) -> f64 {
        self.metrics.get(metric.key()).map_or(f64::NAN, Cell::value)
    }
}

/// All schedulers on one device, best first.
#[derive(Clone, Debug)]
pub struct Ranking {
    /// Name of the device.
    pub device: String,
    /// What else is varied.
    pub variant: String,
    /// What was asked for.
    pub goal: Goal,
    /// The figure that decided: the goal's, or that of `balanced` where the goal's is undefined.
    pub metric: Metric,
    /// Whose latency counted.
    pub focus: Focus,
    /// The schedulers, the recommended one first.
    pub rows: Vec<Row>,
    /// In words.
    pub recommendation: Recommendation,
}

impl Ranking {
    /// What is compared beside schedulers.
    pub fn several(&self) -> Several {
        several(&self.rows)
    }
}

/// What is compared beside schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Several {
    /// Several block layers: the engine's and the kernel's.
    pub vias: bool,
    /// Several completion methods.
    pub completions: bool,
}

impl Several {
    /// Looks at every pair of whose block layer scheduled and how completions were found.
    pub fn of<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Several {
        let Some((via, completion)) = pairs.clone().next() else { return Several { vias: false, completions: false } };
        Several { vias: pairs.clone().any(|p| p.0 != via), completions: pairs.clone().any(|p| p.1 != completion) }
    }

    /// A scheduler's name, with what there is several of.
    pub fn name(self, scheduler: &str, via: &str, completion: &str) -> String {
        let mut name = scheduler.to_string();
        for (_, part) in [(self.vias, via), (self.completions, completion)].iter().filter(|(told, _)| *told) {
            name += ", ";
            name += part;
        }
        name
    }
}

pub(crate) fn several(rows: &[Row]) -> Several {
    Several::of(rows.iter().map(|r| (r.via.as_str(), r.completion.as_str())))
}

/// Ranks schedulers (with each block layer and completion method), per device and variant in order of appearance. Runs may come in any order; the
/// outcome depends on that only where everything else is equal.
///
/// The recommended scheduler is found in steps: those that keep [`Goal::throughput_floor`] of the
/// best throughput; of these the best by [`Goal::metric`], and whoever ties with it (within 2 %, or
/// within 10 % and p > 0.05); of these whoever moves most (within 2 %); of these whoever has the lowest
/// p99 of the focus (within 10 %); of these whoever needs least processor time (within 5 %); of these
/// the best by the goal's figure.
pub fn rank(runs: &[RunResult], goal: Goal) -> Vec<Ranking> {
    let mut groups: Vec<(&str, &str, Vec<&RunResult>)> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|(d, v, _)| *d == run.device && *v == run.variant) {
            Some((_, _, group)) => group.push(run),
            None => groups.push((&run.device, &run.variant, vec![run])),
        }
    }
    groups.iter().map(|(_, _, group)| rank_group(group, goal)).collect()
}

fn rank_group(runs: &[&RunResult], goal: Goal) -> Ranking {
    let focus = Focus::of(runs);
    let mut by_scheduler: Vec<(&RunResult, Vec<&RunResult>)> = Vec::new();
    for run in runs {
        match by_scheduler.iter_mut().find(|(s, _)| s.way() == run.way()) {
            Some((_, group)) => group.push(run),
            None => by_scheduler.push((run, vec![run])),
        }
    }
    let mut rows: Vec<Row> = by_scheduler
        .iter()
        .map(|(first, group)| Row {
            device: runs[0].device.clone(),
            variant: runs[0].variant.clone(),
            rank: 0,
            scheduler: first.scheduler.clone(),
            completion: first.completion.clone(),
            via: first.via.clone(),
            replicates: group.len(),
            keeps_throughput: true,
            verdict: Verdict::Undefined,
            metrics: BTreeMap::new(),
        })
        .collect();
    for metric in Metric::ALL {
        let samples: Vec<Vec<(u64, f64)>> = by_scheduler
            .iter()
            .map(|(_, group)| group.iter().map(|run| (run.seed, metric.of(run, &focus))).collect())
            .collect();
        for (row, cell) in rows.iter_mut().zip(cells(metric, &samples)) {
            row.metrics.insert(metric.key().to_string(), cell);
        }
    }

    let most = rows.iter().map(|r| r.mean(Metric::MbPerS)).fold(0.0, f64::max);
    for row in &mut rows {
        row.keeps_throughput = row.mean(Metric::MbPerS) >= goal.throughput_floor() * most;
    }
    let defined = |metric: Metric| rows.iter().any(|r| r.keeps_throughput && !r.mean(metric).is_nan());
    let metric = if defined(goal.metric()) { goal.metric() } else { Goal::Balanced.metric() };
    let samples: Vec<Vec<(u64, f64)>> = by_scheduler
        .iter()
        .map(|(_, group)| group.iter().map(|run| (run.seed, metric.of(run, &focus))).collect())
        .collect();
    let winner = choose(&rows, metric, &samples);
    for (i, row) in rows.iter_mut().enumerate() {
        row.verdict = verdict(metric, &samples[i], &samples[winner], i == winner).0;
    }

    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|&a, &b| {
        let key = |i: usize| (i != winner, !rows[i].keeps_throughput);
        let (x, y) = (rows[a].mean(metric), rows[b].mean(metric));
        let by_figure = match (metric.better(x, y), metric.better(y, x)) {
            (true, _) => std::cmp::Ordering::Less,
            (_, true) => std::cmp::Ordering::Greater,
            _ => std::cmp::Ordering::Equal,
        };
        key(a).cmp(&key(b)).then(by_figure).then(a.cmp(&b))
    });
    let mut ranked: Vec<Row> = order.iter().map(|&i| rows[i].clone()).collect();
    for (i, row) in ranked.iter_mut().enumerate() {
        row.rank = i + 1;
    }
    let recommendation = recommend(&ranked, goal, metric, &focus, runs);
    Ranking {
        device: runs[0].device.clone(),
        variant: runs[0].variant.clone(),
        goal,
        metric,
        focus,
        rows: ranked,
        recommendation,
    }
}

/// The cells of one figure, one per scheduler.
fn cells(metric: Metric, samples: &[Vec<(u64, f64)>]) -> Vec<Cell> {
    let stats: Vec<Sample> = samples.iter().map(|s| sample(s)).collect();
    let best = best_of(metric, stats.iter().map(|s| s.mean)).unwrap_or(0);
    let known = |v: f64| v.is_finite().then_some(v);
    let one = |i: usize| {
        let (verdict, p, test) = verdict(metric, &samples[i], &samples[best], i == best);
        let s = stats[i];
        Cell { mean: known(s.mean), ci95: known(s.ci95()), n: s.n, verdict, p: p.and_then(known), test }
    };
    (0..samples.len()).map(one).collect()
}

fn sample(values: &[(u64, f64)]) -> Sample {
    Sample::of(&values.iter().map(|v| v.1).collect::<Vec<f64>>())
}

/// The first of the best values; none if all are NaN.
fn best_of(metric: Metric, values: impl Iterator<Item = f64>) -> Option<usize> {
    let defined = values.enumerate().filter(|(_, v)| !v.is_nan());
    defined.reduce(|a, b| if metric.better(b.1, a.1) { b } else { a }).map(|(i, _)| i)
}

fn verdict(
    metric: Metric,
    of: &[(u64, f64)],
    reference: &[(u64, f64)],
    is_reference: bool,
) -> (Verdict, Option<f64>, Option<TestKind>) {
    let (a, b) = (sample(of), sample(reference));
    if a.n == 0 || b.n == 0 {
        return (Verdict::Undefined, None, None);
    }
    if is_reference {
        return (Verdict::Best, None, None);
    }
    let comparison = compare(of, reference);
    let verdict = match comparison.p {
        p if p.is_nan() => Verdict::Untested,
        p if p > SIGNIFICANCE => Verdict::Tie,
        _ if metric.better(a.mean, b.mean) => Verdict::Better,
        _ => Verdict::Worse,
    };
    let tested = !comparison.p.is_nan();
    (verdict, tested.then_some(comparison.p), tested.then_some(comparison.test))
}

/// Index of the scheduler to recommend: see [`rank`].
fn choose(rows: &[Row], metric: Metric, samples: &[Vec<(u64, f64)>]) -> usize {
    let mut left: Vec<usize> = (0..rows.len()).filter(|i| rows[*i].keeps_throughput).collect();
    let best_among =
        |left: &[usize], metric: Metric| best_of(metric, left.iter().map(|&i| rows[i].mean(metric))).map(|at| left[at]);
    let Some(best) = best_among(&left, metric) else { return 0 };
    let within = |i: usize, of: usize, metric: Metric, margin: f64| {
        let (a, b) = (rows[i].mean(metric), rows[of].mean(metric));
        (a - b).abs() <= margin * b.abs()
    };
    left.retain(|&i| {
        let tied = || compare(&samples[i], &samples[best]).p > SIGNIFICANCE;
        within(i, best, metric, SAME) || (within(i, best, metric, NEAR) && tied())
    });
    for (metric, margin) in [(Metric::MbPerS, SAME), (Metric::FocusP99, NEAR), (Metric::CpuUsPerIo, 0.05)] {
        if let Some(most) = best_among(&left, metric) {
            left.retain(|&i| within(i, most, metric, margin));
        }
    }
    best_among(&left, metric).unwrap_or(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dumbwaiter_block::{Nanos, Op, TaskId, TenantId};
    use dumbwaiter_measure::Completed;
    use dumbwaiter_measure::{CpuFacts, Recorder, RecorderConfig, RunFacts};

    /// A run of 2000 reads of 1 MB, each `latency_us` long, in `run_s`.
    fn run(scheduler: &str, seed: u64, latency_us: u64, run_s: u64, cpu_us: u64) -> RunResult {
        let config =
            RecorderConfig { warmup: Nanos::ZERO, interval: Nanos::from_secs(1), tenants: vec![], tasks: vec![] };
        let mut r = Recorder::new(config);
        for i in 0..2000 {
            let submit = Nanos::from_us(i * 10);
            let complete = submit + Nanos::from_us(latency_us + seed % 3);
            r.record(&Completed {
                op: Op::Read,
                task: TaskId(0),
                tenant: TenantId(0),
                bytes: 1_000_000,
                submit,
                insert: submit,
                issue: submit,
                device_done: complete,
                complete,
            });
        }
        let cpu = CpuFacts { busy: vec![Nanos::from_us(cpu_us * 2000)], ..CpuFacts::default() };
        let facts = RunFacts { device: "d".into(), scheduler: scheduler.into(), seed, cpu, ..RunFacts::default() };
        r.finish(Nanos::from_secs(run_s), facts)
    }

    fn runs(of: &[(&str, u64, u64, u64)], seeds: u64) -> Vec<RunResult> {
        let one = |(name, latency, s, cpu): &(&str, u64, u64, u64)| {
            (0..seeds).map(|seed| run(name, seed, *latency + 7 * (seed % 2), *s, *cpu)).collect::<Vec<_>>()
        };
        of.iter().flat_map(one).collect()
    }

    fn winner(runs: &[RunResult], goal: Goal) -> String {
        rank(runs, goal)[0].recommendation.scheduler.clone()
    }

    #[test]
    fn each_goal_prefers_what_it_says() {
        // 200, 200, 111 and 40 MB/s; p99 of 9, 5, 1 and 0.5 ms.
        let r = runs(&[("fast", 9000, 10, 5), ("mixed", 5000, 10, 5), ("quick", 1000, 18, 5), ("idle", 500, 50, 5)], 3);
        assert_eq!(winner(&r, Goal::Balanced), "mixed");
        assert_eq!(winner(&r, Goal::Latency), "quick");
        assert_eq!(winner(&r, Goal::Throughput), "mixed", "of two that move as much, the quicker");
        assert_eq!(winner(&r, Goal::Fairness), "mixed", "one tenant: falls back");
        let balanced = &rank(&r, Goal::Balanced)[0];
        let names: Vec<&str> = balanced.rows.iter().map(|r| r.scheduler.as_str()).collect();
        assert_eq!(names, ["mixed", "fast", "idle", "quick"]);
        assert!(balanced.recommendation.caveats[0].contains("idle reaches"), "{:?}", balanced.recommendation);
    }

    #[test]
    fn where_nothing_was_done_nothing_is_recommended() {
        let idle = |scheduler: &str| {
            let config =
                RecorderConfig { warmup: Nanos::ZERO, interval: Nanos::from_secs(1), tenants: vec![], tasks: vec![] };
            let facts = RunFacts { device: "d".into(), scheduler: scheduler.into(), ..RunFacts::default() };
            Recorder::new(config).finish(Nanos::from_secs(1), facts)
        };
        let said = &rank(&[idle("a"), idle("b")], Goal::Balanced)[0].recommendation.sentence;
        assert!(said.contains("no I/O was done") && !said.contains("use"), "{said}");
    }

    #[test]
    fn of_equals_the_cheaper_one_wins() {
        let r = runs(&[("dear", 5000, 10, 9), ("cheap", 5010, 10, 3)], 3);
        let ranking = &rank(&r, Goal::Balanced)[0];
        assert_eq!(ranking.recommendation.scheduler, "cheap");
        assert_eq!(ranking.rows[1].scheduler, "dear");
    }

    #[test]
    fn noise_is_a_tie_and_one_run_is_untested() {
        let mut r = runs(&[("a", 5000, 10, 5)], 3);
        r.extend([(0, 5900), (1, 4300), (2, 5100)].map(|(seed, us)| run("b", seed, us, 10, 5)));
        let cell = |r: &[RunResult], name: &str| {
            let ranking = &rank(r, Goal::Balanced)[0];
            ranking.rows.iter().find(|row| row.scheduler == name).unwrap().metrics["focus_p99_us"].clone()
        };
        assert_eq!(cell(&r, "b").verdict, Verdict::Tie);
        assert_eq!(cell(&r, "b").test, Some(TestKind::PairedT));
        assert_eq!(cell(&r, "a").verdict, Verdict::Best);
        let single = runs(&[("a", 5000, 10, 5), ("b", 6000, 10, 5)], 1);
        assert_eq!(cell(&single, "b").verdict, Verdict::Untested);
        assert!(cell(&single, "b").p.is_none() && cell(&single, "b").ci95.is_none());
    }

    #[test]
    fn clear_differences_are_worse() {
        let r = runs(&[("a", 5000, 10, 5), ("b", 9000, 10, 5)], 3);
        let ranking = &rank(&r, Goal::Balanced)[0];
        assert_eq!(ranking.rows[1].verdict, Verdict::Worse);
        assert!(ranking.rows[1].metrics["focus_p99_us"].p.unwrap() < 0.05);
    }

    #[test]
    fn devices_are_ranked_apart_and_nothing_is_ranked_as_nothing() {
        let mut r = runs(&[("a", 5000, 10, 5), ("b", 9000, 10, 5)], 1);
        r.push(RunResult { device: "e".into(), ..r[1].clone() });
        let rankings = rank(&r, Goal::Balanced);
        assert_eq!(rankings.len(), 2);
        assert_eq!(rankings[1].recommendation.scheduler, "b");
        assert!(rank(&[], Goal::Balanced).is_empty());
    }
}
