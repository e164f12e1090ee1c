//! `reproduce`: published experiments, run again on the models or on a real device.

use anyhow::{Result, bail};
use dumbwaiter_reproduce::show::{self, Finished};
use dumbwaiter_reproduce::{Effort, Error, Figure, PAPERS, Paper, Row, find_all};

use crate::args::Reproduce;
use crate::progress::{RunBar, Watched, cancel_on_signal_and_undo};
use crate::{Ended, input, on, output};

/// Runs what is asked for, prints tables and writes files.
pub(crate) fn run(args: &Reproduce) -> Result<Ended> {
    if args.what.iter().any(|w| w == "list") {
        if args.what.len() > 1 {
            bail!("list cannot be combined; expected `list` alone, or names of papers");
        }
        output::print(&show::list(output::style()))?;
        return Ok(Ended::Done);
    }
    let wanted = find_all(&args.what)?;
    let inputs: Vec<_> = args.on.iter().map(std::path::PathBuf::as_path).collect();
    output::check_files(args.json.as_deref(), args.html.as_deref(), &inputs)?;
    let world = input::simulator(args.jobs)?;
    if args.on.is_some() || args.dir.is_some() {
        return on_device(args, wanted);
    }
    let watched = Watched::start()?;
    let effort = Effort::new(args.quick, &world, watched.control());
    let mut finished: Vec<Finished> = Vec::new();
    for (paper, figure) in wanted {
        watched.restart(&format!("{}:{}", paper.name, figure.name));
        match watched.run(|_| figure.reproduce(&effort)) {
            Ok(result) => finished.push((paper, figure, result)),
            Err(Error::Cancelled) => break,
            Err(error) => return Err(error.into()),
        }
    }
    write_all(args, None, &finished)?;
    Ok(if watched.control().cancelled() { Ended::Interrupted } else { Ended::Done })
}

/// The same for real. What was finished is shown, however it ended.
fn on_device(args: &Reproduce, wanted: Vec<(&'static Paper, &'static Figure)>) -> Result<Ended> {
    if let Some((paper, _)) = wanted.iter().find(|(paper, _)| !paper.real) {
        let can: Vec<&str> = PAPERS.iter().filter(|p| p.real).map(|p| p.name).collect();
        bail!("{} can only run on models of its own drives; expected one of {}", paper.name, can.join(", "));
    }
    let bar = RunBar::default();
    let control = bar.quiet_control();
    cancel_on_signal_and_undo(&control)?;
    let device = on::reproduce::device(args)?;
    let figures = on::reproduce::in_kernel(args, &device, &control, |world, control| {
        let effort = Effort::new(args.quick, world, control);
        let mut finished: Vec<Finished> = Vec::new();
        for (paper, figure) in wanted {
            finished.push((paper, figure, figure.reproduce(&effort)?));
            if effort.failure().is_some() || control.cancelled() {
                break;
            }
        }
        Ok::<_, Error>((finished, effort.failure()))
    });
    bar.finish();
    let (finished, failure) = figures??;
    write_all(args, Some(&device.describe()), &finished)?;
    match failure {
        None if control.cancelled() => Ok(Ended::Interrupted),
        None => Ok(Ended::Done),
        Some(failure) => Err(failure.into()),
    }
}

/// `device`: what it was run on, where that is a real one.
fn write_all(args: &Reproduce, device: Option<&str>, finished: &[Finished]) -> Result<()> {
    let rows: Vec<&Row> = finished.iter().flat_map(|(_, _, result)| &result.rows).collect();
    match &args.json {
        Some(path) if output::is_stdout(path) => output::write_json(path, &rows)?,
        Some(path) => {
            output::print(&show::text(device, finished, output::style()))?;
            output::write_json(path, &rows)?;
            crate::tell!("JSON written to {}", path.display());
        }
        None => output::print(&show::text(device, finished, output::style()))?,
    }
    if let Some(path) = &args.html {
        show::page(device, finished).write(&show::data(args.quick, device, finished), path)?;
        crate::tell!("page written to {}", path.display());
    }
    Ok(())
}
