//! `tune`: a search for better settings of schedulers, on simulated devices or a real one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};
use dumbwaiter_experiment::{Budget, Experiment, Overrides, TuneOptions, Tuned, tune};
use dumbwaiter_report::tune_text;
use dumbwaiter_scenario::{Scenario, SchedulerSpec};

use crate::args::Tune;
use crate::progress::{Watched, end_on_signal};
use crate::{Ended, input, on, output};

/// Reads the experiment, searches, and prints what was found.
pub(crate) fn run(args: &Tune) -> Result<Ended> {
    let builtin = if args.on.is_some() { Scenario::builtin_real } else { Scenario::builtin };
    args.destroy.check(args.on.as_deref(), "--on PATH")?;
    let checking = end_on_signal()?;
    let experiment = Experiment::read(&args.input, builtin, &overrides(args)?, args.goal.into())?;
    let options = options(args)?;
    if let Some(path) = &args.on {
        return finish(args, on::tune::run(args, path, &experiment, &options, checking)?);
    }
    let simulator = input::simulator(args.jobs)?;
    let inputs: Vec<&Path> = args.input.iter().map(PathBuf::as_path).collect();
    output::check_files(args.json.as_deref(), None, &inputs)?;
    let watched = Watched::start()?;
    drop(checking);
    let found = watched.run(|control| tune(&experiment, &options, &simulator, control));
    finish(args, found?)
}

/// Prints or writes what a search found, and says how it ended.
fn finish(args: &Tune, found: Tuned) -> Result<Ended> {
    let Tuned { tuning, failure } = found;
    output::print_or_json(args.json.as_deref(), &tuning, || tune_text(&tuning, output::screen(false)))?;
    match failure {
        Some(failure) => Err(failure.into()),
        None if tuning.ended_early.as_deref() == Some("interrupted") => Ok(Ended::Interrupted),
        None => Ok(Ended::Done),
    }
}

fn overrides(args: &Tune) -> Result<Overrides> {
    Ok(Overrides {
        devices: args.device.clone(),
        duration: input::time_if("--duration", args.duration.as_ref())?,
        warmup: input::time_if("--warmup", args.warmup.as_ref())?,
        seed: args.seed,
        ..Overrides::default()
    })
}

fn options(args: &Tune) -> Result<TuneOptions> {
    let lists = args.scheduler.iter().map(|list| SchedulerSpec::parse_list(list));
    let lists = lists.collect::<Result<Vec<_>, _>>().map_err(|e| anyhow!("--scheduler: {e}"))?;
    let clock = input::time_if("--for", args.length.as_ref())?.map(|time| Duration::from_nanos(time.0));
    let runs = input::time_if("--budget", args.budget.as_ref())?;
    let budget = match args.on {
        Some(_) => Budget::on_drive(runs, clock),
        None => Budget { runs, clock },
    };
    Ok(TuneOptions {
        schedulers: lists.concat(),
        budget,
        rate: input::rate(args.rate.as_deref())?,
        incumbent: args.incumbent.clone(),
    })
}
