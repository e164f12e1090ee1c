//! From a scenario to runs: one cell of the matrix is a device, a scheduler and a replicate.

use std::collections::BTreeMap;
use std::path::Path;

use dumbwaiter_block::{Config, Limits, Nanos, Setup, Tenant, TenantId, Tenants, TickClock};
use dumbwaiter_devices::{DeviceModel, Kind};
use dumbwaiter_measure::{
    CpuFacts, Ledger, Merges, Recorder, RecorderConfig, RunFacts, RunResult, TaskSpec, TenantSpec,
};
use dumbwaiter_scenario::{Scenario, TraceSpec, Work};
use dumbwaiter_schedulers::Choice;
use dumbwaiter_workloads::generate::BuildContext;
use dumbwaiter_workloads::traces::{
    self, Arrival, Columns, Fit, Format, Options, Pace, Replay, ReplayOptions, StatusHandle, Survey,
};

use crate::host::{self, Completion, Host};
use crate::run::{Control, Mode, Parts, Run, Thread, Until};

/// Why a scenario cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A task's job does not fit the device, or contradicts itself.
    #[error("task `{task}`: {cause}")]
    Job {
        /// The task.
        task: String,
        /// What is wrong.
        cause: dumbwaiter_workloads::generate::BuildError,
    },
    /// A trace cannot be read.
    #[error("{0}")]
    Trace(std::sync::Arc<traces::Error>),
    /// A setting of the scenario that only the simulator knows.
    #[error("{key}: `{value}` is not known; expected {expected}")]
    Setting {
        /// The key.
        key: &'static str,
        /// What was found.
        value: String,
        /// What can be used.
        expected: String,
    },
    /// Requests were lost or invented: a defect of ours.
    #[error(
        "{device}, {scheduler}: requests are not conserved: {what}. This is a defect; please report the scenario and seed"
    )]
    NotConserved {
        /// The device.
        device: String,
        /// The scheduler.
        scheduler: String,
        /// What does not add up.
        what: String,
    },
}

impl From<traces::Error> for Error {
    fn from(error: traces::Error) -> Error {
        Error::Trace(error.into())
    }
}

/// A scenario with what has to be known of its traces, read once for all runs.
pub struct Prepared<'a> {
    scenario: &'a Scenario,
    surveys: BTreeMap<String, Survey>,
    /// How completions are found; interrupts unless set otherwise.
    pub(crate) completion: Completion,
    /// Remarks on the traces, for people.
    pub notes: Vec<String>,
}

/// A run's result and what its traces had to leave out.
pub struct Cell {
    /// The result.
    pub result: RunResult,
    /// Records of traces that were left out or changed, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// How long the oldest I/O that was under way at the end had been waiting. No latency counts it.
    pub oldest: Nanos,
    /// Ended from outside.
    pub cancelled: bool,
}

fn reader_options(spec: &TraceSpec) -> Result<Options, Error> {
    let format = match &spec.options.format {
        Some(name) => Some(name.parse::<Format>()?),
        None => None,
    };
    let columns = match &spec.options.columns {
        Some(text) => Some(Columns::parse(text)?),
        None => None,
    };
    let arrival = match &spec.options.arrival {
        Some(event) => Some(Arrival::parse(event)?),
        None => None,
    };
    Ok(Options { format, columns, arrival, assume_bytes: spec.options.assume_bytes, ..Options::default() })
}

/// All files of a trace.
fn files(spec: &TraceSpec) -> Vec<&Path> {
    std::iter::once(&spec.path).chain(&spec.options.parts).map(Path::new).collect()
}

fn survey_key(spec: &TraceSpec) -> String {
    format!("{}\n{:?}", spec.path, spec.options)
}

