//! The search on one device.

use std::collections::BTreeMap;
use std::sync::Arc;

use dumbwaiter_advise::tune::{
    Applied, Candidate, LoadKind, RunTime, Search, Space, Trial, TunePlan, TunedDevice, tuned,
};
use dumbwaiter_advise::{Goal, KERNEL_SCHEDULERS, Provenance, TargetDrive};
use dumbwaiter_block::Nanos;
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_scenario::{Scenario, SchedulerSpec, Work};

use super::TuneOptions;
use super::space::{Settable, schedulers, space};
use super::trial::RemoteTrial;
use crate::classes::another_of_class;
use crate::models::models;
use crate::plan::OVERHEAD;
use crate::{About, Cell, Failure, Stack, World};

/// Length of a run in percent, and what a candidate sets of the queue and the host.
type Length = (u32, Option<u32>, Option<u32>, Option<u32>);

/// The search on one device.
pub(super) struct DeviceSearch {
    device: String,
    load: Arc<Prepared>,
    stack: Stack,
    pub(super) search: Search,
    /// Loads by length and limits of the queue.
    loads: BTreeMap<Length, Arc<Prepared>>,
    place: TargetDrive,
    offered: Vec<String>,
    depth: Option<u32>,
    /// Another drive of the class, on which a recommendation is tried.
    another: Option<&'static str>,
}

/// Whether a shorter run would be another load: applications start, tasks come and go, or everything runs to its end.
fn needs_whole_runs(scenario: &Scenario) -> bool {
    let varies = scenario.tasks().any(|(tenant, task)| {
        matches!(task.work, Work::App(_))
            || task.start > Nanos::ZERO
            || task.stop.is_some()
            || task.stage > 0
            || !task.changes.is_empty()
            || !tenant.changes.is_empty()
    });
    varies || scenario.duration.is_none() || !scenario.changes.is_empty()
}

/// What is set. A single scheduler that somebody names for a simulation is taken as that.
fn incumbent(
    options: &TuneOptions,
    real: bool,
    place: &TargetDrive,
    schedulers: &[SchedulerSpec],
) -> Option<Candidate> {
    let named = options.incumbent.as_deref().and_then(|name| SchedulerSpec::parse(name).ok());
    let set = || SchedulerSpec::parse(&place.previous).ok();
    let searched = (!real && !options.schedulers.is_empty()).then(|| schedulers.first().cloned()).flatten();
    let default = set().filter(|set| schedulers.contains(set));
    named.or_else(|| if real { set() } else { default.or(searched).or_else(set) }).map(Candidate::of)
}

impl DeviceSearch {
    /// A search on `device`, in a world and what it says of itself. `budget`: time for its runs.
    ///
    /// # Errors
    /// No scheduler to search, or a budget below the smallest search.
    pub(super) fn new(
        load: &Arc<Prepared>,
        device: &str,
        (about, world): (&About, &dyn World),
        goal: Goal,
        options: &TuneOptions,
        budget: Option<Nanos>,
    ) -> Result<DeviceSearch, Failure> {
        let scenario = load.scenario();
        let offered: Vec<String> = match &about.drive {
            Some(drive) if !drive.offered.is_empty() => drive.offered.clone(),
            _ => KERNEL_SCHEDULERS.map(str::to_owned).to_vec(),
        };
        let schedulers = schedulers(options, scenario, &offered)?;
        let models = if about.real { Default::default() } else { models(&[device.to_owned()]) };
        let place =
            TargetDrive::of(&Provenance { drive: about.drive.clone(), models, ..Provenance::default() }, device);
        let model = if about.real { None } else { dumbwaiter_devices::load(device).ok() };
        // Of NVMe drives the depth cannot be set.
        let depth = model.filter(|_| place.disk.starts_with("sd")).map(|model| model.facts().depth);
        let stack = about.stacks.first().copied().unwrap_or(Stack::Simulated);
        // What this kernel has not is not searched.
        let takes = |spec: SchedulerSpec| {
            let engine = about.real && stack != Stack::Kernel;
            !engine && world.supports(&Cell::of(load, device, stack, spec)).is_ok()
        };
        let settable = Settable { sata_depth: depth, read_ahead: !about.real, takes: &takes };
        let spaces: Vec<Space> = schedulers.iter().map(|spec| space(spec, scenario, settable)).collect();
        let another = if about.real { None } else { another_of_class(device) };
        let incumbent = incumbent(options, about.real, &place, &schedulers);
        let kind = LoadKind { whole_runs: needs_whole_runs(scenario), repeats: load.is_recorded() && !about.real };
        let plan = match budget {
            None => TunePlan::default_for(spaces.len(), kind),
            Some(budget) => {
                let each = load.expected().ok_or_else(|| {
                    Failure::refused("--budget: the length of a run is not known beforehand; expected --duration too")
                })?;
                let fixed = if scenario.duration.is_some() { scenario.warmup } else { Nanos::ZERO };
                let start = if about.real { OVERHEAD } else { Nanos::ZERO };
                let run = RunTime { fixed_ns: (fixed + start).0, measured_ns: each.0 - fixed.0 };
                TunePlan::within(budget.0, run, spaces.len(), kind, 1 + u64::from(another.is_some())).map_err(|needed| {
                    let needed = Nanos(needed);
                    Failure::refused(format!(
                        "the smallest search covers {needed} of runs, and the budget for {device} is {budget}; expected a longer --budget, or with --on a longer --for"
                    ))
                })?
            }
        };
        let search = Search::new(&spaces, incumbent, plan, goal, scenario.seed).with_rate(options.rate);
        Ok(DeviceSearch {
            device: device.to_owned(),
            load: Arc::clone(load),
            stack,
            search: match another {
                Some(_) => search.with_another_drive(),
                None => search,
            },
            another,
            loads: BTreeMap::new(),
            place,
            offered,
            depth,
        })
    }

