//! Drift detection and retraining over recorded runs.

use crate::drift::{Alarm, Judgement, Reason, Verdict};
use crate::{Model, RequestRecord};
use dumbwaiter_block::Nanos;
use serde::Serialize;

use super::tracker::Tracker;
use super::watch::{ModelWatch, Notice};
use crate::training::Error;
use crate::training::data::{DataSet, Segment};
use crate::training::samples::Moment;

/// Completions between two reviews.
const REVIEW_EVERY: u64 = 256;
/// Idle time between two recorded segments.
const PAUSE: Nanos = Nanos::from_secs(1);

/// Events of a model over recorded runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriftReport {
    /// Version of this document.
    pub schema: u32,
    /// The model at the beginning.
    pub model: String,
    /// Requests with a prediction.
    pub requests: u64,
    /// Time over all runs, seconds.
    pub seconds: f64,
    /// In order of time.
    pub events: Vec<DriftEvent>,
    /// Why no challenger can be trained; none where it can.
    pub no_training: Option<String>,
}

/// An event of the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriftEvent {
    /// Seconds since the first request.
    pub at_s: f64,
    /// Requests completed before.
    pub requests: u64,
    /// The run during which it happened.
    pub run: String,
    /// The step.
    #[serde(flatten)]
    pub step: DriftStep,
}

/// A step in the life of a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum DriftStep {
    /// The errors of the model changed.
    Alarm {
        /// How: `jump`, `distribution`, `confidence`.
        kind: &'static str,
    },
    /// A challenger was trained.
    Trained {
        /// Why: `drift`, `age`.
        reason: &'static str,
        /// Rows that it was trained on.
        rows: usize,
        /// Pairs in the right order on the newest fifth: the model in use, the challenger.
        pair_order: [f64; 2],
        /// Mean `|ln(latency / predicted)|` of reads on the newest fifth: the model in use, the challenger.
        read_error: [Option<f64>; 2],
        /// The same of writes.
        write_error: [Option<f64>; 2],
        /// The challenger is used from now on.
        published: bool,
    },
    /// A challenger should have been trained, but could not be.
    NotTrained {
        /// Why it should: `drift`, `age`.
        reason: &'static str,
    },
    /// The previous model is used again.
    RolledBack,
}

impl DriftStep {
    /// An alarm.
    pub fn alarm(alarm: Alarm) -> DriftStep {
        let kind = match alarm {
            Alarm::Jump => "jump",
            Alarm::Distribution => "distribution",
            Alarm::Confidence => "confidence",
        };
        DriftStep::Alarm { kind }
    }

    /// A challenger, judged.
    pub fn trained(reason: Reason, rows: usize, judged: [&Judgement; 2], verdict: Verdict) -> DriftStep {
        DriftStep::Trained {
            reason: name_of(reason),
            rows,
            pair_order: judged.map(|j| j.pair_order),
            read_error: judged.map(|j| j.error[0]),
            write_error: judged.map(|j| j.error[1]),
            published: verdict == Verdict::Publish,
        }
    }

    /// One that could not be trained.
    pub fn not_trained(reason: Reason) -> DriftStep {
        DriftStep::NotTrained { reason: name_of(reason) }
    }

    /// As `key=value` for a log.
    pub fn line(&self) -> String {
        let why = self.sentence();
        match self {
            DriftStep::Alarm { kind } => format!("action=alarm kind={kind} why={why:?}"),
            DriftStep::Trained { reason, rows, pair_order: [old, new], published, .. } => {
                let action = if *published { "publish" } else { "keep" };
                format!("action={action} reason={reason} rows={rows} pair_order={old:.3},{new:.3} why={why:?}")
            }
            DriftStep::NotTrained { reason } => format!("action=keep reason={reason} why={why:?}"),
            DriftStep::RolledBack => format!("action=roll-back why={why:?}"),
        }
    }

    /// As words.
    pub fn sentence(&self) -> String {
        match self {
            DriftStep::Alarm { kind } => {
                let what = match *kind {
                    "jump" => "errors became larger at once",
                    "distribution" => "errors are distributed differently than before",
                    _ => "too few windows are confident",
                };
                format!("alarm ({kind}): {what}")
            }
            DriftStep::Trained { reason, rows, pair_order: [old, new], read_error, write_error, published } => {
                let errors = [("reads", read_error), ("writes", write_error)].map(|(op, errors)| match errors {
                    [Some(old), Some(new)] => format!(", error of {op} {old:.3} -> {new:.3}"),
                    _ => String::new(),
                });
                let verdict = if *published { "published" } else { "not better, dropped" };
                format!(
                    "trained ({reason}) on {rows} rows: pair order {old:.3} -> {new:.3}{}; {verdict}",
                    errors.concat()
                )
            }
            DriftStep::NotTrained { reason } => format!("retraining is due ({reason}), but was not possible"),
            DriftStep::RolledBack => "reverted to the previous model: the new one drifted within 10 minutes".to_owned(),
        }
    }
}

