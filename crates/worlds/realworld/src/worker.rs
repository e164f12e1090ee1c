//! Worker processes: one thread of a load each, since the kernel tells tasks and cgroups apart by process.
//!
//! The parent starts a [`WorkerProgram`], which calls [`run`]. They speak over the worker's standard streams:
//!
//! 1. The parent writes a [`WorkerJob`] to stdin, as one line of JSON.
//! 2. The worker sets up its disk and writes the line `ready` to stdout.
//! 3. The parent writes the start time to stdin: nanoseconds of CLOCK_MONOTONIC, as one line in decimal.
//! 4. The worker runs. Each completed I/O goes to the job's log file. SIGTERM ends it early.
//! 5. The worker writes a [`WorkerAnswer`] to stdout, as one line of JSON, and exits. One that fails before `ready` writes
//!    its answer in place of it.
//!
//! A worker ends by SIGTERM when its parent dies.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use crate::drive::worker::WorkerReport;
use crate::drive::worker::{self, Worker};
use crate::drive::{CompletionMode, Options, Target};
use dumbwaiter_block::Ioprio;
use dumbwaiter_experiment::Control;
use dumbwaiter_linux::ioprio;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_scenario::load::Prepared;
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error};

/// How soon a worker notices a signal.
const SIGNAL_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Buffer of the log of completed I/Os.
const LOG_BUFFER_BYTES: usize = 1 << 18;
/// The line that a worker writes when its disk is set up.
pub(crate) const READY: &str = "ready";

/// The program that the workers are, and the arguments with which it calls [`run`].
#[derive(Clone, Debug)]
pub struct WorkerProgram {
    /// The program.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

impl WorkerProgram {
    /// The program that is running, even if its file was replaced meanwhile.
    pub fn current(args: impl IntoIterator<Item = impl Into<OsString>>) -> WorkerProgram {
        WorkerProgram { path: "/proc/self/exe".into(), args: args.into_iter().map(Into::into).collect() }
    }
}

/// The job of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerJob {
    /// The scenario, as TOML.
    pub scenario: String,
    /// The device or file.
    pub device: PathBuf,
    /// The file for the log of completed I/Os, which must not exist yet.
    pub log: PathBuf,
    /// Index of the thread in the load.
    pub thread: usize,
    /// Number of the replicate.
    pub replicate: u32,
    /// How completions are found, as the engine names it.
    pub completion: String,
    /// A kernel thread submits.
    pub sqpoll: bool,
    /// Priority of the process, as `ioprio_set` takes it.
    pub ioprio: u16,
    /// Bypass the page cache.
    pub direct: bool,
    /// May the load write?
    pub allow_writes: bool,
    /// Go on after a failed I/O.
    pub keep_going: bool,
    /// Round I/Os out to whole blocks.
    pub round_out: bool,
}

/// How a worker ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerAnswer {
    /// It ran.
    Report(WorkerReport),
    /// The job asks for something that cannot be.
    Refused(String),
    /// The device or the system failed.
    Failed(String),
}

/// Does the work of a worker process: reads the job from stdin and answers on stdout. An error only where stdout cannot be
/// written, since the parent is gone.
pub fn run() -> io::Result<()> {
    let answer = match work() {
        Ok(report) => WorkerAnswer::Report(report),
        Err(error) if error.is_refusal() => WorkerAnswer::Refused(error.to_string()),
        Err(error) => WorkerAnswer::Failed(error.to_string()),
    };
    write_line(&serde_json::to_string(&answer)?)
}

fn write_line(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn work() -> Result<WorkerReport, Error> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let job: WorkerJob = serde_json::from_str(&line).map_err(|e| Error::refused(format!("not a worker's job: {e}")))?;
    let scenario = Scenario::from_toml(&job.scenario, "scenario of the run").map_err(Error::refused)?;
    let prepared = Prepared::new(&scenario)?;
    let options = Options {
        direct: job.direct,
        allow_writes: job.allow_writes,
        // The parent has the device for all of its workers.
        exclusive: false,
        sqpoll: job.sqpoll,
        keep_going: job.keep_going,
        round_out: job.round_out,
        ..Options::default()
    };
    let target = Target::open(&job.device, &options)?;
    let completion = CompletionMode::parse(&job.completion)
        .ok_or_else(|| Error::refused(format!("completion {:?} is not known", job.completion)))?;
    let priority = Ioprio(job.ioprio);
    if priority != Ioprio::DEFAULT {
        ioprio::set(0, priority)?;
    }
    let control = Arc::new(Control::default());
    cancel_on_signals(&control)?;
    let log = File::create_new(&job.log).doing(job.log.display())?;
    let log = Box::new(BufWriter::with_capacity(LOG_BUFFER_BYTES, log));
    let worker = Worker { thread: job.thread, completion, replicate: job.replicate, control: &control };
    Ok(worker::run(&prepared, &target, &worker, await_start, log)?)
}

fn cancel_on_signals(control: &Arc<Control>) -> Result<(), Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).doing("cannot watch for signals")?;
    }
    let control = Arc::clone(control);
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(SIGNAL_POLL_INTERVAL);
        }
        control.cancel.store(true, Ordering::Relaxed);
    });
    Ok(())
}

/// Tells the parent that the disk is set up, and reads the start time.
fn await_start() -> io::Result<Instant> {
    write_line(READY)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let at: u64 = line.trim().parse().map_err(|_| io::Error::other("the parent process is gone"))?;
    Ok(Instant::now() + Duration::from_nanos(at.saturating_sub(worker::monotonic())))
}