    /// The scenario of a trial.
    fn scenario(&self, trial: &Trial) -> Scenario {
        let candidate = self.search.candidate(trial.candidate);
        let mut scenario = self.load.scenario().clone();
        let part = |time: Nanos| Nanos(time.0 / 100 * u64::from(trial.length_percent));
        if trial.length_percent < 100 {
            scenario.duration = scenario.duration.map(part);
        }
        scenario.nr_requests = candidate.nr_requests.or(scenario.nr_requests);
        scenario.queue_depth = candidate.queue_depth.or(scenario.queue_depth);
        scenario.host.read_ahead_kb = candidate.read_ahead_kb.or(scenario.host.read_ahead_kb);
        scenario
    }

    /// The cell of a trial, for a world of this process.
    pub(super) fn cell(&mut self, trial: &Trial) -> Cell {
        let candidate = self.search.candidate(trial.candidate).clone();
        let Candidate { scheduler, nr_requests, queue_depth, read_ahead_kb } = candidate;
        let key = (trial.length_percent, nr_requests, queue_depth, read_ahead_kb);
        let load = match self.loads.get(&key) {
            Some(load) => Arc::clone(load),
            None => {
                let load = Arc::new(self.load.varied(self.scenario(trial)));
                self.loads.insert(key, Arc::clone(&load));
                load
            }
        };
        let completion = self.load.scenario().completion.first().copied().unwrap_or_default();
        Cell { completion, replicate: trial.replicate, ..Cell::of(&load, self.device_of(trial), self.stack, scheduler) }
    }

    fn device_of(&self, trial: &Trial) -> &str {
        self.another.filter(|_| self.search.is_elsewhere(trial)).unwrap_or(&self.device)
    }

    /// The trial as text, for [`super::run_trial`] in another process. Traces and device files must be there too.
    ///
    /// # Errors
    /// A scenario that cannot be written.
    pub(super) fn remote(&self, trial: &Trial) -> Result<String, Failure> {
        let remote = RemoteTrial {
            scenario: serde_json::to_value(self.scenario(trial)).map_err(Failure::refused)?,
            device: self.device_of(trial).to_owned(),
            scheduler: self.search.candidate(trial.candidate).scheduler.clone(),
            replicate: trial.replicate,
        };
        remote.to_text()
    }

    /// The result so far; `None` before the defaults have run.
    pub(super) fn found(&self, ended_early: Option<&str>) -> Option<TunedDevice> {
        let at = Applied {
            device: &self.device,
            place: self.place.clone(),
            offered: &self.offered,
            previous_queue_depth: self.depth,
            another: self.another,
        };
        let choice = self.search.choice()?;
        let rates = self.search.rates();
        Some(tuned(&at, &choice, self.search.candidates(), self.search.runs(), ended_early, &rates))
    }
}
