//! The verdict of a comparison for one device, and how sure it is.

use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Decision, Field, FrontierMember, Rates, Words, frontier, why};
use crate::confidence::Confidence;
use crate::measured_error::LoadKind;
use crate::row::{Axes, RankingRow};
use crate::usage::Usage;

/// The verdict of a comparison on one device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// Keep what is set, or change it.
    #[serde(default = "keep")]
    pub decision: Decision,
    /// What is set, or what the kernel sets by itself: everything is compared with it.
    #[serde(default)]
    pub incumbent: String,
    /// The scheduler to set, with its settings; `null` where nothing is to be changed.
    pub recommended: Option<String>,
    /// How sure that is.
    pub confidence: Confidence,
    /// The number behind it, in a clause: `at least 5.3 % lower latency`.
    pub certainty: String,
    /// The decision in a few words: `change mq-deadline to bfq`.
    #[serde(default)]
    pub headline: String,
    /// The reason, a clause with its figures.
    pub because: String,
    /// The reason without what stands elsewhere, for a first screen.
    #[serde(default)]
    pub brief: String,
    /// Alternatives in a line each.
    #[serde(default)]
    pub trades: Vec<String>,
    /// Where the time goes that makes the difference, a sentence each.
    #[serde(default)]
    pub why: Vec<String>,
    /// Schedulers that nobody beats in both latency and throughput, what is worth most first.
    #[serde(default)]
    pub frontier: Vec<FrontierMember>,
    /// What half the latency is worth, in words.
    #[serde(default)]
    pub rate: String,
    /// What would settle it, where the runs are too short.
    #[serde(default)]
    pub next: Option<String>,
    /// Duration of a run that would do, s; `null` where the runs are long enough, or where only more of a recorded load would do.
    #[serde(default)]
    pub enough_s: Option<f64>,
    /// How much more the recommended scheduler, or the best alternative, is worth than the incumbent (natural logarithm of latency): as
    /// it looks, at least and at most.
    #[serde(default)]
    pub gain: Option<[f64; 3]>,
    /// The kind of the load, as far as the simulator's accuracy depends on it; `null` of real runs.
    #[serde(default)]
    pub load_kind: Option<LoadKind>,
    /// The simulator's measured error for it, as a natural logarithm of what schedulers are worth to each other: nineteen of twenty
    /// differences are within it. `null` where it was not measured, and of real runs.
    #[serde(default)]
    pub model_error: Option<f64>,
    /// [`crate::Metric::key`] of the figure to look at first.
    pub decided_by: String,
    /// The schedulers that competed: the incumbent, and those that can be set.
    pub pool: Vec<String>,
    /// What they were judged by: the exchange rate in words.
    pub pool_rule: String,
    /// Alternatives that are neither worth a change nor worse by a harmful amount.
    pub ties: Vec<String>,
    /// Another may be worth at most this lower latency than what is kept or recommended, as a fraction; `null` where nothing was
    /// compared, or where one is recommended.
    pub may_be_better_by: Option<f64>,
    /// The gain is known within this, either way; `null` for single runs.
    pub may_differ_by: Option<f64>,
    /// More runs may change the verdict: it is not clear, and nothing else prevents it from being.
    pub more_runs_help: bool,
    /// How much worse the worst that can be set is than the best, as a lower latency, as a fraction.
    pub spread: Option<f64>,
    /// How busy the drive was.
    pub usage: Usage,
    /// The completion method of the recommended scheduler or the incumbent.
    pub completion: String,
    /// Its block layer: `sim`, `engine` or `kernel`.
    pub via: String,
    /// Commands that set it now and at every boot, for a user with sudo; empty where nothing is to be changed.
    #[serde(default)]
    pub apply: Vec<String>,
    /// Commands that take that back.
    #[serde(default)]
    pub undo: Vec<String>,
    /// Caveats, those that weaken the answer most first.
    #[serde(default)]
    pub caveats: Vec<String>,
    /// How many of the caveats weaken the answer; the others say what decided.
    #[serde(default)]
    pub weakened_by: usize,
}

