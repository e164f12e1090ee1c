//! A decision about one disk with its inputs: one line of the log, one object of JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use dumbwaiter_controllers::switching::Reason;
use serde::Serialize;

use crate::load::LoadClass;

/// The action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Nothing: the settings stay.
    Keep,
    /// Nothing, but other settings are advised.
    Advise,
    /// Other settings were set.
    Switch,
    /// A switch was undone.
    Revert,
    /// The settings are as they were found.
    Restore,
    /// Another user has changed a setting: nothing is written any more.
    HandsOff,
    /// A change failed.
    Failed,
    /// The disk was found, or came back.
    Found,
    /// The disk is not there.
    Missing,
}

impl Action {
    /// Its word in the log.
    pub fn name(self) -> &'static str {
        match self {
            Action::Keep => "keep",
            Action::Advise => "advise",
            Action::Switch => "switch",
            Action::Revert => "revert",
            Action::Restore => "restore",
            Action::HandsOff => "hands-off",
            Action::Failed => "failed",
            Action::Found => "found",
            Action::Missing => "missing",
        }
    }
}

/// A candidate's score in trials, relative to the first baseline of its workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TrialScore {
    /// Mean.
    pub mean: f64,
    /// Standard error.
    pub standard_error: f64,
    /// Slots.
    pub samples: u32,
}

/// Activity of the disk since the last decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Completed reads and writes per second.
    pub iops: f64,
    /// Megabytes per second.
    pub mb_per_s: f64,
    /// Mean time of a request in the block layer and the device, milliseconds; none without requests.
    pub latency_ms: Option<f64>,
    /// Requests that are queued or in the device.
    pub in_flight: u64,
    /// Requests whose arrival was traced: a sample where the disk is busy.
    pub arrivals_seen: u64,
    /// Events for which the kernel's buffer had no room.
    pub lost_events: u64,
}

/// A decision about one disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// The disk's configured path.
    pub device: String,
    /// Seconds since the pilot began.
    pub at_s: f64,
    /// The action.
    pub action: Action,
    /// Why, in one word.
    pub reason: &'static str,
    /// The candidate in force before.
    pub from: String,
    /// The candidate in force now, or advised.
    pub to: String,
    /// Number of the workload among those met, as trials know it.
    pub workload: Option<usize>,
    /// Its name by the classifier.
    pub class: Option<LoadClass>,
    /// Activity of the disk.
    pub measured: Measured,
    /// Scores in trials of this workload.
    pub trials: BTreeMap<String, TrialScore>,
    /// Exchanges in the last hour, trials included.
    pub exchanges_last_hour: usize,
    /// How long the exchange took, milliseconds.
    pub took_ms: Option<f64>,
    /// Why, as a sentence.
    pub why: String,
}

impl Decision {
    /// One line of `key=value`.
    pub fn line(&self) -> String {
        let Decision { device, action, reason, from, to, measured, why, .. } = self;
        let mut line = format!("device={device} action={} reason={reason} from={from} to={to}", action.name());
        // Writing to a string cannot fail.
        if let Some(workload) = self.workload {
            let _ = write!(line, " workload={workload}");
        }
        if let Some(class) = &self.class {
            let _ = write!(line, " class={} confidence={:.2} windows={}", class.name, class.confidence, class.windows);
        }
        let _ = write!(line, " iops={:.0} mb_per_s={:.1}", measured.iops, measured.mb_per_s);
        if let Some(latency) = measured.latency_ms {
            let _ = write!(line, " latency_ms={latency:.2}");
        }
        let _ = write!(
            line,
            " in_flight={} seen={} lost={} exchanges_last_hour={}",
            measured.in_flight, measured.arrivals_seen, measured.lost_events, self.exchanges_last_hour
        );
        let trials: Vec<String> = self
            .trials
            .iter()
            .map(|(name, score)| format!("{name}:{:.3}±{:.3}/{}", score.mean, score.standard_error, score.samples))
            .collect();
        if !trials.is_empty() {
            let _ = write!(line, " trials={}", trials.join(","));
        }
        if let Some(took) = self.took_ms {
            let _ = write!(line, " took_ms={took:.1}");
        }
        let _ = write!(line, " why={why:?}");
        line
    }

    /// Whether it equals the last one apart from its figures.
    pub fn is_like(&self, last: &Decision) -> bool {
        let key = |d: &Decision| (d.action, d.reason, d.from.clone(), d.to.clone(), d.workload);
        key(self) == key(last)
    }
}

/// The policy's reason as a keyword and a sentence.
pub(crate) fn wording(reason: Reason) -> (&'static str, &'static str) {
    match reason {
        Reason::TooFewRequests => ("too-few-requests", "too few requests to tell what the load is"),
        Reason::NotInForce => ("not-in-force", "the last exchange has not taken effect"),
        Reason::Unsure => ("unsure", "the load may have changed; the next periods will confirm it"),
        Reason::BestKnown => ("best-known", "nothing better than the settings in force is known for this load"),
        Reason::Dwelling => ("dwelling", "better settings are known, but the last exchange was too recent"),
        Reason::Better => ("better", "these settings are better for this load, by what is known so far"),
        Reason::Trial => ("trial", "a trial compares candidates in short turns"),
        Reason::TrialOver => ("trial-over", "a trial is over and its best candidate stays"),
        Reason::Checking => ("checking", "the effect of the last exchange is being measured"),
        Reason::NoBudget => ("no-budget", "trials have used up their budget for now"),
        Reason::Unknown => ("unknown", "no table covers this load well enough, and trials are not allowed"),
        Reason::Revert => ("revert", "the last exchange lost more than it gained"),
    }
}
