//! The hidden command that runs one thread of a load in a process of its own, and how its parent speaks with it.
//!
//! The child says `ready` on its stdout, reads the time to begin (CLOCK_MONOTONIC, ns) from its stdin, and ends with one line
//! of JSON, [`worker::WorkerReport`](dumbwaiter_drive::worker::WorkerReport).

use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use dumbwaiter_block::Ioprio;
use dumbwaiter_drive::worker::{self as part, Worker as Part};
use dumbwaiter_drive::{CompletionMode as Completion, Options, Target};
use dumbwaiter_experiment::Control;
use dumbwaiter_linux::ioprio;
use dumbwaiter_load::Prepared;
use dumbwaiter_scenario::Scenario;

use crate::args::PartArgs;

/// Runs the part. Its parent tells why it failed, and by its exit code whether the device did or something was asked for that
/// cannot be.
pub(crate) fn run(args: &PartArgs) -> Result<crate::Ended> {
    match begin(args) {
        Err(error) if !super::is_refusal(&error) => {
            crate::tell!("dumbwaiter: {}", crate::told_once(&error));
            Ok(crate::Ended::DeviceFailed)
        }
        ended => ended,
    }
}

fn begin(args: &PartArgs) -> Result<crate::Ended> {
    let (scenario, _) = Scenario::load(&args.scenario)?;
    let prepared = Prepared::new(&scenario)?;
    let options = Options {
        direct: !args.buffered,
        allow_writes: args.allow_writes,
        // The parent has it for all of its processes.
        exclusive: false,
        sqpoll: args.sqpoll,
        keep_going: args.keep_going,
        round_out: args.round_out,
        ..Options::default()
    };
    let target = Target::open(&args.on, &options)?;
    let Some(completion) = Completion::parse(&args.completion) else {
        bail!("completion {:?} is not known", args.completion)
    };
    let priority = Ioprio(args.ioprio);
    if priority != Ioprio::DEFAULT {
        ioprio::set(0, priority)?;
    }
    let control = Arc::new(Control::default());
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot watch for signals")?;
    }
    let (watched, steered) = (Arc::clone(&stop), Arc::clone(&control));
    std::thread::spawn(move || {
        while !watched.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        steered.cancel.store(true, Ordering::Relaxed);
    });
    let file = File::create_new(&args.records).with_context(|| args.records.display().to_string())?;
    let records = Box::new(BufWriter::with_capacity(1 << 18, file));
    let part = Part { thread: args.thread, completion, replicate: args.replicate, control: &control };
    let ended = part::run(&prepared, &target, &part, await_start, records)?;
    crate::output::print(&(serde_json::to_string(&ended)? + "\n"))?;
    Ok(crate::Ended::Done)
}

/// Says that all is set up, and waits for the time to begin.
fn await_start() -> io::Result<Instant> {
    let mut out = io::stdout();
    writeln!(out, "ready")?;
    out.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let at: u64 = line.trim().parse().map_err(|_| io::Error::other("the parent process is gone"))?;
    Ok(Instant::now() + Duration::from_nanos(at.saturating_sub(part::monotonic())))
}
