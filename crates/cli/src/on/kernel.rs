//! Runs through the kernel's own schedulers: each thread of the load is a process, in its tenant's cgroup and at its priority,
//! since that is how the kernel tells them apart.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use dumbwaiter_block::{Ioprio, Nanos, TaskId, TenantId};
use dumbwaiter_drive::record::Record;
use dumbwaiter_drive::worker::{self as part, WorkerReport as Ended};
use dumbwaiter_drive::{CompletionMode as Completion, Target};
use dumbwaiter_linux::Roots;
use dumbwaiter_linux::place::{self, Place};
use dumbwaiter_linux::queue::{Queue, Settings};
use dumbwaiter_linux::target::disk_of;
use dumbwaiter_load::{Change, Load, Thread};
use dumbwaiter_measure::{Completed, CpuFacts, Ledger, Recorder, RecorderConfig, RunFacts};
use dumbwaiter_scenario::{Scenario, SchedulerSpec};

use super::groups::{self, TenantGroups};
use super::{Bench, Cell};
use crate::args::Via;
use crate::output;

/// Processes at most.
const THREADS_MAX: usize = 256;
/// From the word to begin until all begin, ns.
const HEAD_START: u64 = 50_000_000;

/// The scenario's schedulers that this kernel has for the device.
pub(super) fn schedulers(
    queue: &Queue,
    scenario: &Scenario,
    via: Via,
    notes: &mut Vec<String>,
) -> Result<Vec<SchedulerSpec>> {
    let (_, has) = queue.schedulers()?;
    let (there, not): (Vec<_>, Vec<_>) = scenario.schedulers.iter().cloned().partition(|s| has.contains(&s.name));
    let there: Vec<SchedulerSpec> = there.into_iter().filter(|s| s.variant.is_empty()).collect();
    if there.is_empty() {
        bail!("this kernel has none of the schedulers asked for; for {} it has {}", queue.name(), has.join(", "));
    }
    if via == Via::Kernel && !not.is_empty() {
        let names: Vec<_> = not.iter().map(ToString::to_string).collect();
        notes.push(format!("not in this kernel: {}", names.join(", ")));
    }
    Ok(there)
}

/// Gives the queue a scheduler with its settings.
pub(super) fn set(settings: &mut Settings, spec: &SchedulerSpec, scenario: &Scenario) -> Result<()> {
    settings.set("scheduler", &spec.name)?;
    // Some of the scheduler's own follow it.
    if let Some(n) = scenario.nr_requests {
        settings.set("nr_requests", &n.to_string())?;
    }
    for (name, value) in &spec.tunables {
        settings.set(&format!("iosched/{name}"), value).with_context(|| format!("scheduler `{spec}`"))?;
    }
    Ok(())
}

/// Can the kernel's schedulers run the scenario at all? What they cannot follow of it is noted.
pub(super) fn check(bench: &Bench<'_>, notes: &mut Vec<String>) -> Result<()> {
    let scenario = bench.prepared.scenario();
    if let Some(change) = scenario.changes.first() {
        let at = change.at.as_secs_f64();
        anyhow::bail!("change at {at} s: the kernel's scheduler is not exchanged during a run; expected no [[change]]");
    }
    let target = Target::open(bench.path, bench.options)?;
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u16);
    let load = bench.prepared.load(scenario.seed, target.sectors(), cpus)?;
    if load.threads.len() > THREADS_MAX {
        bail!(
            "{} threads of I/O: each is a process under the kernel's schedulers; expected at most {THREADS_MAX}",
            load.threads.len()
        );
    }
    if load.threads.iter().any(|t| t.stage != load.threads[0].stage) {
        bail!("stages cannot be run through the kernel's schedulers: the threads are processes; use --via engine");
    }
    if let Some(limit) = scenario.limit.filter(|_| load.threads.len() > 1) {
        bail!(
            "a limit of {limit} I/Os of all threads cannot be kept through the kernel's schedulers: the threads are processes; give a time, or use --via engine"
        );
    }
    if scenario.queue_depth.is_some() {
        notes.push("the device's depth is the driver's through the kernel's schedulers, not what is asked for".into());
    }
    Ok(())
}

/// A process that does one thread's I/O.
struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    records: PathBuf,
}

