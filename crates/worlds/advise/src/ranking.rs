//! Ranks the schedulers of an experiment per device, and picks the one to recommend.

use crate::conditions::Conditions;
use crate::decision::{Decision, Field, Replication, decide};
use crate::figures::{estimates, figures};
use crate::focus::Focus;
use crate::goal::Goal;
use crate::metric::Metric;
use crate::row::{Axes, RankingRow};
use crate::verdict::Verdict;
use dumbwaiter_measure::{Difference, RunResult};
use std::collections::BTreeMap;

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
    pub rows: Vec<RankingRow>,
    /// The recommendation, and how sure it is.
    pub verdict: Verdict,
}

impl Ranking {
    /// Whether any figure was tested for significance.
    pub fn is_tested(&self) -> bool {
        self.rows.iter().flat_map(|row| row.metrics.values()).any(|estimate| estimate.p.is_some())
    }

    /// The device, with the variant.
    pub fn place(&self) -> String {
        match self.variant.as_str() {
            "" => self.device.clone(),
            variant => format!("{}, {variant}", self.device),
        }
    }

    /// The axes, beside the scheduler, on which the rows differ.
    pub fn axes(&self) -> Axes {
        Axes::of_rows(&self.rows)
    }
}

/// Ranks schedulers (each with its block layer and completion method) per device and variant, in order of appearance. Runs may come in any
/// order; it decides only between schedulers that are equal in everything else. Any scheduler may be recommended; see [`rank_under`].
///
/// The leader is found in steps: those with as many valid replicates as any (one that starved the focus is
/// not valid, nor one in which the deciding metric is undefined or just a lower bound); of these those that keep
/// [`Goal::throughput_floor`] of the best throughput among them; of these, criterion by criterion, those within a useful
/// difference of the best: with goal `balanced` the start-up time or the dropped frames of applications, the p99 of the focus,
/// the share error where weights differ, the throughput. Of equals the one that costs the least processor time leads.
pub fn rank(runs: &[RunResult], goal: Goal) -> Vec<Ranking> {
    rank_by(runs, goal, Replication::Equal, &Conditions::default())
}

/// [`rank`], where only what the conditions offer may be recommended.
pub fn rank_under(runs: &[RunResult], goal: Goal, conditions: &Conditions) -> Vec<Ranking> {
    rank_by(runs, goal, Replication::Equal, conditions)
}

/// [`rank`], where schedulers may have run more often than others on purpose.
pub(crate) fn rank_by(
    runs: &[RunResult],
    goal: Goal,
    replication: Replication,
    conditions: &Conditions,
) -> Vec<Ranking> {
    let mut groups: Vec<(&str, &str, Vec<&RunResult>)> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|(d, v, _)| *d == run.device && *v == run.variant) {
            Some((_, _, group)) => group.push(run),
            None => groups.push((&run.device, &run.variant, vec![run])),
        }
    }
    groups.iter().map(|(_, _, group)| rank_group(group, goal, replication, conditions)).collect()
}

fn rank_group(runs: &[&RunResult], goal: Goal, replication: Replication, conditions: &Conditions) -> Ranking {
    let focus = Focus::of(runs);
    let groups = by_configuration(runs);
    let mut rows: Vec<RankingRow> = groups.iter().map(|group| empty_row(group)).collect();
    for metric in Metric::ALL {
        for (row, estimate) in rows.iter_mut().zip(estimates(metric, &figures(metric, &groups, &focus))) {
            row.metrics.insert(metric.key().to_string(), estimate);
        }
    }
    let field = Field { rows: &rows, groups: &groups, focus: &focus, goal, conditions };
    let decision = decide(&field, replication);
    let verdict = Verdict::of(&field, &decision);
    let metric = decision.metric;
    let leader = &rows[decision.leader];
    let (device, variant) = (leader.device.clone(), leader.variant.clone());
    let rows = sorted(&rows, &decision);
    Ranking { device, variant, goal, metric, focus, rows, verdict }
}

/// How a row compares with the leader by what decided.
fn difference(row: &RankingRow, leader: &RankingRow, i: usize, decision: &Decision) -> Difference {
    let (metric, worse) = (decision.metric, &decision.worse[i]);
    if row.mean(metric).is_nan() || !leader.mean(metric).is_finite() {
        return Difference::Undefined;
    }
    match worse.bounds {
        _ if i == decision.leader => Difference::Best,
        _ if row.mean(metric).is_infinite() => Difference::Worse,
        None => Difference::Untested,
        Some(_) if worse.surely => Difference::Worse,
        Some([_, most]) if most < 0.0 => Difference::Better,
        // Lower bounds that are no better may be much worse.
        _ if decision.starved.contains(&i) => Difference::Untested,
        _ => Difference::Tie,
    }
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
fn empty_row(group: &[&RunResult]) -> RankingRow {
    let first = group[0];
    RankingRow {
        device: first.device.clone(),
        variant: first.variant.clone(),
        rank: 0,
        scheduler: first.scheduler.clone(),
        completion: first.completion.clone(),
        via: first.via.clone(),
        replicates: group.len(),
        keeps_throughput: true,
        can_be_set: true,
        difference: Difference::Undefined,
        metrics: BTreeMap::new(),
    }
}

/// Rows by rank: the leader, then its pool, then those that are below the floor, starve the focus or cannot be set, each best
/// first.
fn sorted(rows: &[RankingRow], decision: &Decision) -> Vec<RankingRow> {
    let metric = decision.metric;
    let place = |i: usize| match i {
        _ if i == decision.leader => 0,
        _ if decision.pool.contains(&i) => 1,
        _ if decision.slow.contains(&i) => 2,
        _ if decision.starved.contains(&i) => 3,
        _ => 4,
    };
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|&a, &b| {
        let (x, y) = (rows[a].mean(metric), rows[b].mean(metric));
        let by_figure = match (metric.better(x, y), metric.better(y, x)) {
            (true, _) => std::cmp::Ordering::Less,
            (_, true) => std::cmp::Ordering::Greater,
            _ => std::cmp::Ordering::Equal,
        };
        place(a).cmp(&place(b)).then(by_figure).then(a.cmp(&b))
    });
    let one = |(rank, i): (usize, usize)| {
        let mut row = rows[i].clone();
        row.rank = rank + 1;
        row.difference = difference(&rows[i], &rows[decision.leader], i, decision);
        row.keeps_throughput = !decision.slow.contains(&i);
        row.can_be_set = decision.settable.contains(&i);
        // The column that decides says the same as the verdict, which knows more than a test of two.
        if let Some(estimate) = row.metrics.get_mut(metric.key()) {
            match (estimate.difference, row.difference) {
                (Difference::Tie, Difference::Worse) => estimate.difference = Difference::Worse,
                (Difference::Worse, Difference::Tie) => estimate.difference = Difference::Tie,
                _ => {}
            }
        }
        row
    };
    order.into_iter().enumerate().map(one).collect()
}

#[cfg(test)]
#[path = "ranking_tests.rs"]
mod tests;
