//! The verdict of a comparison for each condition that was measured under several schedulers, and whether it is right.

use std::collections::BTreeMap;

use dumbwaiter_advise::{Conditions, Confidence, Decision, DriveClass, Goal, rank_under};
use dumbwaiter_measure::{Latency, RunResult, TaskStats, TenantStats};
use serde::Serialize;

use super::case::{Case, Part};
use super::predicted::tasks;

/// What a drive with several hardware queues has where nobody set anything.
const INCUMBENT: &str = "none";
/// Roles that somebody waits for, most of all first; else the first job that reads.
const FOCUS: [&str; 3] = ["L", "T4k", "T-read"];
/// Half the latency is worth a third of the throughput: ln 2 / -ln(2 / 3).
const THROUGHPUT_WORTH: f64 = 1.709_511_291_351_454_8;
/// A choice that loses at most this is right, and one that loses at most the second is harmless: the same load measured twice in
/// different figures differs by as much.
const RIGHT_WITHIN: f64 = 0.05;
const HARMLESS_WITHIN: f64 = 0.12;

/// Whether a verdict does what the measurement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The best that was measured, or within 5 % of it.
    Right,
    /// Within 12 % of it, or it claims nothing.
    Harmless,
    /// Worse than that.
    Wrong,
    /// The measurement does not tell.
    Unknown,
}

/// The verdict on one condition.
#[derive(Clone, Debug, Serialize)]
pub struct CaseVerdict {
    /// The figure of a study, or the drive.
    pub figure: String,
    /// What varies in it.
    pub condition: String,
    /// `change`, `keep`, or `depends` or `too-short` where the runs carry neither.
    pub decision: &'static str,
    /// The scheduler to set; `null` where nothing is to be changed.
    pub recommended: Option<String>,
    /// How sure it is.
    pub confidence: Confidence,
    /// The role whose p99 counts.
    pub focus: String,
    /// Whether the measurement agrees.
    pub outcome: Outcome,
    /// The best scheduler where it was measured.
    pub best_measured: Option<String>,
    /// How much worse the choice is than that, as a latency, where it was measured.
    pub loss: Option<f64>,
    /// The verdict as a sentence.
    pub sentence: String,
}

/// The cases of each condition with the runs of each, and the class of the drive that each ran on.
pub(super) fn verdicts(cases: &[Case], runs: &[Vec<RunResult>], classes: &[Option<DriveClass>]) -> Vec<CaseVerdict> {
    let mut order: Vec<[&str; 2]> = Vec::new();
    let mut groups: BTreeMap<[&str; 2], Vec<usize>> = BTreeMap::new();
    for (i, case) in cases.iter().enumerate() {
        let key = [case.figure.as_str(), case.condition.as_str()];
        let group = groups.entry(key).or_default();
        if group.is_empty() {
            order.push(key);
        }
        group.push(i);
    }
    let compared = |key: &[&str; 2]| {
        let of: Vec<usize> = groups[key].iter().copied().filter(|i| !runs[*i].is_empty()).collect();
        (of.len() > 1).then(|| verdict(cases, runs, classes, &of))
    };
    order.iter().filter_map(compared).collect()
}

