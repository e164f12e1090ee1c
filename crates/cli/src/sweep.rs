//! `sweep`: a grid of experiments on this machine, and the plots of its results.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use dumbwaiter_experiment::Control;
use dumbwaiter_measure::grouped;
use dumbwaiter_report::{Align, table};
use dumbwaiter_sim::Simulator;
use dumbwaiter_sweep::{self as sweeps, Finished, Plotted, Progress};

use crate::args::{Sweep, SweepCommand, SweepReport};
use crate::{Ended, output, progress};

/// Runs the cells that the folder lacks, estimates them, or plots results.
pub(crate) fn run(args: &Sweep) -> Result<Ended> {
    if let Some(SweepCommand::Report(args)) = &args.what {
        return report(args);
    }
    let Some(file) = &args.file else { bail!("expected the file of a sweep") };
    if args.jobs == Some(0) {
        bail!("--jobs 0: expected at least 1");
    }
    let sweep = sweeps::Sweep::read(file)?;
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let world = Simulator::new(1);
    let control = Arc::new(Control::default());
    progress::cancel_on_signal(&control)?;
    if args.dry_run {
        let estimate = sweeps::estimate(&sweep, &world, &control)?;
        output::print(&estimate_text(&sweep, &estimate, jobs))?;
        return Ok(Ended::Done);
    }
    let Some(out) = &args.out else { bail!("expected --out DIR") };
    let progress = Progress::default();
    let ran = watch(&progress, || sweeps::run(&sweep, out, jobs, args.fail_fast, &world, &control, &progress));
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

fn finished_text(f: &Finished, out: &str) -> String {
    let failed = if f.failed > 0 {
        format!(", {} of them failed: see the column `error`", grouped(f.failed))
    } else {
        String::new()
    };
    let [cells, found, ran] = [f.cells, f.found, f.ran].map(grouped);
    format!("{cells} cells: {found} were in {out}, {ran} were run{failed}\n")
}

fn estimate_text(sweep: &sweeps::Sweep, e: &sweeps::Estimate, jobs: usize) -> String {
    let axes = sweep.axes().iter().map(|axis| format!("{} {}", axis.values.len(), axis.name));
    let replicates = format!("{} replicates", sweep.replicates());
    let mut text =
        format!("{} cells: {}\n", grouped(e.cells), axes.chain([replicates]).collect::<Vec<_>>().join(" x "));
    if let (Some(each), Some(bytes)) = (e.each, e.bytes) {
        let all = each.as_secs_f64() * e.cells as f64 / jobs as f64;
        text += &format!(
            "about {} on {jobs} CPUs: {} each, from {} cells\n",
            time(all),
            time(each.as_secs_f64()),
            e.sampled
        );
        text += &format!("about {:.1} MB of Parquet\n", bytes as f64 / 1e6);
    }
    text
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 0.1 => format!("{:.1} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// How often the line moves in a terminal, and how often there is a new one elsewhere.
const BEAT: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows on stderr how far `work` is.
fn watch<T: Send>(progress: &Progress, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        let (started, terminal) = (Instant::now(), std::io::stderr().is_terminal());
        let mut last = started;
        while !worker.is_finished() {
            std::thread::sleep(BEAT / 5);
            if last.elapsed() < if terminal { BEAT } else { LINE_EVERY } {
                continue;
            }
            last = Instant::now();
            let [cells, found, ran] =
                [&progress.cells, &progress.found, &progress.ran].map(|count| count.load(Ordering::Relaxed));
            let left = started.elapsed().as_secs_f64() / ran.max(1) as f64 * cells.saturating_sub(found + ran) as f64;
            let eta = if ran > 0 { format!(", about {} left", time(left)) } else { String::new() };
            let line = format!("{} of {} cells{eta}", grouped(found + ran), grouped(cells));
            if terminal {
                let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
            } else {
                crate::tell!("{line}");
            }
        }
        if terminal && last > started {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        match worker.join() {
            Ok(done) => done,
            Err(why) => std::panic::resume_unwind(why),
        }
    })
}

fn report(args: &SweepReport) -> Result<Ended> {
    output::check_files(args.json.as_deref(), args.html.as_deref(), &[])?;
    let points = sweeps::plotted(&args.dir, &args.x, &args.y, args.by.as_deref(), args.facet.as_deref())?;
    if let Some(path) = &args.html {
        let title = format!("{} by {}", args.y, args.x);
        sweeps::write_report(&title, &points, [&args.x, &args.y, args.by.as_deref().unwrap_or_default()], path)?;
        crate::tell!("report written to {}", path.display());
    }
    match &args.json {
        Some(path) => output::write_json(path, &points)?,
        None => output::print(&points_text(args, &points))?,
    }
    Ok(Ended::Done)
}

fn points_text(args: &SweepReport, points: &[Plotted]) -> String {
    let named = [args.facet.as_deref(), args.by.as_deref(), Some(args.x.as_str())];
    let mut header: Vec<(&str, Align)> = named.iter().flatten().map(|name| (*name, Align::Left)).collect();
    header.extend([(args.y.as_str(), Align::Right), ("95 % confidence", Align::Right), ("runs", Align::Right)]);
    let row = |p: &Plotted| {
        let values = [args.facet.as_ref().map(|_| &p.facet), args.by.as_ref().map(|_| &p.by), Some(&p.x)];
        let mut row: Vec<String> = values.into_iter().flatten().cloned().collect();
        let ci = p.ci95.map_or(String::new(), |[low, high]| format!("{low:.2}–{high:.2}"));
        row.extend([format!("{:.2}", p.mean), ci, p.n.to_string()]);
        row
    };
    let rows: Vec<Vec<String>> = points.iter().map(row).collect();
    table(&header, &rows, output::style())
}
