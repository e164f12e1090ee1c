//! Ranks the schedulers of an experiment per device, and picks the one to recommend.

use crate::criterion::{Focus, Goal, Metric};
use crate::figures::{Figure, estimates, figures, p_values, valid, verdicts};
use crate::recommend::{Recommendation, recommend};
use crate::row::{Axes, Row};
use dumbwaiter_measure::{RunResult, SIGNIFICANCE, Verdict};
use std::collections::BTreeMap;

/// Relative difference below which two means count as equal, significant or not.
const EQUAL_WITHIN: f64 = 0.02;
/// Relative difference up to which means that differ without significance count as equally good.
const TIE_WITHIN: f64 = 0.10;
/// Relative difference in processor time below which two schedulers cost the same.
const CPU_EQUAL_WITHIN: f64 = 0.05;

/// All schedulers on one device, best first.
#[derive(Clone, Debug)]
pub struct Ranking {
    /// Name of the device.
    pub device: String,
    /// Name of the variant of the scenario; empty if it has none.
    pub variant: String,
    /// The goal that the schedulers were ranked by.
    pub goal: Goal,
    /// The metric that decided: the goal's, or that of `balanced` where the goal's is undefined.
    pub metric: Metric,
    /// The requests whose latency counted.
    pub focus: Focus,
    /// The schedulers, the recommended one first.
    pub rows: Vec<Row>,
    /// The recommended scheduler, its reason and its caveats.
    pub recommendation: Recommendation,
}

impl Ranking {
    /// Whether any figure was tested for significance.
    pub fn is_tested(&self) -> bool {
        self.rows.iter().flat_map(|row| row.metrics.values()).any(|estimate| estimate.p.is_some())
    }

    /// The axes, beside the scheduler, on which the rows differ.
    pub fn axes(&self) -> Axes {
        Axes::of_rows(&self.rows)
    }
}

/// Ranks schedulers (each with its block layer and completion method) per device and variant, in order of appearance. Runs may come in any
/// order; it decides only between schedulers that are equal in everything else.
///
/// The recommended scheduler is found in steps: those with as many valid replicates as any (one that starved the focus is
/// not valid, nor one in which [`Goal::metric`] is undefined or just a lower bound); of these those that keep
/// [`Goal::throughput_floor`] of the best throughput among them; of these the best by the metric and those that tie with it
/// (within 2 %, or within 10 % and p > 0.05); of these the highest throughput (within 2 %); of these the lowest
/// p99 of the focus (within 10 %); of these the least processor time (within 5 %); of these
/// the best by the goal's metric.
pub fn rank(runs: &[RunResult], goal: Goal) -> Vec<Ranking> {
    rank_by(runs, goal, Replication::Equal)
}

/// How often each scheduler was to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replication {
    /// All equally often: fewer runs are a lack.
    Equal,
    /// Some more often than others, on purpose.
    Adaptive,
}

/// [`rank`], where schedulers may have run more often than others on purpose.
pub(crate) fn rank_by(runs: &[RunResult], goal: Goal, replication: Replication) -> Vec<Ranking> {
    let mut groups: Vec<(&str, &str, Vec<&RunResult>)> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|(d, v, _)| *d == run.device && *v == run.variant) {
            Some((_, _, group)) => group.push(run),
            None => groups.push((&run.device, &run.variant, vec![run])),
        }
    }
    groups.iter().map(|(_, _, group)| rank_group(group, goal, replication)).collect()
}

fn rank_group(runs: &[&RunResult], goal: Goal, replication: Replication) -> Ranking {
    let focus = Focus::of(runs);
    let groups = by_configuration(runs);
    let mut rows: Vec<Row> = groups.iter().map(|group| empty_row(group)).collect();
    for metric in Metric::ALL {
        for (row, estimate) in rows.iter_mut().zip(estimates(metric, &figures(metric, &groups, &focus))) {
            row.metrics.insert(metric.key().to_string(), estimate);
        }
    }

    let defined = rows.iter().any(|r| r.mean(goal.metric()).is_finite());
    let metric = if defined { goal.metric() } else { Goal::Balanced.metric() };
    let of_metric = figures(metric, &groups, &focus);
    let valid = may_win(&of_metric, &figures(Metric::FocusP99, &groups, &focus), replication);
    let rates = || rows.iter().zip(&valid).filter(|(_, valid)| **valid).map(|(row, _)| row.mean(Metric::MbPerS));
    let floor = goal.throughput_floor() * rates().fold(0.0, f64::max);
    for row in &mut rows {
        row.keeps_throughput = row.mean(Metric::MbPerS) >= floor;
    }
    let winner = choose(&rows, metric, &of_metric, &valid);
    for (row, (verdict, _)) in rows.iter_mut().zip(verdicts(metric, &of_metric, winner)) {
        row.verdict = verdict;
    }

    let rows = sorted(&rows, metric, winner, &valid);
    let recommendation = recommend(&rows, goal, metric, &focus, runs);
    let (device, variant) = (runs[0].device.clone(), runs[0].variant.clone());
    Ranking { device, variant, goal, metric, focus, rows, recommendation }
}

