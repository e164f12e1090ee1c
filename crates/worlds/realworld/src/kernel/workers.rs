//! A run by worker processes.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::drive::Target;
use crate::drive::worker;
use dumbwaiter_block::Nanos;
use dumbwaiter_experiment::{Cell, CellResult, Control};
use dumbwaiter_linux::Roots;
use dumbwaiter_linux::disk::disk_of;
use dumbwaiter_linux::filesystem::{self, TemporaryFolder};
use dumbwaiter_scenario::Tenant;
use dumbwaiter_scenario::load::{Change, Prepared};

use super::asked::Asked;
use super::groups::{self, TenantGroups};
use super::join;
use crate::DeviceUnderTest;
use crate::completion::Method;
use crate::error::{Doing, Error};
use crate::time::{stamp, unix_ns};
use crate::worker::{READY, WorkerAnswer, WorkerJob, WorkerProgram, WorkerReport};

/// From giving the start time until all workers begin, ns.
const HEAD_START_NS: u64 = 50_000_000;

/// Worker processes at most.
const WORKERS_MAX: usize = 256;

/// A worker process.
struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    log: PathBuf,
}

impl Worker {
    fn start(program: &WorkerProgram, job: &WorkerJob) -> Result<Worker, Error> {
        let mut command = Command::new(&program.path);
        command.args(&program.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            dumbwaiter_linux::process::end_with_us(&mut command).spawn().doing("cannot start a worker process")?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let stdout = BufReader::new(stdout.ok_or_else(|| Error::failed("a worker process has no output"))?);
        let mut worker = Worker { child, stdin, stdout, log: job.log.clone() };
        let job = serde_json::to_string(job).map_err(Error::refused)?;
        worker.write_line(&job);
        Ok(worker)
    }

    fn write_line(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            // Of a worker that is gone, its answer says why.
            let _ = writeln!(stdin, "{line}");
        }
    }

    fn read_line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(line)
    }

    /// Waits until its disk is set up.
    fn await_ready(&mut self) -> Result<(), Error> {
        let line = self.read_line()?;
        if line.trim() == READY {
            return Ok(());
        }
        self.answer(&line).map(drop)
    }

    /// Waits for its end.
    fn await_report(&mut self) -> Result<WorkerReport, Error> {
        let line = self.read_line()?;
        let report = self.answer(&line)?;
        self.child.wait()?;
        Ok(report)
    }

    fn answer(&mut self, line: &str) -> Result<WorkerReport, Error> {
        match serde_json::from_str(line) {
            Ok(WorkerAnswer::Report(report)) => Ok(report),
            Ok(WorkerAnswer::Refused(reason)) => Err(Error::Refused(reason)),
            Ok(WorkerAnswer::Failed(reason)) => Err(Error::Failed(reason)),
            Err(_) => Err(self.died()?),
        }
    }

    /// The error of a worker that ends without an answer, with the first line that it wrote to stderr.
    fn died(&mut self) -> Result<Error, Error> {
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut text)?;
        }
        let status = self.child.wait()?;
        let line = text.lines().next().map(|line| format!(": {line}")).unwrap_or_default();
        Ok(Error::failed(format!("a worker process failed ({status}){line}")))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Can workers run a load on a device of this many sectors? An error says why not.
pub(super) fn can_run(load: &Prepared, sectors: u64) -> Result<(), String> {
    let scenario = load.scenario();
    if let Some(change) = scenario.changes.first() {
        let at = change.at.as_secs_f64();
        return Err(format!(
            "change at {at} s: the kernel's scheduler is not exchanged during a run; expected no [[change]]"
        ));
    }
    if scenario.has_deadlines() {
        return Err(
            "deadline: the kernel refuses no I/Os; expected our engine (--via engine), or no deadlines".to_owned()
        );
    }
    if let Some(change) = scenario.kernel.io_cost_changes.first() {
        let at = change.at.as_secs_f64();
        return Err(format!(
            "io.cost.change at {at} s: the kernel's io.cost stays as it is during a run; expected no [[io.cost.change]]"
        ));
    }
    let ours = |t: &Tenant| t.controls.limit_iops.or(t.controls.limit_bytes).or(t.controls.reservation_iops).is_some();
    if let Some(tenant) = scenario.tenants.iter().find(|tenant| ours(tenant)) {
        return Err(format!(
            "limit_iops, limit_bytes, reservation_iops of {}: the kernel has none of these; expected our engine (--via engine), or \
             io_max",
            tenant.name
        ));
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if scenario.host.nr_requests_at_attach.is_some() && !keeps_limits(&release) {
        return Err(format!(
            "host.nr_requests_at_attach: Linux {} computes limits from nr_requests; expected Linux 6.12, which keeps those of the time of attachment",
            release.trim()
        ));
    }
    let loaded = load.load_uncached(scenario.seed, sectors, cpus()).map_err(|e| e.to_string())?;
    let threads = loaded.threads.len();
    if threads > WORKERS_MAX {
        return Err(format!(
            "{threads} threads of I/O: each is a process under the kernel's schedulers; expected at most {WORKERS_MAX}"
        ));
    }
    if loaded.threads.iter().any(|thread| thread.background) {
        return Err(
            "host.page_cache: the threads are processes under the kernel's schedulers and share no page cache of ours; expected our \
             engine (--via engine), or no page_cache"
                .to_owned(),
        );
    }
    if loaded.threads.iter().any(|t| t.stage != loaded.threads[0].stage) {
        return Err(
            "stages cannot be run through the kernel's schedulers: the threads are processes; use --via engine"
                .to_owned(),
        );
    }
    if let Some(limit) = scenario.limit.filter(|_| threads > 1) {
        return Err(format!(
            "a limit of {limit} I/Os of all threads cannot be kept through the kernel's schedulers: the threads are \
             processes; give a time, or use --via engine"
        ));
    }
    Ok(())
}

/// Does this release of Linux keep a scheduler's limits when `nr_requests` is written?
fn keeps_limits(release: &str) -> bool {
    release.starts_with("6.12.")
}

fn cpus() -> u16 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u16)
}

