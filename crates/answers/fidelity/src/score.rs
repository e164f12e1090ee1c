//! The scores of recordings, and what they amount to for each scheduler.

use std::path::Path;

use dumbwaiter_block::{Scheduler, Setup};
use dumbwaiter_schedulers::Choice;
use serde::Serialize;

use crate::call_by_call::{Difference, call_by_call};
use crate::controllers::{ControllerScore, Events, Recorded};
use crate::free_running::{free_running, kernel_order};
use crate::order::compare;
use crate::recording::{self, Files, Recording, read_description};
use crate::settings::scheduler_of;

/// Why a recording has no score.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// It cannot be read.
    #[error(transparent)]
    Recording(#[from] recording::Error),
    /// Its settings are none of our scheduler's.
    #[error("{file}: {cause}")]
    Settings {
        /// The recording's rows.
        file: String,
        /// The scheduler's error.
        cause: String,
    },
}

/// How our scheduler agrees with a recording.
#[derive(Clone, Debug, Serialize)]
pub struct Score {
    /// The file's name.
    pub file: String,
    /// The kernel's scheduler.
    pub scheduler: String,
    /// The kernel's release.
    pub kernel: String,
    /// Control groups in the recording.
    pub groups: usize,
    /// Dumbwaiter has no such scheduler; then there are no figures.
    #[serde(skip_serializing_if = "is_false")]
    pub unsupported: bool,
    /// `none`: it has no dispatch function, so agreement says little.
    #[serde(skip_serializing_if = "is_false")]
    pub trivial: bool,
    /// The figures.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
    /// How our controller agrees, in a recording of one.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerScore>,
    /// State before and rows around the difference asked for.
    #[serde(skip)]
    pub explanation: Option<String>,
}

/// Figures of both replays. Shares are 1 of nothing, and `null` in a recording without any request.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Dispatch calls.
    pub calls: u64,
    /// Share of calls with the same answer.
    pub call_agreement: Option<f64>,
    /// Share of the calls that returned a request with the same request.
    pub dispatch_agreement: Option<f64>,
    /// Share of the calls that returned nothing with no request here either.
    pub none_agreement: Option<f64>,
    /// Calls with a choice: not those with nothing queued, nor those at which the only queued request went.
    pub choice_calls: u64,
    /// Share of the calls with a choice with the same answer.
    pub choice_agreement: Option<f64>,
    /// Calls with another answer.
    pub differences: u64,
    /// Free running: share of positions with the same request.
    pub identical_share: Option<f64>,
    /// Free running: share of pairs in the other order.
    pub kendall_tau_distance: Option<f64>,
    /// Free running: mean distance between a request's two positions.
    pub mean_displacement: Option<f64>,
    /// Free running: requests that only the kernel dispatched.
    pub missing: u64,
    /// Free running: dispatches that the kernel did not make.
    pub extra: u64,
    /// The first call with another answer.
    pub first_difference: Option<Difference>,
}

/// The scores of one scheduler's recordings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The scheduler.
    pub scheduler: String,
    /// Its recordings.
    pub files: usize,
    /// Calls in all of them.
    pub calls: u64,
    /// Share of all calls with the same answer; `null` without a score.
    pub pooled: Option<f64>,
    /// Median of the recordings' shares.
    pub median: Option<f64>,
    /// The lowest of the recordings' shares.
    pub worst: Option<f64>,
    /// Share of the calls with a choice with the same answer, of all of them.
    pub pooled_choice: Option<f64>,
    /// Dumbwaiter has no such scheduler.
    pub unsupported: bool,
    /// Agreement says little: it has no dispatch function.
    pub trivial: bool,
}

