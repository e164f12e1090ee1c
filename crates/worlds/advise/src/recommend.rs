//! The recommendation of one device in a sentence, as results have it since schema 2; [`crate::Verdict`] holds the same by parts.

use crate::criterion::Goal;
use serde::{Deserialize, Serialize};

/// The scheduler that leads on one device, with the reason and the caveats.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recommendation {
    /// Name of the device.
    pub device: String,
    /// Name of the variant of the scenario; empty if it has none.
    pub variant: String,
    /// The goal that the schedulers were ranked by.
    pub goal: Goal,
    /// The scheduler that leads; [`crate::Verdict::recommended`] says whether to set it.
    pub scheduler: String,
    /// Its completion method.
    #[serde(default)]
    pub completion: String,
    /// Its block layer: `sim`, `engine` or `kernel`.
    #[serde(default)]
    pub via: String,
    /// [`crate::Metric::key`] of the metric that decided.
    pub metric: String,
    /// [`crate::Focus::name`] of the requests whose latency counted.
    pub focus: String,
    /// What to do, and why, as one sentence.
    pub sentence: String,
    /// The reason, a clause without a full stop.
    pub reason: String,
    /// Arguments against it, most important first; never empty.
    pub caveats: Vec<String>,
}
