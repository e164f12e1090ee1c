//! `tune`: a search for better settings of schedulers, on simulated devices or a real one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use dumbwaiter_block::Nanos;
use dumbwaiter_experiment::{Budget, Experiment, Failure, Overrides, TuneOptions, Tuned, tune};
use dumbwaiter_report::tune_text;
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use dumbwaiter_sim::Simulator;

use crate::args::Tune;
use crate::results::ended_by;
use crate::{Ended, input, on, output, progress};

/// Reads the experiment, searches, and prints what was found.
pub(crate) fn run(args: &Tune) -> Result<Ended> {
    let builtin = if args.on.is_some() { Scenario::builtin_real } else { Scenario::builtin };
    let checking = progress::end_on_signal()?;
    let experiment = Experiment::read(&args.input, builtin, &overrides(args)?, args.goal.into())?;
    let options = options(args)?;
    if let Some(path) = &args.on {
        return on::tune::run(args, path, &experiment, &options, checking);
    }
    let simulator = match args.jobs {
        Some(0) => bail!("--jobs 0: expected at least 1"),
        Some(jobs) => Simulator::new(jobs),
        None => Simulator::on_all_cpus(),
    };
    let inputs: Vec<&Path> = args.input.iter().map(PathBuf::as_path).collect();
    output::check_files(args.json.as_deref(), None, &inputs)?;
    let progress = Arc::new(progress::Progress::default());
    let control = Arc::new(progress.control());
    progress::cancel_on_signal(&control)?;
    drop(checking);
    let found = progress::watch(&progress, &control, || tune(&experiment, &options, &simulator, &control));
    finish(args, found)
}

/// Prints and writes what a search found, and says how it ended.
pub(crate) fn finish(args: &Tune, found: Result<Tuned, Failure>) -> Result<Ended> {
    let Tuned { tuning, failure } = match found {
        Ok(found) => found,
        Err(failure) => return ended_by(failure),
    };
    match &args.json {
        Some(path) => output::write_json(path, &tuning)?,
        None => output::print(&tune_text(&tuning, output::screen(false)))?,
    }
    match failure {
        Some(failure) => ended_by(failure),
        None if tuning.ended_early.as_deref() == Some("interrupted") => Ok(Ended::Interrupted),
        None => Ok(Ended::Done),
    }
}

fn overrides(args: &Tune) -> Result<Overrides> {
    Ok(Overrides {
        devices: args.device.clone(),
        duration: args.duration.as_deref().map(|text| input::time("--duration", text)).transpose()?,
        warmup: args.warmup.as_deref().map(|text| input::time("--warmup", text)).transpose()?,
        seed: args.seed,
        ..Overrides::default()
    })
}

fn options(args: &Tune) -> Result<TuneOptions> {
    let lists = args.scheduler.iter().map(|list| SchedulerSpec::parse_list(list));
    let lists = lists.collect::<Result<Vec<_>, _>>().map_err(|e| anyhow!("--scheduler: {e}"))?;
    let clock = args.length.as_deref().map(|text| input::time("--for", text)).transpose()?;
    let runs = args.budget.as_deref().map(|text| input::time("--budget", text)).transpose()?;
    let budget = Budget {
        // Runs on a drive take as long as they cover, and some time between them: what is left makes sure of the claim.
        runs: runs.or(clock.filter(|_| args.on.is_some()).map(|clock| Nanos(clock.0 / 10 * 7))),
        clock: clock.map(|time| Duration::from_nanos(time.0)),
    };
    Ok(TuneOptions { schedulers: lists.concat(), budget })
}
