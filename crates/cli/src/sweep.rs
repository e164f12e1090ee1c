//! `sweep`: a grid of experiments on this machine, and the plots of its results.

use std::sync::Arc;

use crate::terminal::{PlotColumns, estimate_text, finished_text, plotted_text, watch_sweep};
use anyhow::{Result, bail};
use dumbwaiter_experiment::Control;
use dumbwaiter_sim::Simulator;
use dumbwaiter_sweep::{self as sweeps, Progress};

use crate::args::{Sweep, SweepCommand, SweepReport};
use crate::progress::cancel_on_signal;
use crate::{Ended, input, output};

/// Runs the cells that the folder lacks, estimates them, or plots results.
pub(crate) fn run(args: &Sweep) -> Result<Ended> {
    if let Some(SweepCommand::Report(args)) = &args.what {
        return report(args);
    }
    let Some(file) = &args.file else { bail!("expected the file of a sweep") };
    let jobs = input::jobs(args.jobs)?;
    let world = Simulator::new(1);
    let control = Arc::new(Control::default());
    cancel_on_signal(&control)?;
    let sweep = match sweeps::Sweep::read(file, &control) {
        Err(sweeps::Error::Interrupted) => return Ok(Ended::Interrupted),
        read => read?,
    };
    if args.dry_run {
        let estimate = sweeps::estimate(&sweep, &world, &control)?;
        output::print(&estimate_text(&sweep, &estimate, jobs))?;
        return Ok(Ended::Done);
    }
    let Some(out) = &args.out else { bail!("expected --out DIR") };
    let progress = Progress::default();
    let ran = watch_sweep(&progress, || sweeps::run(&sweep, out, jobs, args.fail_fast, &world, &control, &progress));
    let finished = match ran {
        Err(error @ sweeps::Error::Cell { .. }) => {
            crate::tell!("dumbwaiter: {error}");
            return Ok(Ended::Failed);
        }
        ran => ran?,
    };
    output::print(&finished_text(&finished, &out.display().to_string()))?;
    Ok(if finished.cancelled { Ended::Interrupted } else { Ended::Done })
}

fn report(args: &SweepReport) -> Result<Ended> {
    output::check_files(args.json.as_deref(), args.html.as_deref(), &[])?;
    let columns = [Some(args.x.as_str()), Some(&args.y), args.by.as_deref(), args.facet.as_deref()];
    let points = sweeps::plotted(&args.dir, columns, &Control::default())?;
    if let Some(path) = &args.html {
        let title = format!("{} by {}", args.y, args.x);
        sweeps::write_report(&title, &points, [&args.x, &args.y, args.by.as_deref().unwrap_or_default()], path)?;
        crate::tell!("report written to {}", path.display());
    }
    let columns = PlotColumns { x: &args.x, y: &args.y, by: args.by.as_deref(), facet: args.facet.as_deref() };
    output::print_or_json(args.json.as_deref(), &points, || plotted_text(columns, &points, output::style()))?;
    Ok(Ended::Done)
}