impl<'a> Prepared<'a> {
    /// Reads what has to be known before the first run.
    pub fn new(scenario: &'a Scenario) -> Result<Prepared<'a>, Error> {
        let mut prepared =
            Prepared { scenario, surveys: BTreeMap::new(), completion: Completion::Interrupt, notes: Vec::new() };
        host_profile(&scenario.host.profile)?;
        for (_, task) in scenario.tasks() {
            if let Work::Trace(spec) = &task.work {
                fit(spec)?;
                let key = survey_key(spec);
                if !prepared.surveys.contains_key(&key) {
                    let mut reader = traces::open(&files(spec), &reader_options(spec)?)?;
                    let survey = Survey::of(&mut reader, spec.options.limit)?;
                    prepared.notes.extend(reader.notes().iter().map(|n| format!("{}: {n}", spec.path)));
                    prepared.surveys.insert(key, survey);
                }
            }
        }
        Ok(prepared)
    }

    /// Virtual time of one run, as far as it can be told beforehand.
    pub fn expected(&self) -> Option<Nanos> {
        let s = self.scenario;
        s.duration.map(|d| d + s.warmup).or_else(|| {
            let mut longest = Some(Nanos::ZERO);
            for (_, task) in s.tasks() {
                let end = match &task.work {
                    Work::Trace(spec) if spec.options.depth.is_none() && !spec.options.closed_per_task => {
                        let last = self.surveys.get(&survey_key(spec))?.last;
                        Nanos((last.0 as f64 / spec.options.speed.unwrap_or(1.0)) as u64)
                    }
                    Work::Job(job) => job.longest()?,
                    _ => return None,
                };
                longest = longest.map(|l| l.max(end));
            }
            longest
        })
    }

    /// Simulates one cell.
    pub fn run(&self, model: &DeviceModel, choice: &Choice, replicate: u32, control: &Control) -> Result<Cell, Error> {
        let s = self.scenario;
        let seed = s.seed.wrapping_add(u64::from(replicate));
        let facts = model.facts();
        let config = config(s, model);
        let (tenants, specs, ids) = tenants_of(s);
        let mut tenants = tenants;
        let mut task_specs = Vec::new();
        let mut threads = Vec::new();
        let mut replays: Vec<StatusHandle> = Vec::new();
        let cpus = config.setup.cpus;
        for (number, (tenant, task)) in s.tasks().enumerate() {
            let id = ids[tenant.name.as_str()];
            let ioprio = tenant.ioprio_of(task);
            for instance in 0..task.count {
                let name = if task.count > 1 { format!("{}.{instance}", task.name) } else { task.name.clone() };
                let task_id = tenants.add_task(id, ioprio);
                task_specs.push(TaskSpec { name, tenant: id });
                let cpu = task.cpu_of(instance).map_or(threads.len() as u16 % cpus, |c| c % cpus);
                let thread = Thread { tenant: id, task: task_id, ioprio, cpu, stage: task.stage, ..Thread::idle() };
                threads.push(match &task.work {
                    Work::Job(job) => {
                        let context = BuildContext {
                            seed,
                            capacity_sectors: facts.capacity_sectors,
                            job: number as u32,
                            instance,
                        };
                        let workload =
                            job.build(context).map_err(|cause| Error::Job { task: task.name.clone(), cause })?;
                        let depth = job.depth();
                        let mode = if depth > 1 { Mode::Batch } else { Mode::Each };
                        Thread { workload, depth, mode, closed: true, ..thread }
                    }
                    Work::Trace(spec) => {
                        let (replay, depth) = self.replay(spec, facts.capacity_sectors)?;
                        replays.push(replay.status());
                        let closed = spec.options.depth.is_some() || spec.options.closed_per_task;
                        Thread { workload: Box::new(replay), depth, mode: Mode::Each, closed, ..thread }
                    }
                    Work::Fio(_) => thread,
                });
            }
        }
        let recorder =
            Recorder::new(RecorderConfig { warmup: s.warmup, interval: s.series, tenants: specs, tasks: task_specs });
        let profile = host_profile(&s.host.profile)?;
        let legacy_link = matches!(model.kind(), Kind::Hdd) || facts.depth <= 32;
        let cost = host::scheduler_cost(choice.entry().name);
        let run = Run::new(Parts {
            config,
            scheduler: choice.build(config.setup),
            tenants,
            device: model.build(seed ^ DEVICE_SEED),
            host: Host::new(profile, cost, cpus, cpus >= 4, legacy_link).with_completion(self.completion),
            recorder,
            threads,
            until: Until { time: s.duration.map_or(Nanos::MAX, |d| s.warmup + d), ios: s.limit.unwrap_or(u64::MAX) },
            control,
        });
        let outcome = run.finish();
        for status in &replays {
            if let Some(error) = status.lock().ok().and_then(|s| s.error.clone()) {
                return Err(Error::Trace(error));
            }
        }
        let mut skipped = BTreeMap::new();
        for status in replays {
            if let Ok(status) = status.lock() {
                for s in status.skipped.iter().chain(&status.changed) {
                    *skipped.entry(s.reason.to_string()).or_insert(0) += s.count;
                }
            }
        }
        if outcome.issued_late > 0 {
            let reason = format!(
                "issued late: the device does not keep up with the recorded times, and {OPEN_LOOP_DEPTH} were outstanding; latencies are lower bounds"
            );
            skipped.insert(reason, outcome.issued_late);
        }
        let (cancelled, oldest) = (outcome.cancelled, outcome.oldest);
        if let Some(what) = outcome.layer.ledger().imbalance() {
            return Err(Error::NotConserved { device: model.name().into(), scheduler: choice.label().into(), what });
        }
        Ok(Cell { result: result(model, choice, replicate, seed, outcome), skipped, oldest, cancelled })
    }

    fn replay(&self, spec: &TraceSpec, capacity: u64) -> Result<(Replay, u32), Error> {
        let o = &spec.options;
        let (pace, depth) = match (o.depth, o.closed_per_task) {
            (depth, true) => (Pace::ClosedPerTask { depth: depth.unwrap_or(1) }, u32::MAX),
            (Some(depth), false) => (Pace::Closed { depth }, depth),
            (None, false) => (Pace::Open { speed: o.speed.unwrap_or(1.0) }, OPEN_LOOP_DEPTH),
        };
        let options = ReplayOptions { pace, capacity, fit: fit(spec)?, limit: o.limit };
        let reader = traces::open(&files(spec), &reader_options(spec)?)?;
        Ok((Replay::new(reader, &options, self.surveys.get(&survey_key(spec)))?, depth))
    }
}

/// Keeps a device's random numbers apart from those of the workloads.
const DEVICE_SEED: u64 = 0x6465_7669_6365_0001;

/// I/Os that an open loop may have outstanding; more would only be memory.
const OPEN_LOOP_DEPTH: u32 = 65_536;

fn fit(spec: &TraceSpec) -> Result<Fit, Error> {
    match spec.options.fit.as_deref() {
        None | Some("skip") => Ok(Fit::Skip),
        Some("wrap") => Ok(Fit::Wrap),
        Some("scale") => Ok(Fit::Scale),
        Some(other) => Err(Error::Setting { key: "fit", value: other.into(), expected: "skip, wrap or scale".into() }),
    }
}

/// The host profile of this name; `default` is that of a current kernel.
pub fn host_profile(name: &str) -> Result<&'static host::Profile, Error> {
    if name == "default" {
        return Ok(&host::R230_5_18);
    }
    host::PROFILES.into_iter().find(|p| p.name == name).ok_or_else(|| Error::Setting {
        key: "host.profile",
        value: name.into(),
        expected: format!("default, {}", host::PROFILES.map(|p| p.name).join(", ")),
    })
}

