//! Runs that are too short to tell, and how long they would have to be.

use dumbwaiter_measure::{RunResult, median};

use super::field::{Answer, Field, Short};
use super::words::seconds_text;
use super::{HARMFUL, USEFUL_GAIN};

/// Requests of the focus below which nothing is said, and those that would do.
const REQUESTS_MIN: f64 = 30.0;
const REQUESTS_ENOUGH: f64 = 200.0;
/// Bounds that are further apart than this because of unfinished requests say nothing.
const CENSORED_WIDTH: f64 = 1.0;
/// Part of the measured time in which bfq may raise tasks as it does for interactive ones at their start.
const RAISED_MAX: f64 = 0.25;
/// Least time for the start of applications, s.
const LAUNCHES_S: f64 = 60.0;

/// A round time that is at least this long.
pub(crate) fn round_up(seconds: f64) -> f64 {
    let step = match seconds {
        s if s <= 10.0 => 1.0,
        s if s <= 60.0 => 5.0,
        s if s <= 600.0 => 30.0,
        _ => 300.0,
    };
    (seconds / step).ceil() * step
}

/// Whether the runs are too short for an answer that would change to `target`, or keep. Only what could turn the answer counts.
pub(crate) fn too_short(field: &Field<'_>, found: &Answer, target: Option<usize>) -> Option<Short> {
    let of = |i: usize| found.of(i).expect("alternatives are compared");
    let sure = target.is_some_and(|i| of(i).lo >= HARMFUL);
    let incumbent = &field.groups[field.incumbent];
    let seconds = median(incumbent.iter().map(|run| run.duration_s).collect());
    let recorded = field.groups.iter().flatten().all(|run| run.same_load);
    let time = |wanted: f64| (!recorded).then(|| round_up(wanted.max(seconds * 1.5)));
    // What did not begin may turn any answer.
    if let Some(short) = not_started(field, &time) {
        return Some(short);
    }
    let open: Vec<usize> =
        found.alternatives.iter().copied().filter(|i| of(*i).hi > USEFUL_GAIN && !of(*i).same).collect();
    if open.is_empty() {
        return None;
    }
    // A starved focus has few requests because it starves.
    let requests =
        |i: usize| median(field.groups[i].iter().map(|run| field.objective.focus.pooled(run).samples as f64).collect());
    let few = !field.objective.launches && field.objective.waits && field.objective.requests < REQUESTS_MIN;
    if few && !(sure && target.is_some_and(|i| requests(i) >= REQUESTS_MIN)) {
        let n = field.objective.requests;
        let which = field.objective.focus.name();
        return Some(Short {
            why: format!("only {n:.0} requests of {which} in a run"),
            seconds: time(seconds * REQUESTS_ENOUGH / n.max(1.0)),
        });
    }
    let censored = |i: &usize| {
        let of = of(*i);
        (of.bounded[0] || of.bounded[1]) && of.hi - of.lo > CENSORED_WIDTH && of.width < CENSORED_WIDTH / 2.0
    };
    if target.is_none() && open.iter().any(censored) {
        let longest = field.groups.iter().flatten().map(|run| run.oldest_unfinished_s).fold(0.0, f64::max);
        return Some(Short {
            why: format!("I/Os that were unfinished at the end had waited {longest:.1} s and decide it"),
            seconds: time(10.0 * longest),
        });
    }
    // What was raised for the start of a run says nothing of the time after it.
    let decides = |i: &usize| target.is_none_or(|target| target == *i);
    let raised = open.iter().filter(|i| decides(i)).map(|i| raised_s(&field.groups[*i])).fold(0.0, f64::max);
    if raised > RAISED_MAX * seconds {
        return Some(Short {
            why: format!(
                "bfq raised the weight of tasks that had just begun in {} of {}",
                seconds_text(raised),
                seconds_text(seconds)
            ),
            seconds: time(raised / RAISED_MAX),
        });
    }
    None
}

/// Applications that should decide and did not begin, or hardly any of which ended.
fn not_started(field: &Field<'_>, time: &dyn Fn(f64) -> Option<f64>) -> Option<Short> {
    let applications = || field.groups.iter().flatten().flat_map(|run| &run.applications);
    if applications().next().is_some()
        && !applications().any(|of| of.was_active())
        && field.goal != crate::Goal::Throughput
    {
        let mut names: Vec<String> = applications().map(|of| of.name.clone()).collect();
        names.sort();
        names.dedup();
        let names = crate::sentence::list(&names);
        return Some(Short { why: format!("{names} did not begin in the measured time"), seconds: time(LAUNCHES_S) });
    }
    if !field.objective.launches {
        return None;
    }
    let ended = |i: usize| {
        let launches = field.groups[i].iter().flat_map(|run| &run.applications).filter_map(|of| of.start_up.as_ref());
        launches.fold((0, 0), |(ended, all), of| (ended + of.started, all + of.count))
    };
    let rarely = |i: usize| {
        let (ended, all) = ended(i);
        3 * ended < all
    };
    if !std::iter::once(field.incumbent).chain((0..field.rows.len()).filter(|i| *i != field.incumbent)).all(rarely) {
        return None;
    }
    let (done, all) = ended(field.incumbent);
    let limit = field.groups.iter().flatten().flat_map(|run| &run.applications);
    let limit = limit.filter_map(|of| of.start_up.as_ref()).map(|of| of.timeout_s).fold(0.0, f64::max);
    Some(Short {
        why: format!("{done} of {all} launches ended under {}", field.rows[field.incumbent].scheduler),
        seconds: time((6.0 * limit).clamp(LAUNCHES_S, 600.0)),
    })
}

/// Time of the measured time in which bfq raised tasks only since they had begun, s.
pub(crate) fn raised_s(runs: &[&RunResult]) -> f64 {
    let of = |run: &&RunResult| {
        let counter = |name: &str| run.scheduler_counters.get(name).copied().unwrap_or(0.0);
        let once = counter("raises_interactive") >= 1.0 && counter("raises_interactive") <= run.tasks.len() as f64;
        let warmup = run.series.times.first().copied().unwrap_or(0.0);
        if once { (counter("raise_length_ms") / 1e3 - warmup).clamp(0.0, run.duration_s) } else { 0.0 }
    };
    runs.iter().map(of).fold(0.0, f64::max)
}
