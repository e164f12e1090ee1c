//! The search for better settings of schedulers, in any world.
//!
//! [`DeviceSearch`] is the search on one device without a loop: it names trials as text, which [`run_trial`] runs in this or another
//! process, and takes their results. [`tune`] is the loop on this machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dumbwaiter_advise::tune::{
    Applied, Candidate, Plan, Range, Search, Setting, Space, TUNE_SCHEMA, Trial, TunedDevice, Tuning, tuned,
};
use dumbwaiter_advise::{KERNEL_SCHEDULERS, Place};
use dumbwaiter_block::Nanos;
use dumbwaiter_load::Prepared;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::{Scenario, SchedulerSpec, Work};
use dumbwaiter_schedulers::{Choice, find};
use serde::{Deserialize, Serialize};

use crate::{About, Cell, Control, Experiment, Failure, Finished, Matrix, Stack, World, left_out};

/// How much a search may do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// Time that all runs cover together: virtual in a simulation, so that it bounds the search and not its result's
    /// repeatability. `None`: a fixed number of candidates.
    pub runs: Option<Nanos>,
    /// Time on the clock after which the search ends with the best so far.
    pub clock: Option<Duration>,
}

/// What a search varies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TuneOptions {
    /// The schedulers whose settings are searched; settings that they have stay as they are. Empty: those of the scenario that a
    /// kernel offers.
    pub schedulers: Vec<SchedulerSpec>,
    /// How much it may do.
    pub budget: Budget,
}

/// A search's document, and why it ended early if a run failed.
pub struct Tuned {
    /// What was found.
    pub tuning: Tuning,
    /// The failure of a run.
    pub failure: Option<Failure>,
}

/// A scheduler depth is searched at these values.
const NR_REQUESTS: &[i128] = &[16, 32, 128, 256, 512];
/// The depth of a SATA drive at these.
const QUEUE_DEPTHS: &[i128] = &[1, 2, 4, 8, 16];

/// The search on one device.
pub struct DeviceSearch {
    device: String,
    load: Arc<Prepared>,
    stack: Stack,
    search: Search,
    /// Loads by length and limits of the queue.
    loads: BTreeMap<(u32, Option<u32>, Option<u32>), Arc<Prepared>>,
    place: Place,
    offered: Vec<String>,
    depth: Option<u32>,
}

/// A run that another process can make.
#[derive(Serialize, Deserialize)]
struct RemoteTrial {
    scenario: serde_json::Value,
    device: String,
    scheduler: SchedulerSpec,
    replicate: u32,
}

/// The schedulers of a search.
fn schedulers(options: &TuneOptions, scenario: &Scenario, offered: &[String]) -> Result<Vec<SchedulerSpec>, Failure> {
    let given = if options.schedulers.is_empty() { &scenario.schedulers } else { &options.schedulers };
    let wanted: Vec<SchedulerSpec> = match options.schedulers.is_empty() {
        // A scheduler that is listed with other settings too is searched once.
        true => given.iter().filter(|s| offered.contains(&s.name)).map(|s| SchedulerSpec::named(&s.name)).collect(),
        false => given.clone(),
    };
    let mut different: Vec<SchedulerSpec> = Vec::new();
    for spec in wanted {
        if !different.contains(&spec) {
            different.push(spec);
        }
    }
    for spec in &different {
        Choice::parse(&spec.to_string()).map_err(|e| Failure::refused(format!("--scheduler: {e}")))?;
    }
    if different.is_empty() {
        let names = given.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(Failure::refused(format!(
            "the scenario has no scheduler that a kernel offers, only {names}; name one with --scheduler"
        )));
    }
    Ok(different)
}