/// One run of a load, under the scheduler that is set.
pub(super) fn run(
    device: &DeviceUnderTest,
    program: &WorkerProgram,
    prepared: &Prepared,
    cell: &Cell,
    method: &Method,
    control: &Control,
) -> Result<CellResult, Error> {
    let scenario = prepared.scenario();
    // Held for the whole run, so that no other program takes the device between two workers.
    let target = Target::open(device.path(), device.disk_options())?;
    let seed = scenario.seed.wrapping_add(u64::from(cell.replicate));
    let mut load = prepared.load_uncached(seed, target.sectors(), cpus())?;
    let mut notes = std::mem::take(&mut load.notes);
    let folder =
        TemporaryFolder::inside(&folder_off(device.path())).doing("no folder for the logs of completed I/Os")?;
    let own = cell.scheduler.controls;
    let disk = device.queue().map(|queue| queue.number()).transpose()?.unwrap_or_default();
    let asked = Asked::of(scenario, own, std::mem::take(&mut load.controls), disk);
    load.changes = scenario.tenant_changes(own, std::mem::take(&mut load.changes));
    let groups = TenantGroups::new(&load, asked, &mut notes)?;
    let options = device.disk_options();
    let mut workers = Vec::new();
    for (i, thread) in load.threads.iter().enumerate() {
        let job = WorkerJob {
            scenario: scenario.to_toml(),
            device: device.path().to_owned(),
            log: folder.dir().join(format!("{i}.records")),
            thread: i,
            replicate: cell.replicate,
            completion: method.mode.to_string(),
            sqpoll: method.sqpoll,
            ioprio: thread.ioprio.0,
            direct: options.direct,
            allow_writes: options.allow_writes,
            keep_going: options.keep_going,
            round_out: options.round_out,
        };
        let worker = Worker::start(program, &job)?;
        if let Some(groups) = &groups {
            groups.admit(thread.tenant, worker.child.id())?;
        }
        workers.push(worker);
    }
    for worker in &mut workers {
        worker.await_ready()?;
    }
    let begin = worker::monotonic() + HEAD_START_NS;
    let begin_unix = unix_ns() + HEAD_START_NS;
    for worker in &mut workers {
        worker.write_line(&begin.to_string());
        worker.stdin = None;
    }
    let (reports, unchanged) =
        await_reports(&mut workers, &load.changes, begin, groups.as_ref(), options.keep_going, control)?;
    notes.extend(unchanged);
    drop(target);
    let logs: Vec<&Path> = workers.iter().map(|w| w.log.as_path()).collect();
    let joined = join::Joined { prepared, load, device: device.path(), cell, completion: method.mode, seed };
    let mut result = joined.result(&logs, reports, notes)?;
    result.cancelled = control.cancelled();
    // A cancelled run may end in the middle of an I/O.
    result.failure = result.failure.filter(|_| !options.keep_going && !result.cancelled);
    stamp(&mut result.run, begin_unix + scenario.warmup.0);
    Ok(result)
}

/// Waits for all workers while the load changes as planned. The first that fails, or `control`, ends all. Returns the
/// reports, and what could not be changed.
fn await_reports(
    workers: &mut [Worker],
    changes: &[(Nanos, Change)],
    begin: u64,
    groups: Option<&TenantGroups>,
    keep_going: bool,
    control: &Control,
) -> Result<(Vec<WorkerReport>, Vec<String>), Error> {
    let pids: Vec<u32> = workers.iter().map(|w| w.child.id()).collect();
    let over = AtomicBool::new(false);
    let stop = || {
        if !over.swap(true, Ordering::Relaxed) {
            pids.iter().for_each(|pid| dumbwaiter_linux::process::terminate(*pid));
        }
    };
    let wait = |worker: &mut Worker| {
        let report = worker.await_report();
        if report.as_ref().map_or(true, |r| r.failure.is_some() && !keep_going) {
            stop();
        }
        report
    };
    let (reports, unchanged) = std::thread::scope(|scope| {
        let changer = scope.spawn(|| groups::change(changes, begin, &pids, groups, &over));
        let waiting: Vec<_> = workers.iter_mut().map(|worker| scope.spawn(|| wait(worker))).collect();
        while waiting.iter().any(|w| !w.is_finished()) {
            if control.cancelled() {
                stop();
            }
            std::thread::sleep(groups::POLL_INTERVAL);
        }
        over.store(true, Ordering::Relaxed);
        let joined = |w: std::thread::ScopedJoinHandle<'_, Result<WorkerReport, Error>>| {
            w.join().unwrap_or_else(|_| Err(Error::failed("the report of a worker process was not read")))
        };
        let reports: Vec<_> = waiting.into_iter().map(joined).collect();
        (reports, changer.join().unwrap_or_default())
    });
    Ok((reports.into_iter().collect::<Result<_, _>>()?, unchanged))
}

/// A folder for files that is not on the disk of `path`: logs written there would be measured with the load.
fn folder_off(path: &Path) -> PathBuf {
    let disk = |path: &Path| disk_of(path, &Roots::default()).ok().flatten();
    let usual = std::env::temp_dir();
    let on_it = disk(path).is_some_and(|it| filesystem::device_of(&usual).ok().and_then(|of| disk(&of)) == Some(it));
    if on_it { PathBuf::from("/dev/shm") } else { usual }
}
