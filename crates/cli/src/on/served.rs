//! `compare --via serve`: the matrix on a served disk.

use std::path::{Path, PathBuf};

use anyhow::Result;
use dumbwaiter_experiment::{Input, compare, compare_all};
use dumbwaiter_realworld::{DeviceUnderTest, Served};
use dumbwaiter_report::Format;

use super::options;
use crate::args::Compare;
use crate::progress::{Checking, RunBar, cancel_on_signal_and_undo};
use crate::results::finish;
use crate::{Ended, results};

/// Serves the target of `--on`, or the device models, and runs the comparison on it.
pub(crate) fn run(args: &Compare, read: &Input, format: Format, checking: Checking) -> Result<Ended> {
    let mut inputs: Vec<&Path> = args.input.iter().map(PathBuf::as_path).collect();
    inputs.extend(args.on.as_deref());
    results::check_outputs(&args.outputs, &inputs)?;
    let name = args.on.as_ref().map_or_else(|| Path::new("served models"), PathBuf::as_path);
    let bar = RunBar::default();
    let control = bar.control(name, args.destroy.allows_writes());
    cancel_on_signal_and_undo(&control)?;
    drop(checking);
    let device = match args.on.as_deref() {
        Some(path) if !path.to_str().is_some_and(Served::is_named) => {
            Some(DeviceUnderTest::open(path, options(args)?)?)
        }
        _ => None,
    };
    let world = match (&device, &args.on) {
        (Some(device), _) => Served::device(device)?,
        (None, Some(target)) => Served::named(&target.display().to_string())?,
        (None, None) => Served::models(),
    };
    let compared = match read {
        Input::One(experiment) => compare(experiment, &world, &control),
        Input::Several { name, cases } => compare_all(name, cases, &world, &control),
    };
    bar.finish();
    finish(compared?, &args.outputs, format)
}