/// Linux's `nr_requests` for a device that can hold `depth` requests. Using less of the depth does not change it.
pub fn default_nr_requests(depth: u32) -> u32 {
    2 * depth.clamp(1, 128)
}

fn config(s: &Scenario, model: &DeviceModel) -> Config {
    let facts = model.facts();
    let depth = s.queue_depth.map_or(facts.depth, |d| d.min(facts.depth)).max(1);
    let cpus = s.host.cpus.max(1);
    let hw_queues = s.host.hw_queues.unwrap_or(facts.queues).clamp(1, cpus);
    let clock = TickClock { period: Nanos(1_000_000_000 / u64::from(s.host.hz.max(1))), step_at: Nanos::ZERO };
    let nr_requests = s.nr_requests.unwrap_or_else(|| default_nr_requests(facts.depth));
    let max_sectors = facts.max_sectors.min(Limits::default().max_sectors);
    Config {
        setup: Setup { clock, cpus, hw_queues, nr_requests, device_depth: depth, rotational: facts.rotational },
        limits: Limits { max_sectors, ..Limits::default() },
        nomerges: s.nomerges,
        volatile_cache: facts.volatile_cache,
        fua: facts.fua,
    }
}

fn tenants_of(s: &Scenario) -> (Tenants, Vec<TenantSpec>, BTreeMap<&str, TenantId>) {
    let ids: BTreeMap<&str, TenantId> =
        s.tenants.iter().enumerate().map(|(i, t)| (t.name.as_str(), TenantId(i as u32))).collect();
    let mut tenants = Tenants::default();
    let mut specs = Vec::new();
    for t in &s.tenants {
        let parent = t.parent.as_deref().and_then(|p| ids.get(p).copied());
        tenants.add_tenant(Tenant { weight: t.weight, parent });
        specs.push(TenantSpec { name: t.name.clone(), weight: t.weight, parent, focus: t.focus });
    }
    (tenants, specs, ids)
}

fn result(model: &DeviceModel, choice: &Choice, replicate: u32, seed: u64, outcome: crate::Outcome) -> RunResult {
    let ledger = *outcome.layer.ledger();
    let counters = outcome.counters;
    let spent = outcome.host.spent();
    let device_counters = [
        ("cache_hits", counters.cache_hits as f64),
        ("media_busy_s", counters.media_busy.as_secs_f64()),
        ("link_busy_s", counters.link_busy.as_secs_f64()),
        ("gc_runs", counters.gc_runs as f64),
        ("gc_moved_pages", counters.gc_moved_pages as f64),
        ("max_depth", f64::from(counters.max_depth)),
        ("flushes", counters.flushes as f64),
    ];
    let facts = RunFacts {
        device: model.name().into(),
        scheduler: choice.label().into(),
        variant: String::new(),
        completion: "interrupt".into(),
        replicate,
        seed,
        submitted_by_tenant: outcome.submitted_by_tenant,
        merges: Merges {
            back: ledger.merged_back,
            front: ledger.merged_front,
            discard: ledger.merged_ranges,
            requests: ledger.joined,
        },
        ledger: Ledger {
            submitted: ledger.submitted,
            completed: ledger.completed,
            failed: ledger.failed,
            outstanding: outcome.outstanding,
        },
        cpu: CpuFacts {
            busy: outcome.host.busy().map(Nanos).collect(),
            span: outcome.end,
            submit: Nanos(spent.submit),
            scheduler: Nanos(spent.scheduler),
            irq: Nanos(spent.complete),
            poll: Nanos(spent.poll),
        },
        scheduler_counters: BTreeMap::new(),
        device_counters: device_counters.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
    };
    outcome.recorder.finish(outcome.end, facts)
}
