//! The recommendation of a comparison for one device, and how sure it is.

use serde::{Deserialize, Serialize};

use crate::confidence::Confidence;
use crate::decision::{Decision, Field};
use crate::row::{Axes, RankingRow};
use crate::sentence::Words;
use crate::usage::Usage;

/// The verdict of a comparison on one device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The scheduler to set, with its settings; `null` where nothing is to be changed: no difference, or inconclusive.
    pub recommended: Option<String>,
    /// How sure that is.
    pub confidence: Confidence,
    /// The number behind it, in a clause: `each of the others is worse by at least 12 %`.
    pub certainty: String,
    /// The reason, a clause with its figures.
    pub because: String,
    /// [`crate::Metric::key`] of the figure that decided; where nothing did, of the first that could have.
    pub decided_by: String,
    /// The schedulers that competed: they can be set, starve nothing and keep the throughput.
    pub pool: Vec<String>,
    /// The throughput that they had to keep: `at least 90 % of the best throughput`.
    pub pool_rule: String,
    /// Of the pool: no significant or useful difference from the best.
    pub ties: Vec<String>,
    /// Another of the pool may be better by at most this fraction (95 % confidence); `null` where that is unknown.
    pub may_be_better_by: Option<f64>,
    /// The pool differs from the best by at most this fraction, either way (95 % confidence); `null` where that is unknown.
    pub may_differ_by: Option<f64>,
    /// More runs may change the verdict: it is not clear, and nothing else prevents it from being.
    pub more_runs_help: bool,
    /// How much worse the worst of those that are surely worse is than the leader by what decided, as a fraction.
    pub spread: Option<f64>,
    /// How busy the drive was.
    pub usage: Usage,
    /// The recommended scheduler's completion method.
    pub completion: String,
    /// Its block layer: `sim`, `engine` or `kernel`.
    pub via: String,
    /// Commands that set it now and at every boot, for a user with sudo; empty where nothing is to be changed.
    #[serde(default)]
    pub apply: Vec<String>,
    /// Commands that take that back.
    #[serde(default)]
    pub undo: Vec<String>,
    /// Caveats, most important first.
    #[serde(default)]
    pub caveats: Vec<String>,
}

impl Verdict {
    /// The verdict as a sentence: `Use kyber: …`.
    pub fn sentence(&self) -> String {
        match (&self.recommended, self.confidence) {
            (Some(name), Confidence::Likely) => format!("Probably use {name}: {}.", self.because),
            (Some(name), _) => format!("Use {name}: {}.", self.because),
            (None, Confidence::NoDifference) => format!("Keep what is set: {}.", self.because),
            (None, _) => format!("No recommendation: {}.", self.because),
        }
    }

    /// Whether the decision, or the tie, is sure within this fraction, or no number of runs can make it so.
    pub fn is_settled(&self, within: f64) -> bool {
        let at_most = |by: Option<f64>| by.is_some_and(|by| by <= within);
        !self.more_runs_help
            || match self.confidence {
                Confidence::Clear | Confidence::Likely => at_most(self.may_be_better_by),
                Confidence::NoDifference => at_most(self.may_differ_by),
                Confidence::Inconclusive => false,
            }
    }

    /// Words a decision.
    pub(crate) fn of(field: &Field<'_>, decision: &Decision) -> Verdict {
        let axes = Axes::of_rows(field.rows);
        let name = |i: usize| field.rows[i].name(axes);
        let words = Words { field, decision, axes };
        let leader: &RankingRow = &field.rows[decision.leader];
        let set = matches!(decision.confidence, Confidence::Clear | Confidence::Likely);
        let spread = decision.beaten.iter().map(|i| decision.worse[*i].by).filter(|by| by.is_finite());
        let spread = spread.fold(f64::NAN, f64::max);
        Verdict {
            recommended: set.then(|| leader.scheduler.clone()),
            confidence: decision.confidence,
            certainty: words.certainty(),
            because: words.because(),
            decided_by: decision.metric.key().to_owned(),
            pool: decision.pool.iter().map(|i| name(*i)).collect(),
            pool_rule: words.pool_rule(),
            ties: decision.ties.iter().map(|i| name(*i)).collect(),
            may_be_better_by: decision.may_be_better_by.map(rounded),
            may_differ_by: words.largest_difference().map(rounded),
            more_runs_help: decision.more_runs_help(),
            spread: spread.is_finite().then(|| rounded(spread)),
            usage: decision.usage,
            completion: leader.completion.clone(),
            via: leader.via.clone(),
            apply: Vec::new(),
            undo: Vec::new(),
            caveats: words.caveats(),
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
