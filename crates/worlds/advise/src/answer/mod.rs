//! The answer: keep what is set, or change it. One objective for each run, the differences from the incumbent with bounds, and a rule.

mod class;
mod estimate;
mod field;
mod frontier;
mod losses;
mod model_error;
mod objective;
mod rates;
mod rule;
mod short;
mod why;
mod words;

use serde::{Deserialize, Serialize};

pub(crate) use class::{ClassAnswer, OnModels, of_class};
pub(crate) use estimate::Against;
pub(crate) use field::{Answer, Field};
pub use frontier::FrontierMember;
pub(crate) use frontier::{frontier, rounded};
pub use losses::Losing;
pub(crate) use losses::losses;
pub(crate) use objective::Objective;
pub use rates::Rates;
pub(crate) use rule::{answer, incumbent, rates};
pub(crate) use short::raised_s;
pub(crate) use why::why;
pub(crate) use words::{Words, change_text};

/// A gain that is worth a change: as much as a latency that is 5 % lower.
pub(crate) const USEFUL_GAIN: f64 = 0.05;
/// A loss that is not to be risked.
pub(crate) const HARMFUL: f64 = 0.03;
/// Up to this a missed gain is unlikely to matter.
pub(crate) const LIKELY_GAIN: f64 = 0.15;
/// Alternatives that are nearer than this in worth are as good.
pub(crate) const NEAR: f64 = 0.03;
/// One beats another in latency or throughput by more than this.
pub(crate) const BEATEN_BY: f64 = 0.03;

/// What to do about what is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// No alternative is shown to be worth a change.
    Keep,
    /// One is.
    Change,
    /// One is on some drives of the class, and not on others.
    Depends,
    /// The runs can carry none of these.
    TooShort,
}

impl Decision {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Decision::Keep => "keep",
            Decision::Change => "change",
            Decision::Depends => "depends",
            Decision::TooShort => "too-short",
        }
    }
}

#[cfg(test)]
mod tests;
