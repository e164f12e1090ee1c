//! The `dumbwaiter` command: choose and prove a block I/O scheduler. A library, so that `python -m dumbwaiter` is the same one,
//! and so that other programs can show results as it does ([`terminal`]).
//!
//! Results go to stdout, messages to stderr. Exit codes: 0 done, 1 a check failed, 2 bad input or refused, 3 a
//! device or an I/O failed, 130 interrupted; completed work is printed and written in both cases.
#![forbid(unsafe_code)]

mod args;
mod bench;
mod compare;
mod ctl;
mod devices;
mod energy;
mod fidelity;
mod fit;
mod host;
mod input;
mod io_cost;
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
pub mod terminal;
mod top;
mod trace;
mod tune;
pub mod version;

use std::ffi::OsString;

use clap::FromArgMatches;
use dumbwaiter_experiment::{Failure, FailureKind};
use terminal::one_line;

use args::{Args, Command, Ctl, CtlCommand, Top};

/// How a command ended.
#[derive(Clone, Copy)]
pub(crate) enum Ended {
    /// All is well.
    Done,
    /// A check failed, such as a target of a validation.
    Failed,
    /// By a signal; completed work is printed and written.
    Interrupted,
    /// A device or an I/O failed; completed work is printed and written.
    DeviceFailed,
}

/// Runs the command with `args`, the first of which is its own name. Returns the exit code.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let mut known = args::command();
    let parsed = match known.try_get_matches_from_mut(ctl::join_set(args.into_iter().collect())) {
        Ok(found) => Args::from_arg_matches(&found).map_err(|error| error.format(&mut known)),
        Err(error) => Err(error),
    };
    let args = match parsed {
        Ok(args) => args,
        Err(help) => {
            let _ = help.print();
            return help.exit_code().clamp(0, 255) as u8;
        }
    };
    // Workers leave that to the process that started them.
    if !matches!(args.command, Command::Worker) {
        for line in dumbwaiter_linux::undo::leftovers() {
            crate::tell!("dumbwaiter: {line}");
        }
    }
    match command(args.command) {
        Ok(ended) => ended.exit_code(),
        Err(error) if output::is_broken_pipe(&error) => 0,
        Err(error) => {
            crate::tell!("dumbwaiter: {}", one_line(&*error));
            Ended::by(&error).map_or(2, Ended::exit_code)
        }
    }
}

impl Ended {
    /// The end that a failure of a library means; `None` if it is bad input or a refusal.
    fn by(error: &anyhow::Error) -> Option<Ended> {
        if let Some(failure) = error.downcast_ref::<Failure>() {
            return match failure.kind {
                FailureKind::Refused => None,
                FailureKind::Device => Some(Ended::DeviceFailed),
                FailureKind::Interrupted => Some(Ended::Interrupted),
            };
        }
        match error.downcast_ref::<dumbwaiter_realworld::fit::Error>()? {
            dumbwaiter_realworld::fit::Error::Refused(_) | dumbwaiter_realworld::fit::Error::NoFit(_) => None,
            dumbwaiter_realworld::fit::Error::Device(_) => Some(Ended::DeviceFailed),
            dumbwaiter_realworld::fit::Error::Interrupted => Some(Ended::Interrupted),
        }
    }

    fn exit_code(self) -> u8 {
        match self {
            Ended::Done => 0,
            Ended::Failed => 1,
            Ended::DeviceFailed => 3,
            Ended::Interrupted => 130,
        }
    }
}

fn command(command: Command) -> anyhow::Result<Ended> {
    match command {
        Command::Compare(args) => compare::run(*args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Schedulers(args) => schedulers::run(&args),
        Command::Devices(args) => devices::run(args),
        Command::Host(args) => host::run(args),
        Command::Trace(args) => trace::run(&args),
        Command::Fidelity(args) => fidelity::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Diff(args) => {
            args::renamed("diff", "report diff");
            report::diff(&args)
        }
        Command::Recommend(args) => on::recommend::run(&args),
        Command::Energy(args) => {
            args::renamed("energy", "report energy");
            energy::run(&args)
        }
        Command::Verify(args) => on::verify(&args),
        Command::Worker => on::work(),
        Command::Record(args) => record::run(&args),
        Command::Learn(args) => learn::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Ctl(args) => ctl::run(&args),
        Command::Top(Top { control, json, view }) => {
            args::renamed("top", "ctl top");
            ctl::run(&Ctl { control, json, what: CtlCommand::Top(view) })
        }
        Command::Pilot(args) => pilot::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
    }
}
