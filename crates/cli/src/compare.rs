//! `compare`: the schedulers side by side, on simulated devices or a real one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use dumbwaiter_experiment::{Experiment, Overrides, compare};
use dumbwaiter_scenario::{Scenario, TraceOptions};
use dumbwaiter_sim::Simulator;

use crate::args::Compare;
use crate::{Ended, input, on, output, progress, results};

/// Reads the experiment, runs it, prints and writes the results.
pub(crate) fn run(args: Compare) -> Result<Ended> {
    let builtin = if args.on.is_some() { Scenario::builtin_real } else { Scenario::builtin };
    let overrides = overrides(&args)?;
    let experiment = Experiment::read(&args.input, builtin, &overrides, args.goal.into())?;
    if args.print_config {
        output::print(&experiment.scenario.to_toml())?;
        return Ok(Ended::Done);
    }
    if let Some(path) = &args.on {
        return on::run(&args, path, &experiment);
    }
    if let Some(log) = &args.power.power_log {
        bail!(
            "--power-log {}: applies only to runs on a real drive (--on); a simulation has no time of day",
            log.display()
        );
    }
    let simulator = match args.jobs {
        Some(0) => bail!("--jobs 0: expected at least 1"),
        Some(jobs) => Simulator::new(jobs),
        None => Simulator::on_all_cpus(),
    };
    let inputs: Vec<&Path> = args.input.iter().map(PathBuf::as_path).collect();
    results::check_outputs(&args.outputs, &inputs)?;
    let progress = Arc::new(progress::Progress::default());
    let control = Arc::new(progress.control());
    progress::cancel_on_signal(&control)?;
    let compared = progress::watch(&progress, &control, || compare(&experiment, &simulator, &control));
    results::finish(compared, &args.outputs)
}

/// Flags that override the scenario.
fn overrides(args: &Compare) -> Result<Overrides> {
    let (replay, reading) = (&args.replay, &args.reading);
    Ok(Overrides {
        devices: args.device.clone(),
        schedulers: args.schedulers.clone(),
        completion: args.completion.clone(),
        queue_depth: args.queue_depth,
        nr_requests: args.nr_requests,
        duration: args.duration.as_deref().map(|text| input::time("--duration", text)).transpose()?,
        warmup: args.warmup.as_deref().map(|text| input::time("--warmup", text)).transpose()?,
        limit: args.limit,
        replicates: args.replicates,
        seed: args.seed,
        trace: TraceOptions {
            format: reading.format.clone(),
            columns: reading.columns.clone(),
            speed: replay.speed,
            depth: replay.depth,
            closed_per_task: replay.closed_per_task,
            limit: None,
            fit: replay.fit.clone(),
            arrival: reading.arrival.clone(),
            assume_bytes: reading.assume_bytes,
            parts: Vec::new(),
        },
        own_schedulers: Vec::new(),
    })
}
