//! One cell of an experiment on a real target: a scheduler, a seed, a result.

use std::collections::BTreeMap;

use dumbwaiter_block::{Config, Setup, Stack};
use dumbwaiter_experiment::{BlockDevice, Control, replacements};
use dumbwaiter_measure::{
    ApplicationStats, Ledger, Merges, Recorder, RecorderConfig, RunFacts, RunResult, TaskSpec, TenantSpec,
};
use dumbwaiter_path::{CompletionMode, CompletionSupport};
use dumbwaiter_scenario::load::{Prepared, Replays, RunLimit, Thread, applications};
use dumbwaiter_scenario::{Scenario, Work};
use dumbwaiter_schedulers::Choice;
use dumbwaiter_workloads::generate::Mix;

use crate::drive::partition::partition;
use crate::drive::run::{Outcome, Parts, RingGroup, group};
use crate::drive::verify::{Verified, Verifier, fresh_stamp};
use crate::drive::{Error, Target};

/// Depth where neither the scenario nor the device says one.
const DEPTH: u32 = 128;
/// Deepest.
const DEPTH_MAX: u32 = 4096;
/// Memory for buffers, at most.
const BUFFERS_BYTES: u64 = 256 << 20;

/// A run's result and what belongs to it.
pub struct DriveRun {
    /// The result: world `real`, via `engine`. Failed I/Os are counted as errors and are in no latency.
    pub result: RunResult,
    /// Records of traces that were left out or changed, and I/Os rounded out to blocks, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Ended from outside.
    pub cancelled: bool,
    /// The first I/O that failed, in words. The run ended with it unless [`Options::keep_going`](crate::drive::Options::keep_going) is set.
    pub failure: Option<String>,
    /// Failed requests, by error.
    pub failures: BTreeMap<String, u64>,
    /// Findings of verification if it was on, including the final pass.
    pub verified: Option<Verified>,
    /// Notes on this run, for people.
    pub notes: Vec<String>,
}

/// The first task that writes, as far as the scenario shows. Traces are checked in the run, before their first write
/// reaches the target.
pub fn writes(scenario: &Scenario) -> Option<String> {
    let writer = |work: &Work| matches!(work, Work::Job(job) if job.rw.mix != Mix::Read);
    scenario.tasks().find(|(_, task)| writer(&task.work)).map(|(_, task)| task.name.clone())
}

/// How completions were found, for people.
pub(crate) fn described(completion: CompletionMode, support: CompletionSupport, sqpoll: bool) -> String {
    if sqpoll {
        return format!("completion sqpoll: a thread of the kernel submits, and {}", support.describe());
    }
    format!("completion {completion}: {}", support.describe())
}

/// Runs one scheduler on `target` under the load of `prepared`, with seed number `replicate`.
///
/// Takes as long as the scenario says. Rings and buffers are made and given back within. What the scenario says of the host
/// (CPUs, cost profile, hardware queues) is for simulations and is not used.
pub fn run(
    prepared: &Prepared,
    target: &Target,
    choice: &Choice,
    completion: CompletionMode,
    replicate: u32,
    control: &Control,
) -> Result<DriveRun, Error> {
    let (s, options) = (prepared.scenario(), target.options());
    if let Some(task) = writes(s).filter(|_| !options.allow_writes) {
        return Err(Error::WritesNotAllowed { task, op: dumbwaiter_block::Op::Write, path: target.path().to_owned() });
    }
    let (seed, config) = (s.seed.wrapping_add(u64::from(replicate)), config(s, target));
    let support = target.check(completion)?;
    let mut load = prepared.load(seed, target.sectors(), config.setup.cpus)?;
    // Here the flusher does not sleep for a tag.
    for flusher in load.threads.iter_mut().filter(|thread| thread.background) {
        flusher.depth = flusher.depth.min(config.setup.nr_requests.max(1));
    }
    let (assignments, note) = partition(s, options, choice, config.setup, &load);
    let (tenant_specs, task_specs) = (&load.tenant_specs, &load.task_specs);
    let recorder = recorder(s, tenant_specs, task_specs);
    let mut verifier = verifier(target, seed)?;
    let group = RingGroup::default();
    let mut threads: Vec<Option<Thread>> = load.threads.into_iter().map(Some).collect();
    let (alone, mut parts) = (assignments.len() == 1, Vec::new());
    for (ring, assigned) in assignments.into_iter().enumerate() {
        let setup = Setup { device_depth: assigned.depth, ..config.setup };
        let of_ring = Parts {
            spins: alone,
            target,
            support,
            config: Config { setup, ..config },
            stack: choice.build(setup),
            tenants: load.tenants.clone(),
            task_specs: task_specs.clone(),
            controls: s.tenant_controls(choice.controls(), load.controls.clone()),
            kernel: s.kernel_controls(choice.controls()),
            threads: assigned.threads.iter().filter_map(|thread| threads[*thread].take()).collect(),
            // Where there are several rings nothing changes, and nothing is verified.
            changes: s.tenant_changes(choice.controls(), load.changes.clone()),
            schedulers: exchanges(s, setup)?,
            recorder: recorder.clone(),
            verifier: verifier.take(),
            limit: RunLimit::of(s),
            seed: seed.wrapping_add(ring as u64),
            control,
            group: &group,
        };
        parts.push((assigned.cpu, of_ring));
    }
    let mut outcome = group::run(parts, &group).map_err(|error| named(error, choice))?;
    let applications = applications(std::mem::take(&mut outcome.applications), task_specs, tenant_specs);
    let skipped = skipped(load.replays, &outcome, target)?;
    if let Some(verifier) = &mut outcome.verifier {
        verifier.final_pass(target, &control.cancel)?;
    }
    let verified = outcome.verifier.as_ref().map(|verifier| verifier.found.clone());
    let mut notes = std::mem::take(&mut outcome.notes);
    let method = (completion != CompletionMode::Interrupt).then(|| described(completion, support, options.sqpoll));
    notes.extend(load.notes.into_iter().chain(note).chain(method));
    let (cancelled, failure) = (outcome.cancelled, outcome.failure.take());
    let failures = std::mem::take(&mut outcome.failures);
    let result = result(target, choice, completion, replicate, seed, outcome, applications);
    let result = RunResult { same_load: prepared.is_recorded(), ..result };
    Ok(DriveRun { skipped, cancelled, failure, failures, verified, notes, result })
}

