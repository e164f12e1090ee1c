//! `tune --on`: the search on a real file or device.

use std::path::{Path, PathBuf};

use anyhow::Result;
use dumbwaiter_experiment::{Experiment, TuneOptions, Tuned};
use dumbwaiter_realworld::{DeviceOptions, DeviceUnderTest, EnergySource};

use super::{announce, worker_program};
use crate::args::Tune;
use crate::output;
use crate::progress::{Checking, RunBar, cancel_on_signal_and_undo};

/// Searches through the kernel's schedulers on a block device, through ours on a file.
pub(crate) fn run(
    args: &Tune,
    path: &Path,
    experiment: &Experiment,
    options: &TuneOptions,
    checking: Checking,
) -> Result<Tuned> {
    let mut inputs: Vec<&Path> = args.input.iter().map(PathBuf::as_path).collect();
    inputs.push(path);
    output::check_files(args.json.as_deref(), None, &inputs)?;
    let bar = RunBar::default();
    let control = bar.quiet_control();
    cancel_on_signal_and_undo(&control)?;
    drop(checking);
    let device = DeviceOptions {
        allow_writes: args.destroy.allows_writes(),
        confirmed: args.destroy.confirmed(),
        energy: EnergySource::None,
        announce: Some(announce()),
        ..DeviceOptions::default()
    };
    let device = DeviceUnderTest::open(path, device)?;
    let writes = if args.destroy.allows_writes() { "WRITES TO IT" } else { "only reads" };
    crate::tell!("{}: {writes}", path.display());
    let found = dumbwaiter_realworld::tune(experiment, options, &device, worker_program(), &control);
    bar.finish();
    Ok(found?)
}
