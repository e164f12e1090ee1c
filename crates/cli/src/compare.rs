//! `compare`: the schedulers side by side, on simulated devices or a real one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use dumbwaiter_experiment::{Input, Overrides, Until, compare, compare_all};
use dumbwaiter_report::{Format, read_json};
use dumbwaiter_scenario::{Scenario, TraceOptions};

use crate::args::{Compare, Via};
use crate::progress::{Watched, end_on_signal};
use crate::{Ended, input, on, output, results};

/// Said of simulations that take long.
const SHORTER: &str = "this takes long; --duration 30s ends each run then, -s NAME,NAME runs fewer";

/// Reads the experiment, runs it, prints and writes the results.
pub(crate) fn run(args: Compare) -> Result<Ended> {
    let builtin = if args.on.is_some() { Scenario::builtin_real } else { Scenario::builtin };
    args.destroy.check(args.on.as_deref(), "--on PATH")?;
    let checking = end_on_signal()?;
    // One word for both: how a trace is read, and how the result is printed; their names differ.
    let (format, trace_format) = match args.reading.format.as_deref() {
        Some(name) if Format::parse(name).is_some() => (results::format(name)?, None),
        name => (Format::default(), name),
    };
    let overrides = overrides(&args, trace_format)?;
    let mut read = Input::read(&args.input, builtin, &overrides, args.goal.into())?;
    if let Some(path) = &args.resume {
        read.resume(&read_json(path)?)?;
    }
    if args.print_config {
        output::print(&read.to_toml())?;
        return Ok(Ended::Done);
    }
    if args.via == Some(Via::Serve) {
        return on::served::run(&args, &read, format, checking);
    }
    if args.via.is_some() && args.on.is_none() {
        bail!("--via: expected --on PATH, the file or device to run on; only --via serve does without");
    }
    if let Some(path) = &args.on {
        return on::run(&args, path, &read, format, checking);
    }
    if let Some(log) = &args.power.power_log {
        bail!(
            "--power-log {}: applies only to runs on a real drive (--on); a simulation has no time of day",
            log.display()
        );
    }
    let simulator = input::simulator(args.jobs)?;
    let inputs: Vec<&Path> = args.input.iter().map(PathBuf::as_path).collect();
    results::check_outputs(&args.outputs, &inputs)?;
    let watched = Watched::start()?.shortened_by(SHORTER);
    drop(checking);
    let compared = watched.run(|control| match &read {
        Input::One(experiment) => compare(experiment, &simulator, control),
        Input::Several { name, cases } => compare_all(name, cases, &simulator, control),
    });
    results::finish(compared?, &args.outputs, format)
}

/// Until when replicates are added.
fn until(args: &Compare) -> Result<Option<Until>> {
    let Some(text) = &args.until else { return Ok(None) };
    let time_max = Duration::from_nanos(input::time("--until-time", &args.until_time)?.0);
    Until::parse(text, time_max).map(Some).map_err(|e| anyhow!("--until: {e}"))
}

/// Flags that override the scenario.
fn overrides(args: &Compare, trace_format: Option<&str>) -> Result<Overrides> {
    let (replay, reading) = (&args.replay, &args.reading);
    Ok(Overrides {
        devices: args.device.clone(),
        schedulers: args.schedulers.clone(),
        completion: args.completion.clone(),
        queue_depth: args.queue_depth,
        nr_requests: args.nr_requests,
        read_ahead_kb: args.read_ahead_kb,
        host: args.host.clone(),
        cpus: args.cpus,
        deadline: input::time_if("--deadline", args.deadline.as_ref())?,
        duration: input::time_if("--duration", args.duration.as_ref())?,
        warmup: input::time_if("--warmup", args.warmup.as_ref())?,
        limit: args.limit,
        replicates: args.replicates,
        seed: args.seed,
        until: until(args)?,
        rate: input::rate(args.rate.as_deref())?,
        incumbent: args.incumbent.clone(),
        trace: TraceOptions {
            format: trace_format.map(str::to_owned),
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
        real_drive: args.on.is_some(),
        world_options: world_options(args),
    })
}

/// The flags that say where the runs are made and what they may do there.
fn world_options(args: &Compare) -> Vec<(&'static str, String)> {
    let on = args.on.as_ref().map(|path| path.display().to_string());
    let via = args.via.and_then(|via| Some(via.to_possible_value()?.get_name().to_owned()));
    let switches = [
        ("--verify", args.verify),
        ("--buffered", args.buffered),
        ("--keep-going", args.keep_going),
        ("--round-out", args.round_out),
    ];
    let given = [("--on", on), ("--via", via), ("--rings", args.rings.clone())];
    let given = given.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let given = given.chain(args.on.as_deref().and_then(|on| args.destroy.typed(on)));
    let switches = switches.into_iter().filter(|(_, on)| *on).map(|(name, _)| (name, String::new()));
    given.chain(switches).collect()
}
