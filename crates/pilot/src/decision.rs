//! A decision about one disk, with everything that went into it: one line of the log, one object of JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use dumbwaiter_policy::Reason;
use serde::Serialize;

use crate::load::LoadClass;

/// What was done.
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

/// What the disk did since the last decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Completed reads and writes per second.
    pub iops: f64,
    /// Megabytes per second.
    pub mb_per_s: f64,
    /// Mean time of a request in the block layer and the device, milliseconds; none without requests.
    pub latency_ms: Option<f64>,
    /// Requests that wait or are in the device.
    pub in_flight: u64,
    /// Requests whose arrival was seen: a sample where the disk is busy.
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
    /// What was done.
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
    /// What the disk did.
    pub measured: Measured,
    /// What trials have shown about this workload.
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

    /// Does it say what the last one said?
    pub fn is_like(&self, last: &Decision) -> bool {
        let key = |d: &Decision| (d.action, d.reason, d.from.clone(), d.to.clone(), d.workload);
        key(self) == key(last)
    }
}

/// The policy's reason as a word and a sentence.
pub(crate) fn told(reason: Reason) -> (&'static str, &'static str) {
    match reason {
        Reason::TooFewRequests => ("too-few-requests", "too few requests to tell what the load is"),
        Reason::NotInForce => ("not-in-force", "the exchange that was asked for is not done"),
        Reason::Unsure => ("unsure", "the load may have changed; it is looked at again"),
        Reason::BestKnown => ("best-known", "nothing better than the settings in force is known for this load"),
        Reason::Dwelling => ("dwelling", "better settings are known, but the last exchange was too recent"),
        Reason::Better => ("better", "these settings are better for this load, as far as is known"),
        Reason::Trial => ("trial", "a trial compares candidates in short turns"),
        Reason::TrialOver => ("trial-over", "a trial is over and its best candidate stays"),
        Reason::Checking => ("checking", "what the last exchange gave is being measured"),
        Reason::NoBudget => ("no-budget", "trials have cost as much as they may for now"),
        Reason::Unknown => ("unknown", "no table knows this load well enough, and nothing may be tried"),
        Reason::Revert => ("revert", "the last exchange cost more than it gave"),
    }
}