fn verdict(cases: &[Case], runs: &[Vec<RunResult>], classes: &[Option<DriveClass>], of: &[usize]) -> CaseVerdict {
    let first = &cases[of[0]];
    let (focus, job) = focus_of(first);
    let relabelled: Vec<RunResult> =
        of.iter().flat_map(|i| runs[*i].iter().map(|run| focused(&cases[*i], run, job))).collect();
    let mut conditions = Conditions::simulated();
    let classed = of.iter().filter_map(|i| Some((runs[*i].first()?.device.clone(), classes[*i]?)));
    conditions.drive_classes.extend(classed);
    let verdict = rank_under(&relabelled, Goal::Balanced, &conditions).swap_remove(0).verdict;
    let choice = verdict.recommended.clone().unwrap_or_else(|| INCUMBENT.to_owned());
    let worth: Vec<(&str, f64)> =
        of.iter().filter_map(|i| Some((cases[*i].scheduler.as_str(), worth(&cases[*i], &focus)?))).collect();
    let best = worth.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let own = worth.iter().find(|(name, _)| *name == choice || cases_stack(cases, of, name) == choice);
    let loss = best.zip(own).map(|(best, own)| (best.1 - own.1).exp() - 1.0);
    let claims_nothing = matches!(verdict.decision, Decision::TooShort | Decision::Depends);
    let outcome = match loss {
        None => Outcome::Unknown,
        Some(loss) if loss <= RIGHT_WITHIN => Outcome::Right,
        Some(loss) if loss <= HARMLESS_WITHIN || claims_nothing => Outcome::Harmless,
        Some(_) => Outcome::Wrong,
    };
    CaseVerdict {
        figure: first.figure.clone(),
        condition: first.condition.clone(),
        decision: verdict.decision.name(),
        recommended: verdict.recommended.clone(),
        confidence: verdict.confidence,
        focus,
        outcome,
        best_measured: best.map(|(name, _)| (*name).to_owned()),
        loss,
        sentence: verdict.sentence(),
    }
}

fn cases_stack(cases: &[Case], of: &[usize], scheduler: &str) -> String {
    let case = of.iter().map(|i| &cases[*i]).find(|case| case.scheduler == scheduler);
    case.and_then(|case| case.stack.clone().ok()).unwrap_or_default()
}

/// The role whose latency counts, and its job; no job where it is the only one.
fn focus_of(case: &Case) -> (String, Option<usize>) {
    let of_role = |role: &str| case.parts().find(|row| row.role == role);
    let reading = || {
        case.parts().find(|row| match row.part {
            Part::Job(job) | Part::EachOf(job) => case.jobs[job].reads,
            part => matches!(part, Part::Reads(_)),
        })
    };
    let found = FOCUS.iter().find_map(|role| of_role(role)).or_else(reading).or_else(|| case.parts().next());
    let job = found.and_then(|row| match row.part {
        Part::Job(job) | Part::EachOf(job) | Part::Reads(job) | Part::Writes(job) => Some(job),
        Part::Total | Part::All => None,
    });
    (found.map_or_else(String::new, |row| row.role.clone()), job.filter(|_| case.jobs.len() > 1))
}

/// The run with the job in focus as a tenant of its own. Really to be one would change what bfq does.
fn focused(case: &Case, run: &RunResult, job: Option<usize>) -> RunResult {
    let mut run = run.clone();
    run.variant.clear();
    let Some(job) = job else { return run };
    let own = tasks(case, &run, job);
    let Some(longest) = own.iter().max_by(|a, b| a.latency_us.p99.total_cmp(&b.latency_us.p99)) else { return run };
    let tenant = tenant(&run, longest, &own);
    run.tenants.push(tenant);
    run
}

fn tenant(run: &RunResult, longest: &TaskStats, own: &[&TaskStats]) -> TenantStats {
    let bandwidth = run.bandwidth.clone();
    let mb_per_s: f64 = own.iter().map(|task| task.mb_per_s).sum();
    let share = mb_per_s / run.mb_per_s;
    TenantStats {
        name: longest.name.clone(),
        weight: run.tenants.first().map_or(100, |tenant| tenant.weight),
        share,
        ideal_share: share,
        focus: true,
        count: own.iter().map(|task| task.count).sum(),
        iops: own.iter().map(|task| task.iops).sum(),
        mb_per_s,
        latency_us: Latency::clone(&longest.latency_us),
        time_parts_us: None,
        bandwidth,
    }
}

/// What a measured scheduler is worth, as the logarithm of a latency: the p99 of the focus, and the throughput of all.
fn worth(case: &Case, focus: &str) -> Option<f64> {
    let row = case.parts().find(|row| row.role == focus)?;
    let p99 = row.figures.p99_us.or(row.figures.p95_us).filter(|p99| *p99 > 0.0)?;
    let moved: f64 = case.parts().filter_map(|row| row.figures.mb_s.or(row.figures.iops)).sum();
    (moved > 0.0).then(|| THROUGHPUT_WORTH * moved.ln() - p99.ln())
}