fn keep() -> Decision {
    Decision::Keep
}

impl Verdict {
    /// The verdict as a sentence: `Change mq-deadline to bfq: …`.
    pub fn sentence(&self) -> String {
        let mut head = self.headline.clone();
        if let Some(first) = head.get(..1) {
            let first = first.to_uppercase();
            head.replace_range(..1, &first);
        }
        // The head names it already.
        let named = self.recommended.as_ref().and_then(|to| self.because.strip_prefix(to)?.strip_prefix(": "));
        match named.unwrap_or(&self.because) {
            "" => format!("{head}."),
            because => format!("{head}: {because}."),
        }
    }

    /// Whether the answer is clear, or sure within this fraction, or no number of runs can make it so.
    pub fn is_settled(&self, within: f64) -> bool {
        !self.more_runs_help
            || self.confidence == Confidence::Clear
            || self.may_differ_by.is_some_and(|by| by <= within)
    }

    /// Words an answer.
    pub(crate) fn of(field: &Field<'_>, found: &Answer) -> Verdict {
        let axes = Axes::of_rows(field.rows);
        let name = |i: usize| field.rows[i].name(axes);
        let words = Words { field, found, axes };
        let pick: &RankingRow = &field.rows[found.pick];
        let lower = |gain: f64| rounded(-libm::expm1(-gain));
        let gains = || found.alternatives.iter().filter_map(|i| found.of(*i));
        let best = gains().map(|of| of.gain).fold(0.0, f64::max);
        let worst = gains().map(|of| of.gain).fold(0.0, f64::min);
        let shown = match found.decision {
            Decision::Change => found.of(found.pick),
            _ => gains().reduce(|a, b| if b.gain > a.gain { b } else { a }),
        };
        let decisive = match found.decision {
            Decision::Change => Some(found.pick),
            _ => found.within_model_error.or_else(|| found.alternatives.first().copied()),
        };
        let error = decisive.and_then(|i| field.model_error(i));
        let (caveats, weakened_by) = words.caveats();
        let change = found.decision == Decision::Change;
        let tie = |i: &&usize| found.of(**i).is_some_and(|of| of.hi > -crate::answer::HARMFUL && **i != found.pick);
        Verdict {
            decision: found.decision,
            incumbent: name(field.incumbent),
            recommended: change.then(|| pick.scheduler.clone()),
            confidence: found.confidence,
            certainty: words.certainty(),
            headline: words.headline(),
            because: words.because(),
            brief: words.brief(),
            trades: words.trades(),
            why: why(field, found),
            frontier: frontier(field, found, axes),
            rate: Rates::words(&field.objective.rates),
            next: words.next(),
            enough_s: found.short.as_ref().and_then(|short| short.seconds),
            gain: shown.map(|of| [of.gain, of.lo, of.hi].map(rounded)),
            load_kind: error.map(|error| error.load),
            model_error: error.and_then(|error| error.of_differences).map(|of| rounded(of.worth)),
            decided_by: field.objective.primary(field.goal).key().to_owned(),
            pool: std::iter::once(field.incumbent).chain(found.alternatives.iter().copied()).map(name).collect(),
            pool_rule: Rates::words(&field.objective.rates),
            ties: found.alternatives.iter().filter(tie).map(|i| name(*i)).collect(),
            may_be_better_by: found.may_gain().filter(|_| !change).map(|most| lower(most.max(0.0))),
            may_differ_by: shown.filter(|of| of.n > 1).map(|of| rounded((of.hi - of.lo) / 2.0)),
            more_runs_help: found.more_runs_help(),
            spread: shown.map(|_| lower(best - worst)),
            usage: found.usage,
            completion: pick.completion.clone(),
            via: pick.via.clone(),
            apply: Vec::new(),
            undo: Vec::new(),
            caveats,
            weakened_by,
        }
    }
}

/// Logarithms differ between platforms in the last bits, and results must not.
fn rounded(fraction: f64) -> f64 {
    (fraction * 1e5).round() / 1e5
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