impl Score {
    /// Whether the recording has no request to compare.
    pub fn is_empty(&self) -> bool {
        self.figures.as_ref().is_some_and(|f| f.call_agreement.is_none())
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Replays a recording: its scheduler in both ways, and each controller before it; a recording of a controller alone has no other
/// score. `explain` is the number of the difference (from 1) to describe.
///
/// # Errors
/// It cannot be read.
pub fn score(path: &Path, explain: Option<u64>) -> Result<Vec<Score>, ScoreError> {
    let file = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let files = Files::of(path);
    let (rows, description) = (&files.rows, &files.description);
    let text = read_description(description)?;
    let about: serde_json::Value = serde_json::from_slice(&text)
        .map_err(|cause| recording::Error::Description { path: description.clone(), cause })?;
    let beside = Recorded::beside_scheduler(&about)
        .map_err(|what| recording::Error::Setting { path: description.clone(), what })?;
    let alone = if beside.is_empty() { Recorded::of(&about) } else { None };
    let mut scores = Vec::new();
    if alone.is_none() {
        let recording = Recording::read(rows, files.open_rows()?, description, &text)?;
        scores.push(score_scheduler(file.clone(), &recording, explain)?);
    }
    if alone.is_some() || !beside.is_empty() {
        let events = Events::read(rows, files.open_rows()?, description, about)?;
        for kind in alone.into_iter().chain(beside) {
            scores.push(score_controller(file.clone(), &events, kind, explain)?);
        }
    }
    Ok(scores)
}

/// Replays the scheduler of a recording.
fn score_scheduler(file: String, recording: &Recording, explain: Option<u64>) -> Result<Score, ScoreError> {
    let trivial = recording.scheduler == "none";
    let mut score = Score {
        file,
        scheduler: recording.scheduler.clone(),
        kernel: recording.kernel.clone(),
        groups: recording.groups.len(),
        unsupported: true,
        trivial,
        figures: None,
        controller: None,
        explanation: None,
    };
    let Some(ours) = scheduler_of(recording) else { return Ok(score) };
    let refused = |cause: String| ScoreError::Settings { file: recording.path.display().to_string(), cause };
    let choice = Choice::parse(&ours.to_string()).map_err(|e| refused(e.to_string()))?;
    let make = |setup: Setup| -> Box<dyn Scheduler> { choice.scheduler(setup) };
    let calls = call_by_call(recording, &make, explain);
    let free = compare(&kernel_order(recording), &free_running(recording, &make));
    score.unsupported = false;
    // Without a request, no answer was right or wrong.
    let of = |share: f64| (calls.dispatches > 0).then_some(share);
    score.figures = Some(Figures {
        calls: calls.calls(),
        call_agreement: of(calls.agreement()),
        dispatch_agreement: of(calls.dispatch_agreement()),
        none_agreement: of(calls.none_agreement()),
        choice_calls: calls.choices,
        choice_agreement: of(calls.choice_agreement()),
        differences: calls.differences.len() as u64,
        identical_share: free.order.map(|o| o.identical_share),
        kendall_tau_distance: free.order.map(|o| o.kendall_tau_distance),
        mean_displacement: free.order.map(|o| o.mean_displacement),
        missing: free.missing,
        extra: free.extra,
        first_difference: calls.differences.first().cloned(),
    });
    score.explanation = calls.explanation;
    Ok(score)
}

/// Replays a recording of a controller.
fn score_controller(
    file: String,
    events: &Events,
    kind: Recorded,
    explain: Option<u64>,
) -> Result<Score, recording::Error> {
    let text = |key: &str| events.about.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
    let groups = events.about.get("groups").and_then(|groups| groups.as_array()).map_or(0, Vec::len);
    let controller = kind.score(events, explain)?;
    let explanation = controller.explained.as_ref().map(|difference| {
        format!("{file}, line {}: the kernel: {}; ours: {}", difference.line, difference.kernel, difference.ours)
    });
    let (scheduler, kernel) = (text("scheduler"), text("kernel"));
    let controller = Some(controller);
    Ok(Score {
        file,
        scheduler,
        kernel,
        groups,
        unsupported: false,
        trivial: false,
        figures: None,
        controller,
        explanation,
    })
}

/// Summaries of the scores by scheduler, in the order of their names.
pub fn summary(scores: &[Score]) -> Vec<Summary> {
    let of_schedulers = scores.iter().filter(|s| s.controller.is_none());
    let mut names: Vec<&str> = of_schedulers.map(|s| s.scheduler.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| summary_of(name, scores)).collect()
}

fn summary_of(name: &str, scores: &[Score]) -> Summary {
    let of_name = || scores.iter().filter(|s| s.scheduler == name && s.controller.is_none());
    let figures = of_name().filter_map(|s| s.figures.as_ref()).filter(|f| f.call_agreement.is_some());
    let figures: Vec<&Figures> = figures.collect();
    let mut shares: Vec<f64> = figures.iter().filter_map(|f| f.call_agreement).collect();
    shares.sort_by(f64::total_cmp);
    let calls: u64 = figures.iter().map(|f| f.calls).sum();
    let differences: u64 = figures.iter().map(|f| f.differences).sum();
    let choices: u64 = figures.iter().map(|f| f.choice_calls).sum();
    let alike: f64 = figures.iter().map(|f| f.choice_agreement.unwrap_or(1.0) * f.choice_calls as f64).sum();
    let pooled = if calls == 0 { 1.0 } else { (calls - differences) as f64 / calls as f64 };
    let pooled_choice = if choices == 0 { 1.0 } else { alike / choices as f64 };
    Summary {
        scheduler: name.to_owned(),
        files: of_name().count(),
        calls,
        pooled: (!shares.is_empty()).then_some(pooled),
        median: median(&shares),
        worst: shares.first().copied(),
        pooled_choice: (!shares.is_empty()).then_some(pooled_choice),
        unsupported: of_name().all(|s| s.unsupported),
        trivial: of_name().any(|s| s.trivial),
    }
}

/// The median of sorted values.
fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(scheduler: &str, calls: u64, differences: u64, choices: u64) -> Score {
        let share = |of: u64| (of - differences) as f64 / of as f64;
        let figures = Figures {
            calls,
            call_agreement: Some(share(calls)),
            dispatch_agreement: Some(share(calls)),
            none_agreement: Some(1.0),
            choice_calls: choices,
            choice_agreement: Some(share(choices)),
            differences,
            identical_share: None,
            kendall_tau_distance: None,
            mean_displacement: None,
            missing: 0,
            extra: 0,
            first_difference: None,
        };
        Score {
            file: String::new(),
            scheduler: scheduler.to_owned(),
            kernel: String::new(),
            groups: 0,
            unsupported: false,
            trivial: scheduler == "none",
            figures: Some(figures),
            controller: None,
            explanation: None,
        }
    }

    #[test]
    fn a_long_recording_weighs_more_in_the_pooled_share_than_in_the_median() {
        let found = summary(&[score("bfq", 100, 50, 60), score("bfq", 900, 0, 540), score("none", 10, 0, 10)]);
        let bfq = &found[0];
        assert_eq!((bfq.files, bfq.calls, bfq.pooled, bfq.median), (2, 1000, Some(0.95), Some(0.75)));
        assert_eq!(bfq.worst, Some(0.5));
        assert!((bfq.pooled_choice.unwrap() - 550.0 / 600.0).abs() < 1e-12);
        assert!(!bfq.trivial && found[1].trivial);
    }

    #[test]
    fn a_scheduler_without_figures_is_unsupported() {
        let unknown = Score { figures: None, unsupported: true, ..score("bfq", 1, 0, 1) };
        let found = summary(&[unknown]);
        assert_eq!((found[0].pooled, found[0].median, found[0].unsupported), (None, None, true));
    }
}
