//! The `dumbwaiter` command: choose and prove a block I/O scheduler.
//!
//! stdout is for results, stderr for the story. Exit codes: 0 done, 1 a check failed, 2 bad input or refused, 3 a
//! device or an I/O failed (with what was finished), 130 interrupted (with what was finished).
#![forbid(unsafe_code)]

mod args;
mod bench;
mod closed_loop;
mod compare;
mod ctl;
mod devices;
mod energy;
mod fidelity;
mod input;
mod learn;
mod on;
mod output;
mod progress;
mod record;
mod report;
mod reproduce;
mod results;
mod schedulers;
mod serve;
mod shell;
mod trace;

use std::process::ExitCode;

use clap::Parser;

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

fn main() -> ExitCode {
    let args = Args::parse();
    // Workers leave that to the process that started them.
    if !matches!(args.command, Command::Worker) {
        for line in dumbwaiter_linux::undo::leftovers() {
            crate::tell!("dumbwaiter: {line}");
        }
    }
    let ended = match args.command {
        Command::Compare(args) => compare::run(*args),
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
        Command::Bench(args) => bench::run(&args),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
    };
    match ended {
        Ok(Ended::Done) => ExitCode::SUCCESS,
        Ok(Ended::Failed) => ExitCode::from(1),
        Ok(Ended::Interrupted) => ExitCode::from(130),
        Ok(Ended::DeviceFailed) => ExitCode::from(3),
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            crate::tell!("dumbwaiter: {}", told_once(&error));
            ExitCode::from(2)
        }
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
