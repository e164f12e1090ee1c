//! `recommendation` in the JSON of results: the verdict on one device as one object, for readers of that field.

use crate::goal::Goal;
use crate::ranking::Ranking;
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
    /// The recommendation and its reason, as one sentence.
    pub sentence: String,
    /// The reason, a clause without a full stop.
    pub reason: String,
    /// Arguments against it, most important first; never empty.
    pub caveats: Vec<String>,
}

impl Recommendation {
    /// That of a ranking.
    pub(crate) fn of(ranking: &Ranking) -> Recommendation {
        let (leader, verdict) = (&ranking.rows[0], &ranking.verdict);
        Recommendation {
            device: ranking.device.clone(),
            variant: ranking.variant.clone(),
            goal: ranking.goal,
            scheduler: leader.scheduler.clone(),
            completion: leader.completion.clone(),
            via: leader.via.clone(),
            metric: ranking.metric.key().to_owned(),
            focus: ranking.focus.name(),
            sentence: verdict.sentence(),
            reason: verdict.because.clone(),
            caveats: verdict.caveats.clone(),
        }
    }
}