fn name_of(reason: Reason) -> &'static str {
    match reason {
        Reason::Drift => "drift",
        Reason::Age => "age",
    }
}

/// A request begins or ends.
enum Edge<'a> {
    Begin(&'a RequestRecord),
    Complete(&'a RequestRecord),
}

/// The edges of a segment's requests in order of time: each begins when a model of these inputs predicts it.
fn edges(segment: &Segment, moment: Moment) -> Vec<(Nanos, Edge<'_>)> {
    let learnable = || segment.iter().filter(|record| record.is_learnable());
    let begin = |record: &RequestRecord| match moment {
        Moment::Arrival => record.arrive,
        Moment::Issue => record.issue,
    };
    let begins = learnable().map(|record| (begin(record), Edge::Begin(record)));
    let mut edges: Vec<_> = begins.chain(learnable().map(|r| (r.complete, Edge::Complete(r)))).collect();
    // An arrival does not see completions of the same moment; an issue does.
    let completes_first = moment == Moment::Issue;
    edges.sort_by_key(|(at, edge)| (*at, matches!(edge, Edge::Begin(_)) == completes_first));
    edges
}

/// Follows `model` over all runs in order, and calls `visit` with each event. Returns the report and the model in use at the
/// end.
///
/// # Errors
///
/// A model that predicts no latency.
pub fn watch_recorded(
    name: &str,
    model: Model,
    data: &DataSet,
    mut visit: impl FnMut(&DriftEvent),
) -> Result<(DriftReport, Model), Error> {
    let refuse = |error| Error::Model { name: name.to_owned(), error };
    let moment = Moment::of(model.features().map_err(refuse)?);
    let mut tracker = Tracker::new(&model).map_err(refuse)?;
    let mut watch = ModelWatch::new(model, Nanos::ZERO)?;
    let mut events: Vec<DriftEvent> = Vec::new();
    let (mut begin, mut no_training) = (Nanos::ZERO, None);
    if !watch.can_be_trained() {
        no_training = Some("only networks can be retrained, not trees".to_owned());
    }
    for run in &data.runs {
        for segment in &run.segments {
            tracker.gap();
            let edges = edges(segment, moment);
            let first = edges.first().map_or(Nanos::ZERO, |(at, _)| *at);
            let mut end = begin;
            for (at, edge) in &edges {
                end = begin + at.since(first);
                let outcome = match edge {
                    Edge::Begin(record) => {
                        tracker.issue(record);
                        continue;
                    }
                    Edge::Complete(record) => tracker.complete(record.op, record.sector, *at),
                };
                let Some(outcome) = outcome else { continue };
                // The model did not order the recorded requests, so their waits do not judge it.
                watch.complete(&outcome, None);
                if !watch.completions().is_multiple_of(REVIEW_EVERY) {
                    continue;
                }
                for step in review(&mut watch, end, &mut no_training) {
                    let requests = watch.completions();
                    let event = DriftEvent { at_s: end.as_secs_f64(), requests, run: run.name(), step };
                    visit(&event);
                    events.push(event);
                }
            }
            begin = end + PAUSE;
        }
    }
    let (requests, seconds) = (watch.completions(), begin.as_secs_f64());
    let report = DriftReport { schema: 1, model: name.to_owned(), requests, seconds, events, no_training };
    Ok((report, watch.model().clone()))
}

/// Reviews the model, and trains at once where that is due.
fn review(watch: &mut ModelWatch, now: Nanos, no_training: &mut Option<String>) -> Vec<DriftStep> {
    let mut steps = Vec::new();
    while let Some(notice) = watch.review(now) {
        steps.push(match notice {
            Notice::Alarm(alarm) => DriftStep::alarm(alarm),
            Notice::RolledBack => DriftStep::RolledBack,
            Notice::Train(reason) => match watch.lesson().train() {
                Ok(challenger) => {
                    let (rows, champion, judged) = (challenger.rows, challenger.champion, challenger.judged);
                    let verdict = watch.conclude(now, Some(challenger));
                    DriftStep::trained(reason, rows, [&champion, &judged], verdict)
                }
                Err(error) => {
                    *no_training = Some(error.to_string());
                    watch.conclude(now, None);
                    DriftStep::not_trained(reason)
                }
            },
        });
    }
    steps
}
