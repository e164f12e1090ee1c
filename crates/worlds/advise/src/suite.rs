//! Several scenarios in one document: a line for each, and what they say together.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::answer::Decision;
use crate::confidence::Confidence;
use crate::ranking::Ranking;
use crate::row::RankingRow;

/// One scenario on one drive. Its runs carry the device and the variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuiteCase {
    /// The scenario's name.
    pub scenario: String,
    /// The device of its runs.
    pub device: String,
    /// The variant of its runs.
    pub variant: String,
    /// The class of the drive, for people; empty outside of suites.
    #[serde(default)]
    pub drive_class: String,
    /// How much of the drive holds data, in percent; `null` where the scenario decides.
    #[serde(default)]
    pub fill_percent: Option<u8>,
}

/// Several scenarios that were run as one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suite {
    /// Its name; empty for scenarios that were listed.
    pub name: String,
    /// Its scenarios on its drives, in order.
    pub cases: Vec<SuiteCase>,
    /// One line for each case.
    #[serde(default)]
    pub lines: Vec<SuiteLine>,
    /// One for each scheduler, drive and fill, and for each scheduler over all cases (with an empty drive).
    #[serde(default)]
    pub totals: Vec<SuiteTotal>,
}

/// The verdict of a case, and how far each scheduler is from its best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuiteLine {
    /// The case.
    #[serde(flatten)]
    pub case: SuiteCase,
    /// As [`crate::Verdict::decision`].
    #[serde(default = "keep")]
    pub decision: Decision,
    /// As [`crate::Verdict::incumbent`].
    #[serde(default)]
    pub incumbent: String,
    /// As [`crate::Verdict::recommended`].
    pub recommended: Option<String>,
    /// As [`crate::Verdict::confidence`].
    pub confidence: Confidence,
    /// [`crate::Metric::key`] of the figure that decided.
    pub decided_by: String,
    /// How much worse the worst of those that can be set is than the best, as a lower latency: the effect's size.
    pub spread: Option<f64>,
    /// By scheduler (with its block layer and completion method where these differ), how much worse it is than the best that can be set,
    /// all in all, as a latency that is higher by this fraction; `null` where it starved something or was not compared.
    pub worse_by: BTreeMap<String, Option<f64>>,
    /// The scheduler of those that can be set that is worst, or starved something.
    #[serde(default)]
    pub worst: Option<String>,
    /// Schedulers that compete: the incumbent, and those that can be set.
    pub pool: Vec<String>,
}

fn keep() -> Decision {
    Decision::Keep
}

/// A scheduler over several cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuiteTotal {
    /// The kind of drive; empty for all.
    pub drive_class: String,
    /// The device; empty for all.
    pub device: String,
    /// How much of the drive holds data, in percent.
    pub fill_percent: Option<u8>,
    /// The scheduler.
    pub scheduler: String,
    /// Geometric mean of how many times worse than the best it is (1 is the best), over the cases in which that is known.
    pub times_worse: Option<f64>,
    /// Cases in which it is recommended or kept.
    pub wins: usize,
    /// Cases in which it is neither worth a change nor worse by a harmful amount.
    pub ties: usize,
    /// The other cases.
    pub losses: usize,
}

impl Suite {
    /// A suite of cases, not yet judged.
    pub fn new(name: &str, cases: Vec<SuiteCase>) -> Suite {
        Suite { name: name.to_owned(), cases, lines: Vec::new(), totals: Vec::new() }
    }

    /// Computes lines and totals from rankings.
    pub(crate) fn judge(&mut self, rankings: &[Ranking]) {
        let of = |case: &SuiteCase| rankings.iter().find(|r| r.device == case.device && r.variant == case.variant);
        let judged: Vec<(SuiteLine, &Ranking)> =
            self.cases.iter().filter_map(|case| of(case).map(|ranking| (line(case, ranking), ranking))).collect();
        self.totals = totals(&judged);
        self.lines = judged.into_iter().map(|(line, _)| line).collect();
    }

    /// The schedulers of all lines, in the order of the totals.
    pub fn schedulers(&self) -> Vec<&str> {
        let all = self.totals.iter().filter(|total| total.device.is_empty());
        all.map(|total| total.scheduler.as_str()).collect()
    }

    /// The scenario of a run; `None` for a run of no case.
    pub fn scenario_of(&self, device: &str, variant: &str) -> Option<&str> {
        let found = self.cases.iter().find(|case| case.device == device && case.variant == variant);
        found.map(|case| case.scenario.as_str())
    }
}

