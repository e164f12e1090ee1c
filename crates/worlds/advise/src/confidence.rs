//! How sure a verdict is.

use serde::{Deserialize, Serialize};

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// No other scheduler is better by more than 5 % (95 % confidence).
    Clear,
    /// None is better by more than 15 %, or single runs differ by more than 25 %.
    Likely,
    /// The schedulers do not differ by an amount of practical use.
    NoDifference,
    /// The runs cannot show which is better.
    Inconclusive,
}

impl Confidence {
    /// The word for people: `clear`, `no difference`.
    pub fn name(self) -> &'static str {
        match self {
            Confidence::Clear => "clear",
            Confidence::Likely => "likely",
            Confidence::NoDifference => "no difference",
            Confidence::Inconclusive => "inconclusive",
        }
    }
}
