//! Sweeps: estimates, progress and results.

use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::time::Instant;

use dumbwaiter_measure::grouped;
use dumbwaiter_report::{Align, Style, table};
use dumbwaiter_sweep::{Estimate, Finished, Plotted, Progress, Sweep};

use crate::terminal::progress::{LINE_INTERVAL, REDRAW_INTERVAL};

/// The outcome of a sweep into the folder `out`, in one line.
pub fn finished_text(f: &Finished, out: &str) -> String {
    let failed = if f.failed > 0 {
        format!(", {} of them failed: see the column `error`", grouped(f.failed))
    } else {
        String::new()
    };
    let [cells, found, ran] = [f.cells, f.found, f.ran].map(grouped);
    format!("{cells} cells: {found} were in {out}, {ran} were run{failed}\n")
}

/// How many cells a sweep has, and what they will take on `jobs` CPUs.
pub fn estimate_text(sweep: &Sweep, e: &Estimate, jobs: usize) -> String {
    let mut text = sweep.extent() + "\n";
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

/// Runs `work` and shows on stderr how many cells are done.
pub fn watch_sweep<T: Send>(progress: &Progress, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        let (started, terminal) = (Instant::now(), std::io::stderr().is_terminal());
        let mut last = started;
        while !worker.is_finished() {
            std::thread::sleep(REDRAW_INTERVAL / 5);
            if last.elapsed() < if terminal { REDRAW_INTERVAL } else { LINE_INTERVAL } {
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

/// Names of the columns that a plot shows.
#[derive(Clone, Copy, Debug)]
pub struct PlotColumns<'a> {
    /// Horizontal axis.
    pub x: &'a str,
    /// Vertical axis.
    pub y: &'a str,
    /// A line for each value.
    pub by: Option<&'a str>,
    /// A plot for each value.
    pub facet: Option<&'a str>,
}

/// The points of a plot as a table, their means with confidence intervals.
pub fn plotted_text(columns: PlotColumns<'_>, points: &[Plotted], style: Style) -> String {
    let named = [columns.facet, columns.by, Some(columns.x)];
    let mut header: Vec<(&str, Align)> = named.iter().flatten().map(|name| (*name, Align::Left)).collect();
    header.extend([(columns.y, Align::Right), ("95 % confidence", Align::Right), ("runs", Align::Right)]);
    let row = |p: &Plotted| {
        let values = [columns.facet.map(|_| &p.facet), columns.by.map(|_| &p.by), Some(&p.x)];
        let mut row: Vec<String> = values.into_iter().flatten().cloned().collect();
        let ci = p.ci95.map_or(String::new(), |[low, high]| format!("{low:.2}–{high:.2}"));
        row.extend([format!("{:.2}", p.mean), ci, p.n.to_string()]);
        row
    };
    let rows: Vec<Vec<String>> = points.iter().map(row).collect();
    table(&header, &rows, style)
}
