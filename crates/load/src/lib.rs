//! A scenario's tenants and tasks as threads of I/O: what the simulator and the engine on a real device have in common.
//!
//! [`Prepared`] reads what has to be known of the traces once; [`Prepared::load`] makes the threads of one run.
#![forbid(unsafe_code)]

mod application;
mod change;
mod running;
mod thread;
mod trace;

use std::collections::BTreeMap;

use dumbwaiter_block::{Ioprio, Nanos, Tenant, TenantId, Tenants};
use dumbwaiter_measure::{TaskSpec, TenantSpec};
use dumbwaiter_scenario::{Scenario, TraceSpec, Work};
use dumbwaiter_traces::{self as traces, Replay, StatusHandle, Survey};
use dumbwaiter_workloads::Workload;
use dumbwaiter_workloads::applications::{AppContext, Part};
use dumbwaiter_workloads::generate::{BuildContext, BuildError, JobSpec};
use dumbwaiter_workloads::page_cache::{FLUSHER_DEPTH, PageCache};

pub use self::application::application;
pub use self::change::Change;
pub use self::running::{Running, lowest_stage};
pub use self::thread::{Mode, Thread};
use self::trace::OPEN_LOOP_DEPTH;

/// Why a scenario has no threads.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A task's job does not fit the device, or contradicts itself.
    #[error("task `{task}`: {cause}")]
    Job {
        /// The task.
        task: String,
        /// What is wrong.
        cause: BuildError,
    },
    /// A trace cannot be read.
    #[error("{0}")]
    Trace(std::sync::Arc<traces::Error>),
    /// A setting of a trace that is not known.
    #[error("{key}: `{value}` is not known; expected {expected}")]
    Setting {
        /// The key.
        key: &'static str,
        /// What was found.
        value: String,
        /// What can be used.
        expected: String,
    },
}

impl From<traces::Error> for Error {
    fn from(error: traces::Error) -> Error {
        Error::Trace(error.into())
    }
}

/// A scenario with what has to be known of its traces, read once for all runs.
pub struct Prepared {
    scenario: Scenario,
    surveys: BTreeMap<String, Survey>,
    /// Remarks on the traces, for people.
    pub notes: Vec<String>,
}

/// The load of one run.
pub struct Load {
    /// Tasks and tenants, as the schedulers know them.
    pub tenants: Tenants,
    /// Tenants as results name them, by [`TenantId`].
    pub tenant_specs: Vec<TenantSpec>,
    /// Tasks as results name them, by [`dumbwaiter_block::TaskId`].
    pub task_specs: Vec<TaskSpec>,
    /// Who does the I/O.
    pub threads: Vec<Thread>,
    /// What becomes different, by time.
    pub changes: Vec<(Nanos, Change)>,
    /// What the replays had to leave out, known at the end of the run.
    pub replays: Replays,
}