/// Which schedulers may be recommended: none with fewer valid replicates than another.
fn may_win(figures: &[Vec<Figure>], focus_p99: &[Vec<Figure>], replication: Replication) -> Vec<bool> {
    let part = |(figures, focus): (&Vec<Figure>, &Vec<Figure>)| match replication {
        Replication::Equal => valid(figures, focus) as f64,
        Replication::Adaptive => valid(figures, focus) as f64 / figures.len() as f64,
    };
    let parts: Vec<f64> = figures.iter().zip(focus_p99).map(part).collect();
    let most = parts.iter().copied().fold(0.0, f64::max);
    parts.iter().map(|part| *part >= most).collect()
}

/// Runs grouped by scheduler, block layer and completion method; no group is empty.
fn by_configuration<'a>(runs: &[&'a RunResult]) -> Vec<Vec<&'a RunResult>> {
    let mut groups: Vec<Vec<&RunResult>> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|group| group[0].configuration() == run.configuration()) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups
}

/// The row of the runs of one configuration, without figures yet.
fn empty_row(group: &[&RunResult]) -> Row {
    let first = group[0];
    Row {
        device: first.device.clone(),
        variant: first.variant.clone(),
        rank: 0,
        scheduler: first.scheduler.clone(),
        completion: first.completion.clone(),
        via: first.via.clone(),
        replicates: group.len(),
        keeps_throughput: true,
        verdict: Verdict::Undefined,
        metrics: BTreeMap::new(),
    }
}

/// Rows by rank: the winner, then those that may be recommended and keep enough throughput, then the others, each best
/// first.
fn sorted(rows: &[Row], metric: Metric, winner: usize, valid: &[bool]) -> Vec<Row> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|&a, &b| {
        let key = |i: usize| (i != winner, !valid[i], !rows[i].keeps_throughput);
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
    ranked
}

/// Index of the scheduler to recommend: see [`rank`].
fn choose(rows: &[Row], metric: Metric, figures: &[Vec<Figure>], valid: &[bool]) -> usize {
    let mut left: Vec<usize> = (0..rows.len()).filter(|i| valid[*i] && rows[*i].keeps_throughput).collect();
    let best_among = |left: &[usize], metric: Metric| {
        let finite = left.iter().copied().filter(|i| rows[*i].mean(metric).is_finite());
        finite.reduce(|a, b| if metric.better(rows[b].mean(metric), rows[a].mean(metric)) { b } else { a })
    };
    let Some(best) = best_among(&left, metric) else { return left.first().copied().unwrap_or(0) };
    let within = |i: usize, of: usize, metric: Metric, margin: f64| {
        let (a, b) = (rows[i].mean(metric), rows[of].mean(metric));
        (a - b).abs() <= margin * b.abs()
    };
    let p = p_values(figures, best);
    left.retain(|&i| {
        let tied = || p[i].is_some_and(|(p, _)| p > SIGNIFICANCE);
        within(i, best, metric, EQUAL_WITHIN) || (within(i, best, metric, TIE_WITHIN) && tied())
    });
    let tie_breakers =
        [(Metric::MbPerS, EQUAL_WITHIN), (Metric::FocusP99, TIE_WITHIN), (Metric::CpuUsPerIo, CPU_EQUAL_WITHIN)];
    for (metric, margin) in tie_breakers {
        if let Some(most) = best_among(&left, metric) {
            left.retain(|&i| within(i, most, metric, margin));
        }
    }
    best_among(&left, metric).unwrap_or(best)
}

#[cfg(test)]
#[path = "ranking_tests.rs"]
mod tests;