fn line(case: &SuiteCase, ranking: &Ranking) -> SuiteLine {
    let verdict = &ranking.verdict;
    // With their block layers and completion methods where these differ, as the pool has them.
    let axes = ranking.axes();
    let is_incumbent = |row: &RankingRow| row.name(axes) == verdict.incumbent;
    let gain = |row: &RankingRow| if is_incumbent(row) { Some(0.0) } else { row.worth.map(|of| of.gain) };
    let best =
        ranking.rows.iter().filter(|row| row.can_be_set || is_incumbent(row)).filter_map(gain).fold(0.0, f64::max);
    let worse_by: BTreeMap<String, Option<f64>> = ranking
        .rows
        .iter()
        .map(|row| (row.name(axes), gain(row).map(|gain| rounded(libm::expm1(best - gain))).filter(|by| *by < STARVED)))
        .collect();
    let of = |row: &RankingRow| worse_by.get(&row.name(axes)).copied().flatten().unwrap_or(f64::INFINITY);
    let settable = ranking.rows.iter().filter(|row| row.can_be_set && gain(row).is_some());
    let worst = settable.reduce(|a, b| if of(b) > of(a) { b } else { a });
    SuiteLine {
        case: case.clone(),
        decision: verdict.decision,
        incumbent: verdict.incumbent.clone(),
        recommended: verdict.recommended.clone(),
        confidence: verdict.confidence,
        decided_by: verdict.decided_by.clone(),
        // Of one that competes alone, nothing is to be said.
        spread: verdict.spread.filter(|spread| spread.is_finite() && verdict.pool.len() > 1).map(|by| by.max(0.0)),
        worst: worst.map(|row| row.name(axes)),
        worse_by,
        pool: verdict.pool.clone(),
    }
}

/// One that is worse by more has starved what decides.
const STARVED: f64 = 1000.0;

fn rounded(value: f64) -> f64 {
    (value * 1e5).round() / 1e5
}

/// How many times worse: twice the latency, or what is worth as much.
fn times_worse(worse_by: f64) -> Option<f64> {
    Some(1.0 + worse_by.max(0.0)).filter(|times| times.is_finite())
}

/// Of all cases, then of each drive at each fill.
fn totals(judged: &[(SuiteLine, &Ranking)]) -> Vec<SuiteTotal> {
    type DriveAtFill = (String, String, Option<u8>);
    let names = judged.iter().flat_map(|(line, _)| line.worse_by.keys());
    let schedulers: BTreeSet<&String> = names.collect();
    let mut places: Vec<DriveAtFill> = vec![(String::new(), String::new(), None)];
    for (line, _) in judged {
        let place = (line.case.drive_class.clone(), line.case.device.clone(), line.case.fill_percent);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let mut totals = Vec::new();
    for (drive_class, device, fill_percent) in places {
        let here = |line: &SuiteLine| {
            device.is_empty() || line.case.device == device && line.case.fill_percent == fill_percent
        };
        for scheduler in &schedulers {
            let of: Vec<_> = judged
                .iter()
                .filter(|(line, _)| here(line) && line.worse_by.contains_key(scheduler.as_str()))
                .collect();
            // The first row is the one that is recommended or kept.
            let first = |ranking: &Ranking| ranking.rows.first().map(|row| row.name(ranking.axes()));
            let wins = of.iter().filter(|(_, ranking)| first(ranking).as_ref() == Some(*scheduler)).count();
            let tied = |ranking: &Ranking| {
                first(ranking).as_ref() != Some(*scheduler) && ranking.verdict.ties.contains(scheduler)
            };
            let ties = of.iter().filter(|(_, ranking)| tied(ranking)).count();
            let known: Vec<f64> =
                of.iter().filter_map(|(line, _)| times_worse(line.worse_by[scheduler.as_str()]?)).collect();
            let mean = || libm::exp(known.iter().map(|times| libm::log(*times)).sum::<f64>() / known.len() as f64);
            let times_worse = (!known.is_empty()).then(mean);
            totals.push(SuiteTotal {
                drive_class: drive_class.clone(),
                device: device.clone(),
                fill_percent,
                scheduler: (*scheduler).clone(),
                times_worse,
                wins,
                ties,
                losses: of.len() - wins - ties,
            });
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Goal;
    use crate::ranking::rank;
    use crate::test_runs::template;

    #[test]
    fn the_kernels_schedulers_and_ours_of_the_same_names_have_their_own_figures() {
        let mut runs = Vec::new();
        for (via, faster) in [("kernel", 1.0), ("engine", 0.5)] {
            for (scheduler, p99_us) in [("none", 900.0), ("kyber", 300.0)] {
                for seed in 0..3 {
                    let mut run = template(1200);
                    (run.scheduler, run.via, run.seed) = (scheduler.to_owned(), via.to_owned(), seed);
                    let us = faster * (p99_us + seed as f64);
                    (run.read.latency_us.mean, run.read.latency_us.p99) = (us, us);
                    runs.push(run);
                }
            }
        }
        let case = SuiteCase {
            scenario: "s".to_owned(),
            device: runs[0].device.clone(),
            variant: String::new(),
            drive_class: String::new(),
            fill_percent: None,
        };
        let mut suite = Suite::new("", vec![case]);
        suite.judge(&rank(&runs, Goal::Balanced));
        let line = &suite.lines[0];
        assert_eq!((line.recommended.as_deref(), line.incumbent.as_str()), (Some("kyber"), "none, kernel"));
        assert_eq!((line.worse_by["kyber, kernel"], line.worst.as_deref()), (Some(0.0), Some("none, kernel")));
        assert!(line.worse_by["none, kernel"].unwrap() > 1.9 && line.worse_by["kyber, engine"].unwrap() < -0.4);
        let of =
            |name: &str| suite.totals.iter().find(|total| total.device.is_empty() && total.scheduler == name).unwrap();
        assert_eq!((of("kyber, kernel").wins, of("none, kernel").losses, of("kyber, engine").wins), (1, 1, 0));
    }
}