fn recorder(s: &Scenario, tenants: &[TenantSpec], tasks: &[TaskSpec]) -> Recorder {
    let (tenants, tasks) = (tenants.to_vec(), tasks.to_vec());
    Recorder::new(RecorderConfig { warmup: s.warmup, interval: s.series, tenants, tasks })
}

/// The verifier of a run with `--verify`.
fn verifier(target: &Target, seed: u64) -> Result<Option<Verifier>, Error> {
    let Some(verify) = &target.options().verify else { return Ok(None) };
    let block = u64::from(target.facts().logical_block);
    let blocks = target.facts().bytes / block;
    Verifier::new(block, blocks, verify.journal.as_deref(), fresh_stamp(seed)).map(Some)
}

/// I/Os that were left out or changed, by reason.
pub(crate) fn skipped(replays: Replays, outcome: &Outcome, target: &Target) -> Result<BTreeMap<String, u64>, Error> {
    let mut skipped = replays.finish(outcome.issued_late)?;
    if outcome.rounded > 0 {
        skipped.insert(format!("rounded out to blocks of {} bytes", target.facts().logical_block), outcome.rounded);
    }
    Ok(skipped)
}

/// The schedulers of the scenario's changes, in order.
fn exchanges(s: &Scenario, setup: Setup) -> Result<Vec<Vec<Stack>>, Error> {
    let all = replacements(s, setup);
    let all = all.map_err(|(change, why)| Error::Change { at: change.at, reason: why.to_string() })?;
    Ok(all.into_iter().map(|(_, schedulers)| schedulers).collect())
}

fn named(error: Error, choice: &Choice) -> Error {
    match error {
        Error::Stalled { target, waiting, .. } => Error::Stalled { target, scheduler: choice.label().into(), waiting },
        Error::NotConserved { target, what, .. } => {
            Error::NotConserved { target, scheduler: choice.label().into(), what }
        }
        Error::Fault { target, fault, .. } => Error::Fault { target, scheduler: choice.label().into(), fault },
        other => other,
    }
}

pub(crate) fn config(s: &Scenario, target: &Target) -> Config {
    let facts = target.facts();
    let depth = facts.depth.unwrap_or(DEPTH_MAX).clamp(1, DEPTH_MAX);
    let used_depth = facts.depth.unwrap_or(DEPTH);
    let used = s.queue_depth.unwrap_or(used_depth).clamp(1, depth);
    let block = u64::from(facts.logical_block);
    let affordable = BUFFERS_BYTES / u64::from(used);
    let max_bytes = u64::from(facts.max_request_bytes).min(affordable) / block * block;
    let device = BlockDevice {
        depth,
        used_depth,
        host_tags: None,
        single_queue: false,
        smt: false,
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get().min(1024) as u16),
        hw_queues: 1,
        max_sectors: (max_bytes / dumbwaiter_block::SECTOR_BYTES) as u32,
        rotational: facts.rotational,
        volatile_cache: facts.write_back,
        fua: facts.fua,
        tasks_sleep: false,
    };
    device.config(s)
}

fn result(
    target: &Target,
    choice: &Choice,
    completion: CompletionMode,
    replicate: u32,
    seed: u64,
    outcome: Outcome,
    applications: Vec<ApplicationStats>,
) -> RunResult {
    let ledger = outcome.ledger;
    let closed = outcome.closed;
    let usage = closed.usage;
    let facts = RunFacts {
        switches: (outcome.switches.count > 0).then_some((outcome.switches.count, outcome.switches.pause)),
        device: target.path().display().to_string(),
        scheduler: choice.label().into(),
        variant: String::new(),
        completion: completion.to_string(),
        world: "real".into(),
        via: "engine".into(),
        energy: None,
        replicate,
        seed,
        merges: Merges::from(&ledger),
        ledger: Ledger {
            submitted: ledger.submitted,
            completed: ledger.completed,
            failed: ledger.failed,
            rejected: ledger.rejected,
            ..Ledger::default()
        },
        cpu: usage.cpu_facts(),
        scheduler_counters: outcome.counters,
        device_counters: BTreeMap::from([
            ("ring_waits".to_owned(), outcome.waits as f64),
            ("rings".to_owned(), outcome.rings as f64),
        ]),
        applications,
        ..RunFacts::default()
    };
    outcome.recorder.finish(closed.end, facts)
}