/// What is searched of a scheduler: its settings that matter, and limits of the queue that can be set.
fn space(spec: &SchedulerSpec, scenario: &Scenario, sata_depth: Option<u32>) -> Space {
    let searched = find(&spec.name).map_or(&[][..], |entry| entry.searched());
    let free = searched.iter().filter(|s| !spec.tunables.contains_key(s.name));
    let mut ranges: Vec<Range> =
        free.map(|s| Range { setting: Setting::Tunable(s.name.to_owned()), values: s.values.to_vec() }).collect();
    // Without a scheduler the kernel has no depth of its own.
    if spec.name != "none" && scenario.nr_requests.is_none() {
        ranges.push(Range { setting: Setting::NrRequests, values: NR_REQUESTS.to_vec() });
    }
    if let Some(depth) = sata_depth.filter(|_| scenario.queue_depth.is_none()) {
        let values = QUEUE_DEPTHS.iter().copied().filter(|d| *d < i128::from(depth)).collect();
        ranges.push(Range { setting: Setting::QueueDepth, values });
    }
    Space { scheduler: spec.clone(), ranges }
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

impl DeviceSearch {
    /// A search on `device`, in a world that describes itself as `about`.
    ///
    /// # Errors
    /// No scheduler to search, or a budget below the smallest search.
    pub fn new(
        load: &Arc<Prepared>,
        device: &str,
        about: &About,
        goal: dumbwaiter_advise::Goal,
        options: &TuneOptions,
    ) -> Result<DeviceSearch, Failure> {
        let scenario = load.scenario();
        let offered: Vec<String> = match &about.drive {
            Some(drive) if !drive.offered.is_empty() => drive.offered.clone(),
            _ => KERNEL_SCHEDULERS.map(str::to_owned).to_vec(),
        };
        let schedulers = schedulers(options, scenario, &offered)?;
        let place = Place::of(about.drive.as_ref(), device);
        let model = if about.real { None } else { dumbwaiter_devices::load(device).ok() };
        // Of NVMe drives the depth cannot be set.
        let depth = model.filter(|_| place.disk.starts_with("sd")).map(|model| model.facts().depth);
        let spaces: Vec<Space> = schedulers.iter().map(|spec| space(spec, scenario, depth)).collect();
        let whole_runs = needs_whole_runs(scenario);
        let plan = match options.budget.runs {
            None => Plan::default_for(spaces.len(), whole_runs),
            Some(budget) => {
                let each = load.expected().ok_or_else(|| {
                    Failure::refused("--budget: the length of a run is not known beforehand; expected --duration too")
                })?;
                Plan::within(budget.0, each.0, spaces.len(), whole_runs).map_err(|needed| {
                    Failure::refused(format!("--budget {budget}: the smallest search covers {}", Nanos(needed)))
                })?
            }
        };
        let plan = if load.is_recorded() && !about.real { once(plan) } else { plan };
        Ok(DeviceSearch {
            device: device.to_owned(),
            load: Arc::clone(load),
            stack: about.stacks.first().copied().unwrap_or(Stack::Simulated),
            search: Search::new(&spaces, plan, goal, scenario.seed),
            loads: BTreeMap::new(),
            place,
            offered,
            depth,
        })
    }

    /// The search itself.
    pub fn search(&mut self) -> &mut Search {
        &mut self.search
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
        scenario
    }

    /// The cell of a trial, for a world of this process.
    pub fn cell(&mut self, trial: &Trial) -> Cell {
        let candidate = self.search.candidate(trial.candidate).clone();
        let Candidate { scheduler, nr_requests, queue_depth } = candidate;
        let key = (trial.length_percent, nr_requests, queue_depth);
        let load = match self.loads.get(&key) {
            Some(load) => Arc::clone(load),
            None => {
                let load = Arc::new(self.load.varied(self.scenario(trial)));
                self.loads.insert(key, Arc::clone(&load));
                load
            }
        };
        let completion = self.load.scenario().completion.first().copied().unwrap_or_default();
        Cell { completion, replicate: trial.replicate, ..Cell::of(&load, &self.device, self.stack, scheduler) }
    }

    /// The trial as text, for [`run_trial`] in another process. Traces and device files must be there too.
    ///
    /// # Errors
    /// A scenario that cannot be written.
    pub fn remote(&self, trial: &Trial) -> Result<String, Failure> {
        let remote = RemoteTrial {
            scenario: serde_json::to_value(self.scenario(trial)).map_err(Failure::refused)?,
            device: self.device.clone(),
            scheduler: self.search.candidate(trial.candidate).scheduler.clone(),
            replicate: trial.replicate,
        };
        serde_json::to_string(&remote).map_err(Failure::refused)
    }

    /// What the search found so far; `None` before the defaults have run.
    pub fn found(&self, ended_early: Option<&str>) -> Option<TunedDevice> {
        let at = Applied {
            device: &self.device,
            place: self.place.clone(),
            offered: &self.offered,
            previous_queue_depth: self.depth,
        };
        let choice = self.search.choice()?;
        Some(tuned(&at, &choice, self.search.candidates(), self.search.runs(), ended_early))
    }
}

/// Each candidate once, over the whole of what was recorded: the same run again shows nothing new.
fn once(mut plan: Plan) -> Plan {
    for rung in &mut plan.rungs {
        rung.replicates = 1;
    }
    plan.held_out = 1;
    plan
}

/// Runs a trial that [`DeviceSearch::remote`] wrote.
///
/// # Errors
/// Text that is no trial, or a run that fails.
pub fn run_trial(text: &str, world: &dyn World, control: &Control) -> Result<RunResult, Failure> {
    let trial: RemoteTrial = serde_json::from_str(text).map_err(|e| Failure::refused(format!("not a trial: {e}")))?;
    let scenario: Scenario = serde_json::from_value(trial.scenario).map_err(Failure::refused)?;
    let load = Arc::new(Prepared::unless(&scenario, &|| control.cancelled())?);
    let completion = scenario.completion.first().copied().unwrap_or_default();
    let of = Cell::of(&load, &trial.device, Stack::Simulated, trial.scheduler);
    let result = world.run(&Cell { completion, replicate: trial.replicate, ..of }, control)?;
    match result.failure {
        Some(failure) => Err(failure),
        None if result.cancelled => Err(Failure::interrupted("interrupted")),
        None => Ok(result.run),
    }
}

/// Searches better settings on each device of the experiment. The seed is the scenario's; results do not depend on the number of jobs.
///
/// # Errors
/// An experiment that cannot run, or one that ended before the defaults had run.
pub fn tune(
    experiment: &Experiment,
    options: &TuneOptions,
    world: &dyn World,
    control: &Control,
) -> Result<Tuned, Failure> {
    let about = world.about();
    let scenario = &experiment.scenario;
    let load = Arc::new(Prepared::unless(scenario, &|| control.cancelled())?);
    let warnings = left_out::check(&load, world, &about, control)?;
    let devices = match &about.device {
        Some(device) => vec![device.clone()],
        None => scenario.devices.clone(),
    };
    let mut found = Vec::new();
    let mut failure = None;
    let timed_out = AtomicBool::new(false);
    let ended = AtomicBool::new(false);
    let searched: Result<(), Failure> = std::thread::scope(|scope| {
        if let Some(limit) = options.budget.clock {
            let (timed_out, ended) = (&timed_out, &ended);
            scope.spawn(move || end_after(limit, control, timed_out, ended));
        }
        let all = devices.iter().try_for_each(|device| {
            let mut search = DeviceSearch::new(&load, device, &about, experiment.goal, options)?;
            failure = run_search(&mut search, world, control)?;
            let early = ended_early(control, &timed_out, failure.as_ref());
            match search.found(early) {
                Some(device) => found.push(device),
                None if found.is_empty() => return Err(nothing(failure.take(), early)),
                None => {}
            }
            if early.is_some() { Err(Failure::interrupted("")) } else { Ok(()) }
        });
        ended.store(true, Ordering::Relaxed);
        all
    });
    if let Err(error) = searched
        && found.is_empty()
    {
        return Err(error);
    }
    let mut runs: Vec<RunResult> = Vec::new();
    let concluded = world.conclude(&mut runs, control)?;
    let mut notes = experiment.notes.clone();
    notes.extend(warnings);
    notes.extend(about.notes.iter().cloned());
    notes.extend(load.notes.iter().cloned());
    notes.extend(concluded);
    let early = ended_early(control, &timed_out, failure.as_ref());
    let tuning = Tuning {
        schema: TUNE_SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command(experiment, options),
        goal: experiment.goal.name().to_owned(),
        seed: scenario.seed,
        scenario: serde_json::to_value(scenario).map_err(Failure::refused)?,
        ended_early: early.map(str::to_owned),
        devices: found,
        notes,
    };
    Ok(Tuned { tuning, failure })
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

/// Why a search ends before its time.
fn ended_early(control: &Control, timed_out: &AtomicBool, failure: Option<&Failure>) -> Option<&'static str> {
    match (failure, timed_out.load(Ordering::Relaxed), control.cancelled()) {
        (Some(_), ..) => Some("a run failed"),
        (None, true, _) => Some("time is over"),
        (None, false, true) => Some("interrupted"),
        (None, false, false) => None,
    }
}

fn nothing(failure: Option<Failure>, early: Option<&str>) -> Failure {
    let why = early.unwrap_or("no result");
    failure.unwrap_or_else(|| Failure::interrupted(format!("{why} before the defaults had run")))
}

/// Cancels the runs after `limit`.
fn end_after(limit: Duration, control: &Control, timed_out: &AtomicBool, ended: &AtomicBool) {
    let began = Instant::now();
    while !ended.load(Ordering::Relaxed) {
        if began.elapsed() >= limit && !control.cancelled() {
            timed_out.store(true, Ordering::Relaxed);
            control.cancel.store(true, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a search to its end, or until it is cancelled or a run fails.
fn run_search(search: &mut DeviceSearch, world: &dyn World, control: &Control) -> Result<Option<Failure>, Failure> {
    loop {
        let trials = search.search().next();
        if trials.is_empty() {
            return Ok(None);
        }
        let cells: Vec<Cell> = trials.iter().map(|trial| search.cell(trial)).collect();
        if let Some(Err(refusal)) = cells.iter().map(|cell| world.supports(cell)).find(Result::is_err) {
            return Err(Failure::refused(refusal.0));
        }
        let mut matrix = Matrix::new(cells);
        let finished = matrix.run(world, control);
        for (i, trial) in trials.iter().enumerate() {
            if let Some(result) = matrix.result(i) {
                search.search().record(trial, result.run.clone());
            }
        }
        match finished {
            Finished::All => {}
            Finished::Cancelled => return Ok(None),
            Finished::Failed(failure) => return Ok(Some(failure)),
        }
    }
}
