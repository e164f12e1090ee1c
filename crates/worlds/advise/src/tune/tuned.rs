//! The result of a search as a document, with the commands that apply it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::candidate::Candidate;
use super::claim::Claim;
use super::elsewhere::{AnotherDrive, lower};
use super::search::{Choice, Outcome};
use super::words;
use crate::answer::{Losing, Rates};
use crate::apply::{Attribute, Commands, TargetDrive, commands_with};
use crate::metric::Metric;

/// Version of the JSON format.
pub const TUNE_SCHEMA: u64 = 1;

/// The result of `tune`. Its serde form is the JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Tuning {
    /// [`TUNE_SCHEMA`].
    pub schema: u64,
    /// Version of the program.
    pub version: String,
    /// A command that makes the same search; empty where it was not read from files.
    pub command: String,
    /// The goal, by its name.
    pub goal: String,
    /// Seed of the search and of the first replicate.
    pub seed: u64,
    /// The scenario with its defaults filled in.
    pub scenario: Value,
    /// Why it ended early: `interrupted`, `time`; `null` where it is complete.
    pub ended_early: Option<String>,
    /// The results, by device.
    pub devices: Vec<TunedDevice>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// The result on one device.
#[derive(Clone, Debug, Serialize)]
pub struct TunedDevice {
    /// Name of the device.
    pub device: String,
    /// The defaults are as good, or nothing is confirmed: nothing is to be changed.
    pub keep: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// The recommended setting, as `compare --schedulers` takes it; the defaults where nothing is to be changed.
    pub recommended: String,
    /// The scheduler of `recommended`.
    pub scheduler: String,
    /// Its settings that differ from the defaults, by name.
    pub settings: BTreeMap<String, String>,
    /// Requests that the scheduler may hold; `null`: not changed.
    pub nr_requests: Option<u32>,
    /// Commands that the drive holds at once; `null`: not changed.
    pub queue_depth: Option<u32>,
    /// KiB that the kernel reads ahead; `null`: not changed.
    pub read_ahead_kb: Option<u32>,
    /// What is set, with which the claim compares.
    pub defaults: String,
    /// The best candidate, whether it is recommended or not.
    pub best: Candidate,
    /// [`Metric::key`] of the figure that decided.
    pub decided_by: String,
    /// The result in a sentence.
    pub sentence: String,
    /// The gain of the best candidate with held-out seeds; `null` where none beats the defaults in the search.
    pub claim: Option<Claim>,
    /// How it compares in other figures.
    pub others: Vec<Claim>,
    /// How much more it is worth with held-out seeds at the exchange rate: as it looks, and at least, each as a lower latency, a
    /// fraction; `null` where none was tried.
    pub gain: Option<TunedGain>,
    /// What gets worse by over 5 %, and not by chance.
    pub losses: Vec<Losing>,
    /// What it is worth on another drive of the class; `null` where it was not tried.
    pub another_drive: Option<AnotherDrive>,
    /// What half the latency is worth, in words.
    pub rate: String,
    /// Commands that set it now and at every boot, for a user with sudo; empty where nothing is to be changed.
    pub apply: Vec<String>,
    /// Commands that take that back.
    pub undo: Vec<String>,
    /// The udev rule by itself; empty where nothing is to be changed.
    pub udev_rule: String,
    /// Commands that make the runs of the claim again; empty where nothing is to be changed, and for a real drive.
    pub check: Vec<String>,
    /// Candidates that were tried, defaults included.
    pub candidates: usize,
    /// Runs that were made.
    pub runs: usize,
    /// The candidates of the last finished round, best first.
    pub tried: Vec<Tried>,
}

/// What a candidate is worth.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TunedGain {
    /// As much as a latency that is lower by this fraction.
    pub worth: f64,
    /// At least, with 95 % confidence; below 0 where it may be a loss.
    pub at_least: f64,
    /// Change of the latency of the focus, as a fraction; `null` without one.
    pub latency_change: Option<f64>,
    /// Change of the throughput, as a fraction.
    pub throughput_change: Option<f64>,
}

/// A candidate of the last round.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// The candidate.
    pub candidate: String,
    /// Runs of it in that round.
    pub runs: usize,
    /// Mean of the figure that decided there; `null` where it is undefined.
    pub figure: Option<f64>,
    /// Mean throughput, MB/s.
    pub mb_per_s: Option<f64>,
}

