//! The `dumbwaiter` command: choose and prove a block I/O scheduler. A library, so that `python -m dumbwaiter` is the same one.
//!
//! stdout is for results, stderr for the story. Exit codes: 0 done, 1 a check failed, 2 bad input or refused, 3 a
//! device or an I/O failed (with what was finished), 130 interrupted (with what was finished).
#![forbid(unsafe_code)]

mod args;
mod bench;
mod compare;
mod ctl;
mod devices;
mod energy;
mod fidelity;
mod fit;
mod input;
mod learn;
mod on;
mod output;
mod pilot;
mod progress;
mod record;
mod report;
mod reproduce;
mod results;
mod schedulers;
mod serve;
mod shell;
mod sweep;
mod top;
mod trace;
mod tune;

use std::ffi::OsString;

use clap::Parser;
use dumbwaiter_terminal::tell;

use args::{Args, Command};

/// How a command ended.
pub(crate) enum Ended {
    /// All is well.
    Done,
    /// The answer is "no": a validation target was missed.
    Failed,
    /// By a signal, with what was finished.
    Interrupted,
    /// A device or an I/O failed; what was finished is written.
    DeviceFailed,
}

/// Runs the command with `args`, the first of which is its own name. Returns the exit code.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(told) => {
            let _ = told.print();
            return told.exit_code().clamp(0, 255) as u8;
        }
    };
    // Workers leave that to the process that started them.
    if !matches!(args.command, Command::Worker) {
        for line in dumbwaiter_linux::undo::leftovers() {
            crate::tell!("dumbwaiter: {line}");
        }
    }
    match command(args.command) {
        Ok(Ended::Done) => 0,
        Ok(Ended::Failed) => 1,
        Ok(Ended::Interrupted) => 130,
        Ok(Ended::DeviceFailed) => 3,
        Err(error) if output::is_broken_pipe(&error) => 0,
        Err(error) => {
            crate::tell!("dumbwaiter: {}", told_once(&error));
            2
        }
    }
}

fn command(command: Command) -> anyhow::Result<Ended> {
    match command {
        Command::Compare(args) => compare::run(*args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Schedulers(args) => schedulers::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Fidelity(args) => fidelity::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Diff(args) => report::diff(&args),
        Command::Recommend(args) => on::recommend::run(&args),
        Command::Energy(args) => energy::run(&args),
        Command::Verify(args) => on::verify(&args),
        Command::Worker => on::work(),
        Command::Record(args) => record::run(&args),
        Command::Learn(args) => learn::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Ctl(args) => ctl::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Pilot(args) => pilot::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
    }
}

/// The error and its causes in one line, each part once: many errors tell their cause themselves.
pub(crate) fn told_once(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text += &format!(": {cause}");
        }
    }
    text
}
