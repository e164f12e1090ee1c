//! One thread of a load by itself, for a process of its own: the kernel tells tasks and groups apart by process, so that its
//! own schedulers can only be tried that way. Every finished I/O is written down, for whoever started the processes to join.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Instant;

use dumbwaiter_block::{Config, Nanos, Setup};
use dumbwaiter_load::{Change, Prepared};
use dumbwaiter_measure::{ApplicationStats, Recorder, RecorderConfig};
use dumbwaiter_schedulers::Choice;
use serde::{Deserialize, Serialize};

pub use crate::clock::monotonic;
use crate::experiment;
use crate::options::Completion;
use crate::run::rings::Together;
use crate::run::{Parts, Run, Until};
use crate::{Error, Target};
use dumbwaiter_experiment::Control;

/// How a part ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ended {
    /// I/Os asked for.
    pub submitted: u64,
    /// I/Os finished, well or not.
    pub completed: u64,
    /// Of those, failed.
    pub failed: u64,
    /// Under way when the measured part ended.
    pub outstanding: u64,
    /// How long the oldest of those had been waiting, ns.
    pub oldest_ns: u64,
    /// When it ended, ns.
    pub end_ns: u64,
    /// Processor time outside the kernel, ns.
    pub usr_ns: u64,
    /// Processor time in the kernel, ns.
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
    /// Remarks.
    pub notes: Vec<String>,
}

/// What a part is.
pub struct Part<'a> {
    /// Number of the thread in the load.
    pub thread: usize,
    /// How completions are found.
    pub completion: Completion,
    /// Number of the replicate.
    pub replicate: u32,
    /// Steered from outside.
    pub control: &'a Control,
}

/// Runs one thread of the load. When all is set up, `ready` is called; it answers when to begin.
pub fn run(
    prepared: &Prepared,
    target: &Target,
    part: &Part<'_>,
    ready: impl FnOnce() -> io::Result<Instant>,
    records: Box<dyn Write>,
) -> Result<Ended, Error> {
    let s = prepared.scenario();
    let seed = s.seed.wrapping_add(u64::from(part.replicate));
    let way = target.check(part.completion)?;
    let config = experiment::config(s, target);
    let load = prepared.load(seed, target.sectors(), config.setup.cpus)?;
    let threads: Vec<_> = load.threads.into_iter().skip(part.thread).take(1).collect();
    let number = part.thread as u32;
    let own = |change: &Change| match *change {
        Change::Stop { thread } if thread == number => Some(Change::Stop { thread: 0 }),
        Change::Ioprio { .. } | Change::Move { .. } | Change::Weight { .. } | Change::Stop { .. } => None,
    };
    let changes = load.changes.iter().filter_map(|(at, change)| Some((*at, own(change)?))).collect();
    let depth = threads.iter().map(|t| t.depth).sum::<u32>().clamp(1, config.setup.device_depth.max(1));
    // The kernel merges and schedules; here everything goes straight on.
    let setup = Setup { device_depth: depth, ..config.setup };
    let config = Config { setup, nomerges: 2, ..config };
    let none = Choice::parse("none").map_err(|e| Error::NoRing(e.to_string()))?;
    let recorder = Recorder::new(RecorderConfig {
        warmup: Nanos::ZERO,
        interval: s.series,
        tenants: load.tenant_specs.clone(),
        tasks: Vec::new(),
    });
    let together = Together::default();
    let mut run = Run::new(Parts {
        target,
        way,
        config,
        scheduler: none.build(setup),
        tenants: load.tenants,
        task_specs: load.task_specs.clone(),
        threads,
        changes,
        recorder,
        verifier: None,
        until: Until { time: s.duration.map_or(Nanos::MAX, |d| s.warmup + d), ios: s.limit.unwrap_or(u64::MAX) },
        seed,
        control: part.control,
        together: &together,
    })?;
    let begin = ready().map_err(|source| Error::Ring { what: "nobody says when to begin", source })?;
    run.begin_at(begin);
    run.tap(records);
    let mut outcome = run.finish()?;
    if part.completion != Completion::Interrupt {
        outcome.notes.push(experiment::described(part.completion, way, target.options().sqpoll));
    }
    let ledger = outcome.ledger;
    let closed = outcome.closed;
    let mut skipped = load.replays.finish(outcome.issued_late)?;
    if outcome.rounded > 0 {
        skipped.insert(format!("rounded out to blocks of {} bytes", target.facts().logical_block), outcome.rounded);
    }
    Ok(Ended {
        submitted: ledger.submitted,
        completed: ledger.completed,
        failed: ledger.failed,
        outstanding: closed.outstanding,
        oldest_ns: closed.oldest.0,
        end_ns: closed.end.0,
        usr_ns: closed.usage.usr.0,
        sys_ns: closed.usage.sys.0,
        switches: closed.usage.switches,
        applications: experiment::applications(&mut outcome, &load.task_specs, &load.tenant_specs),
        skipped,
        failure: outcome.failure,
        failures: outcome.failures,
        notes: outcome.notes,
    })
}