/// Where a result is applied.
pub struct Applied<'a> {
    /// Name of the device.
    pub device: &'a str,
    /// The drive.
    pub place: TargetDrive,
    /// Schedulers that its kernel offers.
    pub offered: &'a [String],
    /// The depth to go back to, where it is known.
    pub previous_queue_depth: Option<u32>,
    /// Another drive of the class, on which the recommendation was tried.
    pub another: Option<&'a str>,
}

/// The result of a search, in words and with commands. `ended_early` says why it ended before its time.
pub fn tuned(
    at: &Applied<'_>,
    choice: &Choice,
    candidates: usize,
    runs: usize,
    ended_early: Option<&str>,
    rates: &Rates,
) -> TunedDevice {
    let better = choice.outcome == Outcome::Better;
    let recommended = if better { &choice.best } else { &choice.defaults };
    let settable = at.offered.contains(&recommended.scheduler.name);
    let commands = if better && settable { apply(at, recommended) } else { no_commands() };
    let metric = choice.claim.as_ref().map(|claim| claim.metric.clone());
    let metric = metric.or_else(|| choice.ranking.as_ref().map(|ranking| ranking.metric.key().to_owned()));
    let tried = choice.ranking.iter().flat_map(|ranking| {
        ranking.rows.iter().map(|row| Tried {
            candidate: row.scheduler.clone(),
            runs: row.replicates,
            figure: finite(row.mean(ranking.metric)),
            mb_per_s: finite(row.mean(Metric::MbPerS)),
        })
    });
    let another = at.another.zip(choice.elsewhere).map(|(device, worth)| AnotherDrive::of(device, worth));
    let mut sentence = words::sentence(choice, candidates, ended_early, rates);
    if let Some(another) = another.as_ref().filter(|_| better) {
        sentence = words::with_another(&sentence, another);
    }
    if better && !settable {
        sentence += &format!(" A current kernel has no {}; `dumbwaiter serve` does.", recommended.scheduler.name);
    }
    TunedDevice {
        device: at.device.to_owned(),
        keep: !better,
        outcome: choice.outcome,
        recommended: recommended.scheduler.to_string(),
        scheduler: recommended.scheduler.name.clone(),
        settings: recommended.scheduler.tunables.clone(),
        nr_requests: recommended.nr_requests,
        queue_depth: recommended.queue_depth,
        read_ahead_kb: recommended.read_ahead_kb,
        defaults: choice.defaults.to_string(),
        best: choice.best.clone(),
        decided_by: metric.unwrap_or_default(),
        sentence,
        claim: choice.claim.clone(),
        others: choice.others.clone(),
        gain: gain(choice),
        losses: choice.losses.clone(),
        another_drive: another.filter(|_| better),
        rate: rates.words(),
        apply: commands.apply,
        undo: commands.undo,
        udev_rule: commands.udev_rule,
        check: Vec::new(),
        candidates,
        runs,
        tried: tried.collect(),
    }
}

/// What Linux reads ahead by itself.
const READ_AHEAD_KB: u32 = 128;

fn apply(at: &Applied<'_>, set: &Candidate) -> Commands {
    let mut attributes = Vec::new();
    if let Some(value) = set.nr_requests {
        let previous = at.place.previous_nr_requests.clone();
        attributes.push(Attribute { path: "queue/nr_requests", value, previous });
    }
    if let Some(value) = set.queue_depth {
        let previous = at.previous_queue_depth.map(|depth| depth.to_string());
        attributes.push(Attribute { path: "device/queue_depth", value, previous });
    }
    if let Some(value) = set.read_ahead_kb {
        attributes.push(Attribute { path: "queue/read_ahead_kb", value, previous: Some(READ_AHEAD_KB.to_string()) });
    }
    commands_with(&at.place, &set.scheduler, &attributes)
}

fn gain(choice: &Choice) -> Option<TunedGain> {
    let found = choice.gain?;
    let of = |metric: Metric| {
        let all = choice.claim.iter().chain(&choice.others);
        all.filter(|claim| claim.metric == metric.key()).map(|claim| claim.change).find(|change| change.is_finite())
    };
    let latency_change = of(Metric::StartUp).or_else(|| of(Metric::FocusP99)).or_else(|| of(Metric::FocusMean));
    Some(TunedGain {
        worth: lower(found.gain),
        at_least: lower(found.at_least),
        latency_change,
        throughput_change: of(Metric::MbPerS),
    })
}

fn no_commands() -> Commands {
    Commands { apply: Vec::new(), undo: Vec::new(), udev_rule: String::new() }
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}
