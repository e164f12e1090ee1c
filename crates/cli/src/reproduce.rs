//! `reproduce`: published experiments, run again on the models or on a real device.

use crate::terminal::{ReproducedOutputs, causes_text};
use anyhow::{Result, anyhow, bail};
use dumbwaiter_reproduce::show::Finished;
use dumbwaiter_reproduce::{
    CHANGES, Causes, Change, Effort, Error, Figure, OnDevice, Paper, causes, find_all, possible, reproduce_with,
};

use crate::args::Reproduce;
use crate::progress::{RunBar, Watched, cancel_on_signal_and_undo};
use crate::{Ended, input, on, output};

/// Runs what is asked for, prints tables and writes files.
pub(crate) fn run(args: &Reproduce) -> Result<Ended> {
    if args.what.iter().any(|w| w == "list") {
        if args.what.len() > 1 {
            bail!("list cannot be combined; expected `list` alone, or names of papers");
        }
        output::check_files(args.json.as_deref(), None, &[])?;
        outputs(args).write_list()?;
        return Ok(Ended::Done);
    }
    args.destroy.check(args.on.as_deref(), "--on PATH")?;
    let wanted = find_all(&args.what)?;
    let inputs: Vec<_> = args.on.iter().map(std::path::PathBuf::as_path).collect();
    output::check_files(args.json.as_deref(), args.html.as_deref(), &inputs)?;
    let world = input::simulator(args.jobs)?;
    if args.on.is_some() || args.dir.is_some() {
        return on_device(args, wanted);
    }
    let parsed = args.changes.iter().map(|text| Change::parse(text));
    let changes: Vec<Change> = parsed.collect::<Result<_, _>>().map_err(|why| anyhow!("--with: {why}"))?;
    let watched = Watched::start()?;
    if args.causes {
        return find_causes(args, &wanted, changes, &Effort::new(args.quick, &world, watched.control()), &watched);
    }
    let effort = Effort::new(args.quick, &world, watched.control());
    let mut finished: Vec<Finished> = Vec::new();
    for (paper, figure) in wanted {
        watched.restart(&format!("{}:{}", paper.name, figure.name));
        match watched.run(|_| reproduce_with(paper, figure, &changes, &effort)) {
            Ok(result) => finished.push((paper, figure, result)),
            Err(Error::Cancelled) => break,
            Err(error) => return Err(error.into()),
        }
    }
    outputs(args).write(None, &finished)?;
    Ok(if watched.control().cancelled() { Ended::Interrupted } else { Ended::Done })
}

/// Prints which changes make failing statements hold.
fn find_causes(
    args: &Reproduce,
    wanted: &[(&'static Paper, &'static Figure)],
    mut changes: Vec<Change>,
    effort: &Effort<'_>,
    watched: &Watched,
) -> Result<Ended> {
    if changes.is_empty() {
        changes = CHANGES.iter().filter_map(|text| Change::parse(text).ok()).collect();
    }
    let mut found: Vec<Causes> = Vec::new();
    for (paper, figure) in wanted {
        let name = format!("{}:{}", paper.name, figure.name);
        let mut observe = |change: &str| watched.restart(&format!("{name} with {change}"));
        match watched.run(|_| causes(paper, figure, &changes, effort, &mut observe)) {
            Ok(of_figure) => found.extend(of_figure),
            Err(Error::Cancelled) => break,
            Err(error) => return Err(error.into()),
        }
    }
    output::print_or_json(args.json.as_deref(), &found, || causes_text(&found))?;
    Ok(if watched.control().cancelled() { Ended::Interrupted } else { Ended::Done })
}

fn outputs(args: &Reproduce) -> ReproducedOutputs<'_> {
    ReproducedOutputs { json: args.json.as_deref(), html: args.html.as_deref(), quick: args.quick }
}

/// The same for real. What was finished is shown, however it ended.
fn on_device(args: &Reproduce, wanted: Vec<(&'static Paper, &'static Figure)>) -> Result<Ended> {
    let possible = possible(&wanted)?;
    let phase = input::time_if("--phase", args.phase.as_ref())?;
    let chosen = OnDevice::new(args.replicates, args.seed, phase)?;
    let bar = RunBar::default();
    let control = bar.quiet_control();
    cancel_on_signal_and_undo(&control)?;
    let device = on::reproduce::device(args)?;
    if let Some(line) = &possible.left_out {
        crate::tell!("{line}");
    }
    let figures = on::reproduce::through(possible.stack, args, &device, &control, |world, control| {
        let effort = Effort::new(args.quick, world, control).on_device(chosen);
        let finished = possible.reproduce(&effort)?;
        Ok::<_, Error>((finished, effort.failure()))
    });
    bar.finish();
    let (finished, failure) = figures??;
    outputs(args).write(Some(&device.describe()), &finished)?;
    match failure {
        None if control.cancelled() => Ok(Ended::Interrupted),
        None => Ok(Ended::Done),
        Some(failure) => Err(failure.into()),
    }
}
