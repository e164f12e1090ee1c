//! One thread of a load by itself, for a process of its own: the kernel tells tasks and cgroups apart by process, so its own
//! schedulers can only be measured that way. Every I/O goes to a log ([`crate::drive::record`]), and the parent process joins
//! the logs of all workers.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Instant;

use dumbwaiter_block::{Config, Nanos, Setup};
use dumbwaiter_experiment::Control;
use dumbwaiter_measure::{ApplicationStats, Recorder, RecorderConfig};
use dumbwaiter_path::CompletionMode;
use dumbwaiter_scenario::load::{Change, Load, Prepared, RunLimit, applications};
use dumbwaiter_schedulers::Choice;
use serde::{Deserialize, Serialize};

use crate::drive::experiment;
use crate::drive::run::{Outcome, Parts, RingGroup, Run};
pub use crate::drive::usage::monotonic;
use crate::drive::{Error, Target};

/// The figures of a worker, which the parent joins with those of the others.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkerReport {
    /// I/Os submitted.
    pub submitted: u64,
    /// I/Os completed, with success or not.
    pub completed: u64,
    /// Of those, failed.
    pub failed: u64,
    /// When the measured part ended, ns.
    pub end_ns: u64,
    /// CPU time of the measured time in user mode, ns.
    pub usr_ns: u64,
    /// CPU time in the kernel, ns.
    pub sys_ns: u64,
    /// Context switches.
    pub switches: u64,
    /// How the thread's application fared, if it is one.
    pub applications: Vec<ApplicationStats>,
    /// I/Os that were left out or changed, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// The first failure, in words.
    pub failure: Option<String>,
    /// Failed requests, by error.
    pub failures: BTreeMap<String, u64>,
    /// Notes for people.
    pub notes: Vec<String>,
}

/// A worker's part of a run.
pub struct Worker<'a> {
    /// Index of its thread in the load.
    pub thread: usize,
    /// How completions are found.
    pub completion: CompletionMode,
    /// Number of the replicate.
    pub replicate: u32,
    /// Progress, and the means to end it early.
    pub control: &'a Control,
}

/// Runs one thread of the load. When the disk is set up, `await_start` is called, which answers when to begin.
pub fn run(
    prepared: &Prepared,
    target: &Target,
    worker: &Worker<'_>,
    await_start: impl FnOnce() -> io::Result<Instant>,
    records: Box<dyn Write>,
) -> Result<WorkerReport, Error> {
    let s = prepared.scenario();
    let seed = s.seed.wrapping_add(u64::from(worker.replicate));
    let support = target.check(worker.completion)?;
    let config = experiment::config(s, target);
    let mut load = prepared.load_uncached(seed, target.sectors(), config.setup.cpus)?;
    let threads: Vec<_> = std::mem::take(&mut load.threads).into_iter().skip(worker.thread).take(1).collect();
    let depth = threads.iter().map(|t| t.depth).sum::<u32>().clamp(1, config.setup.device_depth.max(1));
    // The kernel merges and schedules; here everything goes straight on.
    let setup = Setup { device_depth: depth, ..config.setup };
    let config = Config { setup, nomerges: 2, ..config };
    let group = RingGroup::default();
    let mut run = Run::new(Parts {
        // Other workers want the CPUs.
        spins: false,
        target,
        support,
        config,
        stack: none(setup)?,
        tenants: load.tenants.clone(),
        task_specs: load.task_specs.clone(),
        controls: Vec::new(),
        kernel: Default::default(),
        threads,
        changes: own_changes(&load, worker.thread as u32),
        schedulers: Vec::new(),
        recorder: Recorder::new(RecorderConfig {
            warmup: Nanos::ZERO,
            interval: s.series,
            tenants: load.tenant_specs.clone(),
            tasks: Vec::new(),
        }),
        verifier: None,
        limit: RunLimit::of(s),
        seed,
        control: worker.control,
        group: &group,
    })?;
    run.begin_at(await_start().map_err(Error::Start)?);
    run.log_to(records);
    let mut outcome = run.finish()?;
    if worker.completion != CompletionMode::Interrupt {
        outcome.notes.push(experiment::described(worker.completion, support, target.options().sqpoll));
    }
    report(outcome, load, target)
}

fn none(setup: Setup) -> Result<dumbwaiter_block::Stack, Error> {
    let none = Choice::parse("none").map_err(|e| dumbwaiter_path::Error::NoRing(e.to_string()))?;
    Ok(none.build(setup))
}

/// The changes that concern the thread with this index, which is the only one here.
fn own_changes(load: &Load, thread: u32) -> Vec<(Nanos, Change)> {
    let own = |change: &Change| match *change {
        Change::Stop { thread: stopped } if stopped == thread => Some(Change::Stop { thread: 0 }),
        _ => None,
    };
    load.changes.iter().filter_map(|(at, change)| Some((*at, own(change)?))).collect()
}

fn report(mut outcome: Outcome, load: Load, target: &Target) -> Result<WorkerReport, Error> {
    let applications = applications(std::mem::take(&mut outcome.applications), &load.task_specs, &load.tenant_specs);
    let (ledger, closed) = (outcome.ledger, outcome.closed);
    let skipped = experiment::skipped(load.replays, &outcome, target)?;
    Ok(WorkerReport {
        submitted: ledger.submitted,
        completed: ledger.completed,
        failed: ledger.failed,
        end_ns: closed.end.0,
        usr_ns: closed.usage.usr.0,
        sys_ns: closed.usage.sys.0,
        switches: closed.usage.switches,
        applications,
        skipped,
        failure: outcome.failure,
        failures: outcome.failures,
        notes: outcome.notes,
    })
}
