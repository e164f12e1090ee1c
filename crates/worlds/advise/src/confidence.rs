//! How sure a verdict is.

use serde::{Deserialize, Serialize};

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Of a change: a useful part of the gain is certain. Of keeping: nothing gains a useful amount.
    Clear,
    /// Of a change: if it is not better, the loss is too small to matter. Of keeping: nothing gains more than 15 %.
    Likely,
    /// Nothing is claimed: another may gain more than 15 %.
    Open,
    /// Of a survey: the schedulers do not differ by an amount of practical use.
    NoDifference,
    /// Of a survey: the runs cannot show which is better.
    Inconclusive,
}

impl Confidence {
    /// The word for people: `clear`, `no difference`.
    pub fn name(self) -> &'static str {
        match self {
            Confidence::Clear => "clear",
            Confidence::Likely => "likely",
            Confidence::Open => "open",
            Confidence::NoDifference => "no difference",
            Confidence::Inconclusive => "inconclusive",
        }
    }
}