impl Prepared {
    /// Reads what has to be known before the first run.
    pub fn new(scenario: &Scenario) -> Result<Prepared, Error> {
        let mut prepared = Prepared { scenario: scenario.clone(), surveys: BTreeMap::new(), notes: Vec::new() };
        for (_, task) in scenario.tasks() {
            if let Work::Trace(spec) = &task.work {
                trace::fit(spec)?;
                let key = trace::survey_key(spec);
                if !prepared.surveys.contains_key(&key) {
                    let mut reader = trace::open(spec)?;
                    let survey = Survey::of(&mut reader, spec.options.limit)?;
                    prepared.notes.extend(reader.notes().iter().map(|n| format!("{}: {n}", spec.path)));
                    prepared.surveys.insert(key, survey);
                }
            }
        }
        Ok(prepared)
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Time of one run, as far as it can be told beforehand.
    pub fn expected(&self) -> Option<Nanos> {
        let s = &self.scenario;
        s.duration.map(|d| d + s.warmup).or_else(|| {
            let mut longest = Some(Nanos::ZERO);
            for (_, task) in s.tasks() {
                let end = match &task.work {
                    _ if task.stop.is_some() => task.stop?,
                    Work::Trace(spec) if spec.options.depth.is_none() && !spec.options.closed_per_task => {
                        let last = self.surveys.get(&trace::survey_key(spec))?.last;
                        Nanos((last.0 as f64 / spec.options.speed.unwrap_or(1.0)) as u64)
                    }
                    Work::Job(job) => job.longest()?,
                    _ => return None,
                };
                longest = longest.map(|l| l.max(task.start.max(end)));
            }
            longest
        })
    }

    /// The load of one run on a device of `capacity_sectors` and a host of `cpus`.
    pub fn load(&self, seed: u64, capacity_sectors: u64, cpus: u16) -> Result<Load, Error> {
        let s = &self.scenario;
        let (mut tenants, mut tenant_specs, ids) = tenants_of(s);
        let mut task_specs = Vec::new();
        let mut threads = Vec::new();
        let cache = s.host.cache().map(|spec| PageCache::new(spec, capacity_sectors));
        let mut buffered = false;
        let mut replays = Replays::default();
        let mut changes = Vec::new();
        for tenant in &s.tenants {
            change::of_tenant(&mut changes, tenant, ids[tenant.name.as_str()]);
        }
        for (number, (tenant, task)) in s.tasks().enumerate() {
            let id = ids[tenant.name.as_str()];
            let ioprio = tenant.ioprio_of(task);
            for instance in 0..task.count {
                let name = if task.count > 1 { format!("{}.{instance}", task.name) } else { task.name.clone() };
                let context = BuildContext { seed, capacity_sectors, job: number as u32, instance };
                let refused = |cause| Error::Job { task: task.name.clone(), cause };
                let mut add = |name: String, thread: Thread| {
                    let cpu = task.cpu_of(instance).map_or(threads.len() as u16 % cpus, |c| c % cpus);
                    let task_id = tenants.add_task(id, ioprio);
                    task_specs.push(TaskSpec { name, tenant: id });
                    change::of_task(&mut changes, task, threads.len() as u32, |name| ids[name]);
                    let (stage, start) = (task.stage, task.start);
                    threads.push(Thread { tenant: id, task: task_id, ioprio, cpu, stage, start, ..thread });
                };
                match &task.work {
                    Work::Job(job) => {
                        buffered |= !job.direct;
                        add(name, job_thread(job, context, cache.as_ref()).map_err(refused)?);
                    }
                    Work::App(app) => {
                        let parts = app
                            .build(&AppContext { build: context, warmup: s.warmup, cache: cache.clone() })
                            .map_err(refused)?;
                        let several = parts.len() > 1;
                        buffered |=
                            parts.iter().any(|p| matches!(p, Part::Job { job, .. } if !job.direct)) || app.log();
                        for (part_number, part) in parts.into_iter().enumerate() {
                            // Random numbers of its own for each part.
                            let job = number as u32 | (part_number as u32) << 12 | instance << 20;
                            let context = BuildContext { job, ..context };
                            match part {
                                Part::Job { name: part, count, job } => {
                                    for i in 0..count {
                                        let name = match (part, count) {
                                            ("", 1) => name.clone(),
                                            (part, 1) => format!("{name}/{part}"),
                                            (part, _) => format!("{name}/{part}.{i}"),
                                        };
                                        let context = BuildContext { instance: i, ..context };
                                        add(name, job_thread(&job, context, cache.as_ref()).map_err(refused)?);
                                    }
                                }
                                Part::Own { workload, depth } => {
                                    let name = if several { format!("{name}/{part_number}") } else { name.clone() };
                                    add(name, own_thread(workload, depth));
                                }
                            }
                        }
                    }
                    Work::Trace(spec) => {
                        let (replay, depth) = self.replay(spec, capacity_sectors)?;
                        replays.0.push(replay.status());
                        let closed = spec.options.depth.is_some() || spec.options.closed_per_task;
                        let (workload, mode) = (Box::new(replay), Mode::Each);
                        add(name, Thread { workload, depth, mode, closed, ..Thread::idle() });
                    }
                    Work::Fio(_) => add(name, Thread::idle()),
                }
            }
        }
        if let Some(cache) = cache.filter(|_| buffered) {
            // Write-back belongs to the root group, beside the groups that there are.
            let id = if tenant_specs.len() == 1 {
                TenantId(0)
            } else {
                let weight = dumbwaiter_scenario::Tenant::DEFAULT_WEIGHT;
                let name = "writeback".to_string();
                tenant_specs.push(TenantSpec { name, weight, parent: None, focus: false });
                tenants.add_tenant(Tenant { weight, parent: None })
            };
            let task = tenants.add_task(id, Ioprio::DEFAULT);
            task_specs.push(TaskSpec { name: "flusher".to_string(), tenant: id });
            let stage = threads.iter().map(|t| t.stage).min().unwrap_or(0);
            let cpu = threads.len() as u16 % cpus;
            let thread = own_thread(cache.flusher(), FLUSHER_DEPTH);
            threads.push(Thread { tenant: id, task, cpu, stage, ..thread });
        }
        changes.sort_by_key(|(at, _)| *at);
        Ok(Load { tenants, tenant_specs, task_specs, threads, changes, replays })
    }

    fn replay(&self, spec: &TraceSpec, capacity: u64) -> Result<(Replay, u32), Error> {
        trace::replay(spec, capacity, self.surveys.get(&trace::survey_key(spec)))
    }
}

/// The thread of one instance of a job.
fn job_thread(job: &JobSpec, context: BuildContext, cache: Option<&PageCache>) -> Result<Thread, BuildError> {
    let workload = job.build(context)?;
    Ok(match cache {
        // One window that is waited for and one ahead of it; writes are the flusher's.
        Some(cache) if !job.direct => {
            Thread { workload: cache.buffered(workload), depth: 2, mode: Mode::Each, ..Thread::idle() }
        }
        _ => own_thread(workload, job.depth()),
    })
}

fn own_thread(workload: Box<dyn Workload>, depth: u32) -> Thread {
    let mode = if depth > 1 { Mode::Batch } else { Mode::Each };
    Thread { workload, depth, mode, closed: true, ..Thread::idle() }
}

/// What the replays of a run report at its end.
#[derive(Default)]
pub struct Replays(Vec<StatusHandle>);

impl Replays {
    /// Records that were left out or changed, by reason, or why a replay broke off. `issued_late` are I/Os of open loops that
    /// had to wait for earlier ones.
    pub fn finish(self, issued_late: u64) -> Result<BTreeMap<String, u64>, Error> {
        let mut skipped = BTreeMap::new();
        for status in self.0 {
            if let Ok(status) = status.lock() {
                if let Some(error) = status.error.clone() {
                    return Err(Error::Trace(error));
                }
                for s in status.skipped.iter().chain(&status.changed) {
                    *skipped.entry(s.reason.to_string()).or_insert(0) += s.count;
                }
            }
        }
        if issued_late > 0 {
            let reason = format!(
                "issued late: the device does not keep up with the recorded times, and {OPEN_LOOP_DEPTH} were outstanding; latencies are lower bounds"
            );
            skipped.insert(reason, issued_late);
        }
        Ok(skipped)
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
