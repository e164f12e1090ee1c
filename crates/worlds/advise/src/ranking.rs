//! Ranks the schedulers of an experiment per device, and picks the one to recommend.

use crate::answer::{Against, Answer, Field, Objective, answer, incumbent, rates};
use crate::conditions::Conditions;
use crate::figures::{estimates, figures};
use crate::focus::Focus;
use crate::goal::Goal;
use crate::metric::Metric;
use crate::row::{Axes, RankingRow, Worth};
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
    /// The figure to look at first.
    pub metric: Metric,
    /// The requests whose latency counted.
    pub focus: Focus,
    /// The schedulers, the one that is kept or recommended first.
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

/// Ranks schedulers (each with its block layer and completion method) per device and variant, in order of appearance. Any scheduler may
/// be recommended; see [`rank_under`]. What is set is not known, so that the first in a fixed order stands in for it.
pub fn rank(runs: &[RunResult], goal: Goal) -> Vec<Ranking> {
    rank_under(runs, goal, &Conditions::default())
}

/// Ranks schedulers by what they are worth beside the one that is set, where only what the conditions offer may be recommended.
///
/// Each run is judged by the goal's exchange rates between the latency of the focus, the throughput and, where weights differ, the
/// shares. Each scheduler is compared with the incumbent, and with nothing else, by runs of the same seeds. One is recommended that
/// gains a useful amount and is not shown to be possibly harmful; else the incumbent is kept.
pub fn rank_under(runs: &[RunResult], goal: Goal, conditions: &Conditions) -> Vec<Ranking> {
    let mut groups: Vec<(&str, &str, Vec<&RunResult>)> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|(d, v, _)| *d == run.device && *v == run.variant) {
            Some((_, _, group)) => group.push(run),
            None => groups.push((&run.device, &run.variant, vec![run])),
        }
    }
    groups.iter().map(|(_, _, group)| rank_group(group, goal, conditions)).collect()
}

fn rank_group(runs: &[&RunResult], goal: Goal, conditions: &Conditions) -> Ranking {
    let groups = by_configuration(runs);
    let mut rows: Vec<RankingRow> = groups.iter().map(|group| empty_row(group)).collect();
    let names: Vec<(&str, &str)> = rows.iter().map(|row| (row.scheduler.as_str(), row.via.as_str())).collect();
    let set = conditions.incumbent_of(&rows[0].device);
    let (incumbent, is_set) = incumbent(&names, set, &|i| conditions.can_be_set(&rows[i]));
    let objective = Objective::of(rates(goal, conditions), &groups[incumbent]);
    let focus = objective.focus.clone();
    for metric in Metric::ALL {
        for (row, estimate) in rows.iter_mut().zip(estimates(metric, &figures(metric, &groups, &focus))) {
            row.metrics.insert(metric.key().to_string(), estimate);
        }
    }
    let field = Field { rows: &rows, groups: &groups, goal, conditions, objective: &objective, incumbent, is_set };
    let found = answer(&field);
    let verdict = Verdict::of(&field, &found);
    let metric = objective.primary(goal);
    let (device, variant) = (rows[0].device.clone(), rows[0].variant.clone());
    let rows = sorted(&field, &found);
    Ranking { device, variant, goal, metric, focus, rows, verdict }
}

/// How a row compares with the one that is kept or recommended.
fn difference(against: Option<&Against>, is_pick: bool) -> Difference {
    match against {
        _ if is_pick => Difference::Best,
        None => Difference::Undefined,
        Some(of) if of.n < 2 && !of.same => Difference::Untested,
        Some(of) if of.hi < 0.0 => Difference::Worse,
        Some(of) if of.lo > 0.0 => Difference::Better,
        Some(_) => Difference::Tie,
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
        raised_s: crate::answer::raised_s(group),
        difference: Difference::Undefined,
        worth: None,
        metrics: BTreeMap::new(),
    }
}

/// Rows by rank: the one that is kept or recommended, then those that can be set, then the others, what is worth most first.
fn sorted(field: &Field<'_>, found: &Answer) -> Vec<RankingRow> {
    let from_pick = if found.pick == field.incumbent { found.against.clone() } else { field.all_against(found.pick) };
    let place = |i: usize| match i {
        _ if i == found.pick => 0,
        _ if i == field.incumbent || found.alternatives.contains(&i) => 1,
        _ => 2,
    };
    let gain = |i: usize| from_pick[i].as_ref().map_or(f64::NEG_INFINITY, |of| of.gain);
    let mut order: Vec<usize> = (0..field.rows.len()).collect();
    order.sort_by(|&a, &b| place(a).cmp(&place(b)).then(gain(b).total_cmp(&gain(a))).then(a.cmp(&b)));
    let rate = |i: usize| field.rows[i].mean(Metric::MbPerS);
    let one = |(rank, i): (usize, usize)| {
        let mut row = field.rows[i].clone();
        row.rank = rank + 1;
        row.difference = difference(from_pick[i].as_ref(), i == found.pick);
        row.keeps_throughput = rate(i) >= KEEPS * rate(field.incumbent) || rate(i).is_nan();
        row.can_be_set = found.settable.contains(&i);
        row.worth = found.of(i).map(worth);
        row
    };
    order.into_iter().enumerate().map(one).collect()
}

/// For results: logarithms differ between platforms in the last bits.
fn worth(of: &Against) -> Worth {
    let rounded = |value: f64| (value * 1e5).round() / 1e5;
    Worth {
        gain: rounded(of.gain),
        at_least: rounded(of.lo),
        at_most: rounded(of.hi),
        error: rounded(of.error),
        runs: of.n,
        latency: rounded(of.latency),
        throughput: rounded(of.rate),
        same: of.same,
    }
}

/// Part of the incumbent's throughput that one keeps that loses little of it.
const KEEPS: f64 = 0.9;

#[cfg(test)]
#[path = "ranking_tests.rs"]
mod tests;
