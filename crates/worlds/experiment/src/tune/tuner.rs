//! A whole search, on every device of an experiment, without a loop.

use std::sync::Arc;

use dumbwaiter_advise::tune::{HELD_OUT_FROM, TUNE_SCHEMA, Trial, TunedDevice, Tuning};
use dumbwaiter_block::Nanos;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::load::Prepared;

use super::TuneOptions;
use super::device_search::DeviceSearch;
use crate::command::with_option;
use crate::{Cell, Control, Experiment, Failure, World, left_out};

/// A run of a search: the number of its device, and the trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunerTrial {
    device: usize,
    trial: Trial,
}

/// A search for better settings, on each device by itself.
pub struct Tuner {
    searches: Vec<DeviceSearch>,
    notes: Vec<String>,
    /// The command that compares the schedulers; empty where there is none.
    compare: String,
    /// The document without what was found.
    tuning: Tuning,
}

impl Tuner {
    /// Prepares the search in a world.
    ///
    /// # Errors
    /// An experiment that cannot run in it, no scheduler to search, or a budget below the smallest search.
    pub fn new(
        experiment: &Experiment,
        options: &TuneOptions,
        world: &dyn World,
        control: &Control,
    ) -> Result<Tuner, Failure> {
        let about = world.about();
        let scenario = &experiment.scenario;
        let load = Arc::new(Prepared::unless(scenario, &|| control.cancelled())?);
        let mut notes = experiment.notes.clone();
        notes.extend(left_out::check(&load, world, &about, control)?);
        notes.extend(about.notes.iter().cloned());
        notes.extend(load.notes.iter().cloned());
        let devices = match &about.device {
            Some(device) => vec![device.clone()],
            None => scenario.devices.clone(),
        };
        // The devices share the budget.
        let budget = options.budget.runs.map(|runs| Nanos(runs.0 / devices.len().max(1) as u64));
        let search =
            |device: &String| DeviceSearch::new(&load, device, (&about, world), experiment.goal, options, budget);
        let tuning = Tuning {
            schema: TUNE_SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command(experiment, options),
            goal: experiment.goal.name().to_owned(),
            seed: scenario.seed,
            scenario: serde_json::to_value(scenario).map_err(Failure::refused)?,
            ended_early: None,
            devices: Vec::new(),
            notes: Vec::new(),
        };
        let searches = devices.iter().map(search).collect::<Result<_, _>>()?;
        let compare = if about.real { String::new() } else { experiment.command.clone() };
        Ok(Tuner { searches, notes, compare, tuning })
    }

    /// The runs to make next, in any order and at the same time; none when the search is over.
    pub fn next_trials(&mut self) -> Vec<TunerTrial> {
        let of = |(device, search): (usize, &mut DeviceSearch)| {
            search.search.next_trials().into_iter().map(move |trial| TunerTrial { device, trial })
        };
        self.searches.iter_mut().enumerate().flat_map(of).collect()
    }

    /// Runs that have a result, and runs that the whole search makes at most.
    pub fn progress(&self) -> (usize, usize) {
        let sum = |of: fn(&DeviceSearch) -> usize| self.searches.iter().map(of).sum();
        (sum(|s| s.search.runs()), sum(|s| s.search.planned()))
    }

    /// The cell of a trial, for a world of this process.
    pub fn cell(&mut self, trial: &TunerTrial) -> Cell {
        self.searches[trial.device].cell(&trial.trial)
    }

    /// The trial as text, for [`super::run_trial`] in another process. Traces and device files must be there too.
    ///
    /// # Errors
    /// A scenario that cannot be written.
    pub fn remote(&self, trial: &TunerTrial) -> Result<String, Failure> {
        self.searches[trial.device].remote(&trial.trial)
    }

    /// Stores the result of a trial.
    pub fn record(&mut self, trial: &TunerTrial, run: RunResult) {
        self.searches[trial.device].search.record(&trial.trial, run);
    }

    /// The results so far. `ended_early` says why the search ended before its time, and `notes` are added to the remarks.
    ///
    /// # Errors
    /// Nothing was found yet.
    pub fn finish(&self, ended_early: Option<&str>, notes: Vec<String>) -> Result<Tuning, Failure> {
        let mut devices: Vec<_> = self.searches.iter().filter_map(|search| search.found(ended_early)).collect();
        for found in devices.iter_mut().filter(|found| !found.keep && !self.compare.is_empty()) {
            found.check = check(&self.compare, found, self.tuning.seed);
        }
        if devices.is_empty() {
            let why = ended_early.unwrap_or("no result");
            return Err(Failure::interrupted(format!("{why} before the defaults had run")));
        }
        let ended_early = ended_early.map(str::to_owned);
        let notes = self.notes.iter().cloned().chain(notes).collect();
        Ok(Tuning { devices, ended_early, notes, ..self.tuning.clone() })
    }
}

/// Commands that make the runs of a claim again: one where only the scheduler differs, else one for each side.
fn check(compare: &str, found: &TunedDevice, seed: u64) -> Vec<String> {
    let replicates = found.claim.as_ref().map_or(1, |claim| claim.held_out.len());
    let seeds = [("--seed", (seed + u64::from(HELD_OUT_FROM)).to_string()), ("--replicates", replicates.to_string())];
    let command = |schedulers: &str| {
        let base = with_option(compare, "--device", &found.device);
        let base = with_option(&base, "--schedulers", schedulers);
        seeds.iter().fold(base, |command, (name, value)| with_option(&command, name, value))
    };
    let limits = [
        ("--nr-requests", found.nr_requests),
        ("--queue-depth", found.queue_depth),
        ("--read-ahead-kb", found.read_ahead_kb),
    ];
    let limits: Vec<_> = limits.into_iter().filter_map(|(name, value)| Some((name, value?.to_string()))).collect();
    if limits.is_empty() {
        return vec![command(&format!("{},{}", found.defaults, found.recommended))];
    }
    let own = command(&found.recommended);
    let own = limits.iter().fold(own, |command, (name, value)| with_option(&command, name, value));
    vec![command(&found.defaults), own]
}

/// A command that makes the same search.
fn command(experiment: &Experiment, options: &TuneOptions) -> String {
    let mut text = experiment.command.replacen("dumbwaiter compare", "dumbwaiter tune", 1);
    if text.is_empty() {
        return text;
    }
    for spec in &options.schedulers {
        text += &format!(" --scheduler {spec}");
    }
    if let Some(budget) = options.budget.runs {
        text += &format!(" --budget {}ms", budget.0 / 1_000_000);
    }
    text
}
