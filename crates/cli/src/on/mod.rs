//! Commands on real files and devices: their flags become an experiment and options, their results are printed.

pub(crate) mod recommend;
pub(crate) mod reproduce;
pub(crate) mod served;
pub(crate) mod tune;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use dumbwaiter_experiment::Input;
use dumbwaiter_realworld::drive::{Options, Rings, Target, Verify};
use dumbwaiter_realworld::{
    self as realworld, DeviceOptions, DeviceUnderTest, EnergySource, Via, WorkerProgram, worker,
};
use dumbwaiter_report::Format;

use crate::args::{self, Compare, VerifyArgs};
use crate::progress::{Checking, RunBar, cancel_on_signal_and_undo};
use crate::results::finish;
use crate::{Ended, energy, output, results};

/// The hidden command that the processes of a load run.
const WORKER: &str = "worker";

/// This program as a worker.
pub(crate) fn worker_program() -> WorkerProgram {
    WorkerProgram::current([WORKER])
}

/// Shows a line of the library.
pub(crate) fn announce() -> dumbwaiter_realworld::Announce {
    Arc::new(|line| crate::tell!("{line}"))
}

/// `compare --on`: the matrix on a real file or device, through our engine and through the kernel's own schedulers.
pub(crate) fn run(args: &Compare, path: &Path, read: &Input, format: Format, checking: Checking) -> Result<Ended> {
    let mut inputs: Vec<&Path> = args.input.iter().map(PathBuf::as_path).collect();
    inputs.push(path);
    inputs.extend(args.verify_journal.as_deref());
    inputs.extend(args.power.power_log.as_deref());
    let options = options(args)?;
    results::check_outputs(&args.outputs, &inputs)?;
    let (bar, writes) = (RunBar::default(), args.destroy.allows_writes());
    let control = bar.control(path, writes);
    cancel_on_signal_and_undo(&control)?;
    drop(checking);
    let device = DeviceUnderTest::open(path, options)?;
    let via = args.via.and_then(|via| match via {
        args::Via::Engine => Some(Via::Engine),
        args::Via::Kernel => Some(Via::Kernel),
        args::Via::Both => Some(Via::Both),
        // A world of its own: `served`.
        args::Via::Serve => None,
    });
    let compared = match read {
        Input::One(experiment) => realworld::compare(experiment, &device, via, worker_program(), &control),
        Input::Several { name, cases } => {
            realworld::compare_all(name, cases, &device, via, &worker_program(), &control)
        }
    };
    bar.finish();
    finish(compared?, &args.outputs, format)
}

/// How the flags let the device be used.
fn options(args: &Compare) -> Result<DeviceOptions> {
    let rings = match args.rings.as_deref() {
        None => Rings::Auto,
        Some(text) => match Rings::parse(text) {
            Some(rings) => rings,
            None => bail!("--rings: `{text}` is not valid; expected auto, per-core or a number from 1 to 1024"),
        },
    };
    let energy = energy::power_log(&args.power)?.map_or(EnergySource::Meter, EnergySource::Log);
    Ok(DeviceOptions {
        allow_writes: args.destroy.allows_writes(),
        confirmed: args.destroy.confirmed(),
        buffered: args.buffered,
        keep_going: args.keep_going,
        round_out: args.round_out,
        rings,
        verify: args.verify.then(|| Verify { journal: args.verify_journal.clone() }),
        energy,
        power_sync: args.power_sync,
        announce: Some(announce()),
        ..DeviceOptions::default()
    })
}

/// The hidden command `worker`: one thread of a load, in a process of its own.
pub(crate) fn work() -> Result<Ended> {
    worker::run()?;
    Ok(Ended::Done)
}

/// `verify`: looks for acknowledged writes that are lost or torn.
pub(crate) fn verify(args: &VerifyArgs) -> Result<Ended> {
    let target = Target::open(&args.target, &Options::default())?;
    let found = dumbwaiter_realworld::drive::verify::check(&target, &args.journal)?;
    output::print(&format!("{found}\n"))?;
    Ok(if found.clean() { Ended::Done } else { Ended::DeviceFailed })
}