impl Process {
    /// What it said as it failed.
    fn failed(&mut self) -> Result<anyhow::Error> {
        let status = self.child.wait()?;
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut said)?;
        }
        let said = said.lines().next().map(|line| line.trim_start_matches("dumbwaiter: ").to_owned());
        let said = said.unwrap_or_else(|| format!("a process of the load failed ({status})"));
        Ok(if status.code() == Some(2) { dumbwaiter_linux::Error::Refused(said).into() } else { anyhow!(said) })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder for files that is not on the disk of `path`, which is only read: else it would be measured with our own writes.
fn off(path: &Path) -> PathBuf {
    let disk = |path: &Path| disk_of(path, &Roots::default()).ok().flatten();
    let usual = std::env::temp_dir();
    let on_it = disk(path).is_some_and(|it| place::device_of(&usual).ok().and_then(|of| disk(&of)) == Some(it));
    if on_it { PathBuf::from("/dev/shm") } else { usual }
}

/// One run under the scheduler that is set.
pub(super) fn run(
    bench: &Bench<'_>,
    spec: &SchedulerSpec,
    completion: Completion,
    sqpoll: bool,
    replicate: u32,
) -> Result<Cell> {
    let scenario = bench.prepared.scenario();
    let target = Target::open(bench.path, bench.options)?;
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u16);
    let seed = scenario.seed.wrapping_add(u64::from(replicate));
    let load = bench.prepared.load(seed, target.sectors(), cpus)?;
    let mut notes = Vec::new();
    let folder = Place::inside(&off(bench.path)).context("no folder for the records of finished I/Os")?;
    let file = folder.dir().join("scenario.toml");
    std::fs::write(&file, scenario.to_toml()).with_context(|| file.display().to_string())?;
    let groups = TenantGroups::new(&load, &mut notes)?;
    let mut processes = Vec::new();
    for (i, thread) in load.threads.iter().enumerate() {
        let started = start(bench, &file, folder.dir(), i, thread, completion, sqpoll, replicate)?;
        if let Some(groups) = &groups {
            groups.admit(thread.tenant, started.child.id())?;
        }
        processes.push(started);
    }
    for process in &mut processes {
        let mut line = String::new();
        process.stdout.read_line(&mut line)?;
        if line.trim() != "ready" {
            return Err(process.failed()?);
        }
    }
    let begin = part::monotonic() + HEAD_START;
    let begin_unix = super::unix_ns() + HEAD_START;
    for process in &mut processes {
        if let Some(mut stdin) = process.stdin.take() {
            writeln!(stdin, "{begin}").context("a process of the load is gone")?;
        }
    }
    let pids: Vec<u32> = processes.iter().map(|p| p.child.id()).collect();
    let over = AtomicBool::new(false);
    let stop = || {
        if !over.swap(true, Ordering::Relaxed) {
            pids.iter().for_each(|pid| place::terminate(*pid));
        }
    };
    // The first that fails ends all, as does who cancels.
    let wait = |process: &mut Process| {
        let ended = end_of(process);
        if ended.as_ref().map_or(true, |e| e.failure.is_some() && !bench.options.keep_going) {
            stop();
        }
        ended
    };
    let (ends, unchanged) = std::thread::scope(|scope| {
        let changer = scope.spawn(|| groups::change(&load.changes, begin, &pids, groups.as_ref(), &over));
        let waiting: Vec<_> = processes.iter_mut().map(|process| scope.spawn(|| wait(process))).collect();
        while waiting.iter().any(|w| !w.is_finished()) {
            if bench.control.cancel.load(Ordering::Relaxed) {
                stop();
            }
            std::thread::sleep(groups::DOZE);
        }
        over.store(true, Ordering::Relaxed);
        let joined = |w: std::thread::ScopedJoinHandle<'_, Result<Ended>>| {
            w.join().unwrap_or_else(|_| Err(anyhow!("a process of the load was not heard to its end")))
        };
        let ends: Vec<Result<Ended>> = waiting.into_iter().map(joined).collect();
        (ends, changer.join().unwrap_or_default())
    });
    let ends: Vec<Ended> = ends.into_iter().collect::<Result<_>>()?;
    notes.extend(unchanged);
    // Nobody else might have the device until here.
    drop(target);
    let cancelled = bench.control.cancel.load(Ordering::Relaxed);
    let files: Vec<&Path> = processes.iter().map(|p| p.records.as_path()).collect();
    let mut cell = finish(bench, spec, completion, replicate, seed, load, &files, ends, notes, cancelled)?;
    super::stamp(&mut cell.result, begin_unix + scenario.warmup.0);
    Ok(cell)
}

