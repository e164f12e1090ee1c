//! `devices fit`: a survey of a drive, and a model fitted to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use dumbwaiter_experiment::{Control, Failure};
use dumbwaiter_fidelity::measured::{FitOptions, FittedDevice, Group, MeasuredError, fit as fit_published, host};
use dumbwaiter_realworld::fit::{DriveOptions, Opened, Options, Progress, document, open, survey};

use crate::args::DevicesFit;
use crate::progress::{RunBar, Watched, cancel_on_signal};
use crate::{Ended, input, output};

/// Surveys a device or a model and prints the fitted model.
pub(crate) fn run(args: &DevicesFit) -> Result<Ended> {
    let Some(subject) = &args.subject else { return of_published(args) };
    args.destroy.check(Some(subject), "a device")?;
    let allow_writes = args.destroy.allows_writes();
    let time = input::time("--for", &args.length)?;
    output::check_files(args.json.as_deref(), None, &[subject])?;
    let control = Arc::new(Control::default());
    cancel_on_signal(&control)?;
    let options = DriveOptions { allow_writes, confirmed: args.destroy.confirmed() };
    let Opened { mut subject, virtual_time } = open(subject, &options)?;
    let facts = subject.facts();
    if !virtual_time {
        let writes = if allow_writes { "WRITES TO IT" } else { "only reads" };
        crate::tell!("{}: a survey of up to {} s, {writes}", facts.name, time.as_secs_f64());
        for note in &facts.notes {
            crate::tell!("note: {note}");
        }
    }
    let options = Options { time, allow_writes, virtual_time };
    let bar = RunBar::default();
    if !virtual_time {
        bar.start_timed(Duration::from_nanos(time.0));
    }
    let (began, mut steps) = (Instant::now(), bar.steps());
    let mut observe = |step: Progress<'_>| {
        if !virtual_time {
            steps(step.number, step.of, step.load);
        }
    };
    let found = survey(&mut *subject, &options, &control.cancel, &mut observe);
    bar.finish();
    let fitted = found.and_then(|found| dumbwaiter_realworld::fit::fit(&found))?;
    let document = document(fitted, began.elapsed().as_secs_f64());
    if let Some(path) = &args.json {
        output::write_json(path, &document)?;
    }
    if !args.json.as_deref().is_some_and(output::is_stdout) {
        output::print(&document.device_file)?;
    }
    let held = &document.fitted.held_back;
    crate::tell!(
        "{} points predicted without having been fitted: median error {:.1} %, worst {:.1} %",
        held.points,
        held.median_error * 100.0,
        held.worst_error * 100.0
    );
    if let Some(warning) = document.fitted.warning() {
        crate::tell!("warning: {warning}");
    }
    Ok(Ended::Done)
}

/// Fits a model to published results and prints it.
fn of_published(args: &DevicesFit) -> Result<Ended> {
    let given = &args.published;
    output::check_files(args.json.as_deref(), None, &[])?;
    let options = FitOptions {
        like: given.like.clone(),
        host: host(given.host.as_deref(), given.cpus)?,
        figures: given.figure.clone(),
        parameters: given.parameters.clone(),
        scheduler: given.scheduler.clone(),
    };
    let world = input::simulator(given.jobs)?;
    let watched = Watched::start()?;
    let found = watched.run(|control| fit_published(&given.from, &options, &world, control));
    let found: FittedDevice = unless_interrupted(found, &watched)?;
    if let Some(path) = &args.json {
        output::write_json(path, &found)?;
    }
    if !args.json.as_deref().is_some_and(output::is_stdout) {
        output::print(&found.device_file)?;
    }
    tell_errors(&found.fitted_errors, &found.kept_back_errors);
    crate::tell!("not determined, as in {}: {}", found.like, found.undetermined.join(", "));
    Ok(Ended::Done)
}

/// Says how far off a fit is, on what it was fitted to and on what it only predicts.
pub(crate) fn tell_errors(fitted: &[Group], kept_back: &[Group]) {
    for (title, groups) in [("fitted", fitted), ("kept back and predicted", kept_back)] {
        for group in groups {
            let errors = group.errors.iter().map(|(name, e)| format!("{name} {:.1} %", e.median * 100.0));
            let errors = errors.collect::<Vec<_>>().join(", ");
            crate::tell!("{title}: {} rows of {}: median errors: {errors}", group.rows, group.name);
        }
    }
}

/// What was fitted; that it was interrupted is said as such.
pub(crate) fn unless_interrupted<T>(found: Result<T, MeasuredError>, watched: &Watched) -> Result<T> {
    if watched.control().cancelled() {
        return Err(Failure::interrupted("interrupted; nothing was fitted").into());
    }
    Ok(found?)
}
