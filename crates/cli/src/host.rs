//! `host`: profiles of what an I/O costs a machine's CPUs, and one fitted to this machine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Parser;
use dumbwaiter_experiment::Control;
use dumbwaiter_fidelity::measured::{FittedHost, HostFitOptions, device_of, fit_host, fit_host_to_table, host};
use dumbwaiter_realworld::{HostRunOptions, host_runs};
use dumbwaiter_report::{Align, table};
use dumbwaiter_scenario::{HostCosts, Profile};

use crate::args::{Host, HostCommand, HostFit, renamed};
use crate::fit::{tell_errors, unless_interrupted};
use crate::progress::{RunBar, Watched, cancel_on_signal_and_undo};
use crate::{Ended, input, output};

/// Prints the list, a profile or a fit.
pub(crate) fn run(args: Host) -> Result<Ended> {
    match args.what {
        Some(HostCommand::Show { name }) => show(&name),
        Some(HostCommand::Fit(args)) => fit(&args),
        None if args.fit => {
            renamed("host --fit", "host fit");
            let FitAlone { fit: alone } = FitAlone::parse_from(["host fit"]);
            fit(&HostFit { json: args.json, ..alone })
        }
        None => list(args.json.as_deref()),
    }
}

/// `host fit` without arguments.
#[derive(Parser)]
struct FitAlone {
    #[command(flatten)]
    fit: HostFit,
}

fn show(name: &str) -> Result<Ended> {
    let Some(text) = Profile::shipped(name) else {
        bail!("{name}: expected a shipped profile: {}", Profile::names().collect::<Vec<_>>().join(", "));
    };
    output::print(text)?;
    Ok(Ended::Done)
}

fn list(json: Option<&Path>) -> Result<Ended> {
    let costs = |name: &str| Profile::Named(name.to_owned()).costs();
    let all = Profile::names().map(costs).collect::<Result<Vec<_>, _>>()?;
    let costs: Vec<&HostCosts> = all.iter().map(|costs| &**costs).collect();
    let header = [("profile", Align::Left), ("MHz", Align::Right), ("machine", Align::Left)];
    let line = |costs: &&HostCosts| {
        let text = Profile::shipped(&costs.name).unwrap_or_default();
        let about = text.lines().next().unwrap_or_default().trim_start_matches("# ");
        vec![costs.name.clone(), costs.mhz.to_string(), about.to_owned()]
    };
    let lines: Vec<Vec<String>> = costs.iter().map(line).collect();
    output::print_or_json(json, &costs, || table(&header, &lines, output::style()))?;
    Ok(Ended::Done)
}

fn fit(args: &HostFit) -> Result<Ended> {
    output::check_files(args.json.as_deref(), None, &[])?;
    let found = if args.from.is_empty() { of_this_machine(args)? } else { of_published(args)? };
    if let Some(path) = &args.json {
        output::write_json(path, &found)?;
    }
    if !args.json.as_deref().is_some_and(output::is_stdout) {
        output::print(&found.host_file)?;
    }
    tell_errors(&found.fitted_errors, &found.kept_back_errors);
    if !found.undetermined.is_empty() {
        crate::tell!("not determined, as in {}: {}", found.base, found.undetermined.join(", "));
    }
    Ok(Ended::Done)
}

/// Measures this machine, and fits a profile to it.
fn of_this_machine(args: &HostFit) -> Result<FittedHost> {
    if let Some(path) = &args.save {
        output::check_writable(path)?;
    }
    let length = Duration::from_nanos(input::time("--length", &args.length)?.0);
    if length < Duration::from_millis(100) {
        bail!("--length {}: expected at least 100ms", args.length);
    }
    let base = host(Some(&args.like), None)?.profile.costs()?;
    let control = Arc::new(Control::default());
    cancel_on_signal_and_undo(&control)?;
    let bar = RunBar::default();
    let (timed, mut steps) = (bar.clone(), bar.steps());
    let options = HostRunOptions { length, rounds: args.rounds };
    let runs = host_runs(&options, &control.cancel, &mut |number, of| {
        if number == 1 {
            timed.start_timed(length * of as u32);
        }
        steps(number, of, "fio");
    });
    bar.finish();
    let runs = runs?;
    for note in &runs.notes {
        crate::tell!("note: {note}");
    }
    if let Some(path) = &args.save {
        output::write_text(path, &runs.table)?;
    }
    let options = HostFitOptions {
        host: runs.host(&base),
        devices: runs.devices,
        figures: Vec::new(),
        parameters: args.parameters.clone(),
        scheduler: "none".to_owned(),
        name: args.name.clone(),
        notes: runs.notes,
    };
    let world = input::simulator(args.jobs)?;
    let watched = Watched::start()?;
    let found = watched.run(|control| fit_host_to_table(&runs.table, "this machine", &options, &world, control));
    unless_interrupted(found, &watched)
}

fn of_published(args: &HostFit) -> Result<FittedHost> {
    let options = HostFitOptions {
        host: host(Some(&args.like), args.cpus)?,
        devices: args.device.iter().map(|text| device_of(text)).collect::<Result<_, _>>()?,
        figures: args.figure.clone(),
        parameters: args.parameters.clone(),
        scheduler: args.scheduler.clone(),
        name: args.name.clone(),
        notes: vec![format!("from {}", args.from.iter().map(|path| file_name(path)).collect::<Vec<_>>().join(" "))],
    };
    let world = input::simulator(args.jobs)?;
    let watched = Watched::start()?;
    let found = watched.run(|control| fit_host(&args.from, &options, &world, control));
    unless_interrupted(found, &watched)
}

fn file_name(path: &str) -> String {
    Path::new(path).file_name().map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}