#[allow(clippy::too_many_arguments)]
fn start(
    bench: &Bench<'_>,
    scenario: &Path,
    folder: &Path,
    number: usize,
    thread: &Thread,
    completion: Completion,
    sqpoll: bool,
    replicate: u32,
) -> Result<Process> {
    let records = folder.join(format!("{number}.records"));
    // This very program, though another was installed in its place since.
    let mut command = Command::new("/proc/self/exe");
    command.arg("part").arg(scenario).arg("--on").arg(bench.path).arg("--records").arg(&records);
    command.args(["--thread", &number.to_string(), "--replicate", &replicate.to_string()]);
    command.args(["--completion", &completion.to_string()]);
    if thread.ioprio != Ioprio::DEFAULT {
        command.args(["--ioprio", &thread.ioprio.0.to_string()]);
    }
    for (flag, set) in [
        ("--sqpoll", sqpoll),
        ("--allow-writes", bench.options.allow_writes),
        ("--buffered", !bench.options.direct),
        ("--keep-going", bench.options.keep_going),
        ("--round-out", bench.options.round_out),
    ] {
        if set {
            command.arg(flag);
        }
    }
    let mut child = place::end_with_us(&mut command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start a process for a thread of the load")?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let stdout = BufReader::new(stdout.ok_or_else(|| anyhow!("a process of the load has no output"))?);
    Ok(Process { child, stdin, stdout, records })
}

fn end_of(process: &mut Process) -> Result<Ended> {
    let mut line = String::new();
    process.stdout.read_line(&mut line)?;
    if line.is_empty() {
        return Err(process.failed()?);
    }
    process.child.wait()?;
    serde_json::from_str(&line).context("a process of the load did not say how it ended")
}

/// Joins what the processes wrote down, in the order in which the I/Os were done.
fn joined(files: &[&Path], mut each: impl FnMut(usize, &Record)) -> Result<()> {
    let mut readers = Vec::new();
    let mut next: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut heads: Vec<Option<Record>> = Vec::new();
    for (i, path) in files.iter().enumerate() {
        let mut reader =
            BufReader::with_capacity(1 << 16, File::open(path).with_context(|| path.display().to_string())?);
        let head = Record::read(&mut reader)?;
        next.extend(head.map(|r| Reverse((r.complete.0, i))));
        heads.push(head);
        readers.push(reader);
    }
    while let Some(Reverse((_, i))) = next.pop() {
        if let Some(record) = heads[i].take() {
            each(i, &record);
        }
        heads[i] = Record::read(&mut readers[i])?;
        next.extend(heads[i].map(|r| Reverse((r.complete.0, i))));
    }
    Ok(())
}

/// Whose a thread is from when on.
fn tenants_of(load: &Load, thread: usize) -> Vec<(Nanos, TenantId)> {
    let moves = load.changes.iter().filter_map(|(at, change)| match *change {
        Change::Move { thread: moved, tenant } if moved as usize == thread => Some((*at, tenant)),
        _ => None,
    });
    let mut tenants = vec![(Nanos::ZERO, load.threads[thread].tenant)];
    tenants.extend(moves);
    tenants.sort_by_key(|(at, _)| *at);
    tenants
}

/// Whose it is `at` a time; the first is from the beginning on.
fn tenant_at(tenants: &[(Nanos, TenantId)], at: Nanos) -> TenantId {
    let past = tenants.partition_point(|(from, _)| *from <= at);
    tenants[past.max(1) - 1].1
}

#[allow(clippy::too_many_arguments)]
fn finish(
    bench: &Bench<'_>,
    spec: &SchedulerSpec,
    completion: Completion,
    replicate: u32,
    seed: u64,
    load: Load,
    files: &[&Path],
    ends: Vec<Ended>,
    mut notes: Vec<String>,
    cancelled: bool,
) -> Result<Cell> {
    let s = bench.prepared.scenario();
    // A thread with several tasks (a trace) has the first of them in the list and the others behind all.
    let mut behind = load.task_specs.len() as u32;
    let mut tasks = load.task_specs.clone();
    let mut others: BTreeMap<(usize, u16), TaskId> = BTreeMap::new();
    joined(files, |thread, record| {
        if record.task > 0 {
            others.entry((thread, record.task)).or_insert_with(|| {
                let first = &load.task_specs[load.threads[thread].task.0 as usize];
                tasks.push(first.clone());
                behind += 1;
                TaskId(behind - 1)
            });
        }
    })?;
    let mut recorder = Recorder::new(RecorderConfig {
        warmup: s.warmup,
        interval: s.series,
        tenants: load.tenant_specs.clone(),
        tasks,
    });
    let end = Nanos(ends.iter().map(|ended| ended.end_ns).max().unwrap_or(0));
    for (at, change) in load.changes.iter().filter(|(at, _)| *at <= end) {
        if let Change::Weight { tenant, weight } = *change {
            recorder.weight(*at, tenant, weight);
        }
    }
    let tenants: Vec<_> = (0..load.threads.len()).map(|thread| tenants_of(&load, thread)).collect();
    let mut submitted_by_tenant = vec![0; load.tenant_specs.len()];
    let mut finished = vec![0; load.threads.len()];
    joined(files, |thread, record| {
        let of = &load.threads[thread];
        let tenant = tenant_at(&tenants[thread], record.submit);
        submitted_by_tenant[tenant.0 as usize] += 1;
        finished[thread] += 1;
        recorder.record(&Completed {
            op: record.op,
            task: others.get(&(thread, record.task)).copied().unwrap_or(of.task),
            tenant,
            bytes: u64::from(record.bytes),
            submit: record.submit,
            insert: record.submit,
            issue: record.issue,
            device_done: record.complete,
            complete: record.complete,
        });
    })?;
    let mut ledger = Ledger::default();
    let (mut usr, mut sys, mut switches) = (0, 0, 0);
    let mut oldest = 0;
    let mut failure = None;
    let mut applications = Vec::new();
    let mut failures: BTreeMap<String, u64> = BTreeMap::new();
    for (thread, ended) in ends.into_iter().enumerate() {
        // What was not finished, or failed, was asked for last.
        let rest = ended.submitted.saturating_sub(finished[thread]);
        submitted_by_tenant[tenant_at(&tenants[thread], Nanos::MAX).0 as usize] += rest;
        ledger.submitted += ended.submitted;
        ledger.completed += ended.completed;
        ledger.failed += ended.failed;
        ledger.outstanding += ended.outstanding;
        usr += ended.usr_ns;
        sys += ended.sys_ns;
        switches += ended.switches;
        oldest = oldest.max(ended.oldest_ns);
        failure = failure.or(ended.failure);
        applications.extend(ended.applications);
        for (error, n) in ended.failures {
            *failures.entry(error).or_insert(0) += n;
        }
        notes.extend(ended.notes);
        notes.extend(ended.skipped.iter().map(|(reason, n)| format!("{} I/Os: {reason}", output::grouped(*n))));
    }
    notes.extend(failures.iter().map(|(error, n)| format!("{} I/Os failed: {error}", output::grouped(*n))));
    let facts = RunFacts {
        device: bench.path.display().to_string(),
        scheduler: spec.to_string(),
        completion: completion.to_string(),
        world: "real".into(),
        via: "kernel".into(),
        replicate,
        seed,
        submitted_by_tenant,
        ledger,
        applications,
        cpu: CpuFacts {
            busy: vec![Nanos(usr + sys)],
            span: end,
            usr: Nanos(usr),
            sys: Nanos(sys),
            switches: Some(switches),
            ..CpuFacts::default()
        },
        ..RunFacts::default()
    };
    let mut result = recorder.finish(end, facts);
    // How much of it was in the scheduler and how much in the device, only the kernel knows.
    for (depth, series) in [
        (&mut result.depth.scheduler, &mut result.series.depth_scheduler),
        (&mut result.depth.device, &mut result.series.depth_device),
    ] {
        (depth.mean, depth.max) = (f64::NAN, 0);
        depth.distribution.clear();
        series.fill(f64::NAN);
    }
    Ok(Cell { result, notes, failure, unsound: None, oldest: Nanos(oldest), cancelled })
}
