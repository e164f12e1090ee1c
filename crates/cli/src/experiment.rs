//! The experiment that is asked for: the scenario of a file, a job, a trace or the house, and the flags that win over it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use dumbwaiter_scenario::{Completion, Scenario, SchedulerSpec, TraceOptions};
use dumbwaiter_schedulers::{Choice, REGISTRY};
use dumbwaiter_traces::{self as traces, Format};

use crate::args::Compare;
use crate::input::{self, Kind};

/// The schedulers of a scenario, each once.
pub(crate) fn choices_of(scenario: &Scenario) -> Result<Vec<Choice>> {
    let mut choices: Vec<Choice> = Vec::new();
    for spec in &scenario.schedulers {
        let choice = Choice::parse(&spec.to_string())?;
        if choices.iter().any(|c| c.label() == choice.label()) {
            bail!("scheduler `{}` is named twice", choice.label());
        }
        choices.push(choice);
    }
    Ok(choices)
}

/// The scenario, and remarks on what it was read from.
pub(crate) fn scenario_of(args: &Compare) -> Result<(Scenario, Vec<String>)> {
    let kind = input::kind_of_all(&args.input)?;
    if kind != Some(Kind::Trace)
        && let Some(option) = args.of_traces()
    {
        bail!("{option}: is for traces; give a trace, or leave it out");
    }
    let (mut scenario, warnings) = match kind {
        None if args.on.is_some() => (Scenario::builtin_real(), Vec::new()),
        None => (Scenario::builtin(), Vec::new()),
        Some(Kind::Scenario) => Scenario::load(&args.input[0])?,
        Some(Kind::FioJob) => {
            let path = args.input[0].display().to_string();
            let text = std::fs::read_to_string(&args.input[0]).with_context(|| path.clone())?;
            Scenario::from_fio(&text, &path, &|name| std::env::var(name).ok())?
        }
        Some(Kind::Trace) => {
            // The files of a blktrace capture, one a CPU, are one trace; others are traces of their own.
            let one_capture = args.input.len() > 1 && all_blktrace(&args.input);
            let name = |p: &PathBuf| {
                let text = p.to_str().map(str::to_owned);
                text.ok_or_else(|| {
                    anyhow!("{}: the name is not UTF-8, as names in a scenario are; give a link", p.display())
                })
            };
            let mut paths = args.input.iter().map(name).collect::<Result<Vec<String>>>()?;
            let parts = if one_capture { paths.split_off(1) } else { Vec::new() };
            let options = TraceOptions {
                format: args.reading.format.clone(),
                columns: args.reading.columns.clone(),
                speed: args.replay.speed,
                depth: args.replay.depth,
                closed_per_task: args.replay.closed_per_task,
                limit: None,
                fit: args.replay.fit.clone(),
                arrival: args.reading.arrival.clone(),
                assume_bytes: args.reading.assume_bytes,
                parts,
            };
            let mut scenario = Scenario::from_trace(&paths, options);
            scenario.replicates = 1;
            (scenario, Vec::new())
        }
    };
    apply(args, &mut scenario)?;
    let known_scheduler = |name: &str| Choice::parse(name).map(|_| ()).map_err(|e| e.to_string());
    let known_device = |name: &str| dumbwaiter_devices::load(name).map(|_| ()).map_err(|e| e.to_string());
    scenario.validate(&known_scheduler, &known_device)?;
    Ok((scenario, warnings))
}

fn all_blktrace(paths: &[PathBuf]) -> bool {
    let is_blktrace = |path| {
        let opened = traces::open(&[path], &traces::Options::default());
        opened.is_ok_and(|reader| reader.format() == Format::Blktrace)
    };
    paths.iter().all(is_blktrace)
}

/// Flags win over the file.
fn apply(args: &Compare, scenario: &mut Scenario) -> Result<()> {
    if !args.device.is_empty() {
        scenario.devices = args.device.clone();
    }
    match args.schedulers.as_deref() {
        None => {}
        Some("all") => scenario.schedulers = REGISTRY.iter().map(|e| SchedulerSpec::named(e.name)).collect(),
        Some(list) => {
            scenario.schedulers = SchedulerSpec::parse_list(list).map_err(|e| anyhow!("--schedulers: {e}"))?;
        }
    }
    if !args.completion.is_empty() {
        let methods = args.completion.iter().map(|m| m.parse::<Completion>());
        scenario.completion = methods.collect::<Result<_, _>>().map_err(|e| anyhow!("--completion: {e}"))?;
    }
    if let Some(depth) = args.queue_depth {
        scenario.queue_depth = Some(depth);
    }
    if let Some(n) = args.nr_requests {
        scenario.nr_requests = Some(n);
    }
    if let Some(text) = &args.duration {
        scenario.duration = Some(input::time("--duration", text)?);
    }
    if let Some(text) = &args.warmup {
        scenario.warmup = input::time("--warmup", text)?;
    }
    if let Some(limit) = args.limit {
        scenario.limit = Some(limit);
    }
    if let Some(replicates) = args.replicates {
        scenario.replicates = replicates;
    }
    if let Some(seed) = args.seed {
        scenario.seed = seed;
    }
    Ok(())
}

/// The files that a comparison reads.
pub(crate) fn inputs(args: &Compare) -> Vec<&Path> {
    args.input.iter().chain(&args.on).map(PathBuf::as_path).collect()
}
