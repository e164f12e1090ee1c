//! `fidelity --closed-loop`: the jobs of recordings in simulation, beside what the kernel did.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use dumbwaiter_fidelity::{Agreement, BOUNDS, ClosedLoops, closed_loops};
use dumbwaiter_report::{Align, Style, table};
use dumbwaiter_sim::Simulator;

use crate::args::Fidelity;
use crate::{Ended, output, progress};

/// Runs the jobs of the recordings, and prints or writes how they agree.
pub(crate) fn run(args: &Fidelity) -> Result<Ended> {
    let world = match args.jobs {
        Some(0) => bail!("--jobs 0: expected at least 1"),
        Some(jobs) => Simulator::new(jobs),
        None => Simulator::on_all_cpus(),
    };
    let progress = Arc::new(progress::Progress::default());
    let control = Arc::new(progress.control());
    progress::cancel_on_signal(&control)?;
    let found = progress::watch(&progress, &control, || closed_loops(&args.files, &world, &control))?;
    match &args.json {
        Some(path) => {
            output::write_json(path, &found.compared)?;
            for other in &found.not_comparable {
                crate::tell!("not compared: {}: {}", other.file, other.reason);
            }
        }
        None => output::print(&text(&found, output::style()))?,
    }
    if found.compared.is_empty() && !control.cancelled() {
        crate::tell!("dumbwaiter: nothing to compare: no recording could be");
        return Ok(Ended::Failed);
    }
    Ok(if control.cancelled() { Ended::Interrupted } else { Ended::Done })
}

/// A table of at most 80 columns, what was not compared, and a summary.
fn text(found: &ClosedLoops, style: Style) -> String {
    let header = [
        ("recording", Align::Left),
        ("MB/s", Align::Right),
        ("mean", Align::Right),
        ("p95", Align::Right),
        ("share", Align::Right),
        ("agrees", Align::Left),
    ];
    let row = |a: &Agreement| {
        let ratio = |ratio: f64| format!("x{ratio:.2}");
        let agrees = if a.within(&BOUNDS) { "yes" } else { "no" };
        let share = format!("{:.3}", a.share_error);
        vec![
            stem(&a.file).to_owned(),
            ratio(a.mb_ratio),
            ratio(a.mean_ratio),
            ratio(a.p95_ratio),
            share,
            agrees.to_owned(),
        ]
    };
    let mut text = String::new();
    if !found.compared.is_empty() {
        let rows: Vec<Vec<String>> = found.compared.iter().map(row).collect();
        text += &table(&header, &rows, style);
        text.push('\n');
    }
    for other in &found.not_comparable {
        text += &format!("not compared: {}: {}\n", stem(&other.file), other.reason);
    }
    if !found.not_comparable.is_empty() {
        text.push('\n');
    }
    text + &summary(&found.compared)
}

fn summary(compared: &[Agreement]) -> String {
    let worst = compared.iter().max_by(|a, b| a.share_error.total_cmp(&b.share_error));
    let Some(worst) = worst else { return "no recording was compared\n".to_owned() };
    let agree = compared.iter().filter(|a| a.within(&BOUNDS)).count();
    format!(
        "{agree} of {} recordings agree: MB/s within {:.0} %, mean latency within {:.0} %,\n\
         p95 within {:.0} %, shares within {}. Largest share error: {:.3} ({}).\n",
        compared.len(),
        BOUNDS.bytes * 100.0,
        BOUNDS.mean * 100.0,
        BOUNDS.p95 * 100.0,
        BOUNDS.share,
        worst.share_error,
        stem(&worst.file)
    )
}

/// A recording's name without the endings of its files.
fn stem(file: &str) -> &str {
    let name = Path::new(file).file_name().and_then(|name| name.to_str()).unwrap_or(file);
    let name = name.strip_suffix(".zst").unwrap_or(name);
    name.strip_suffix(".csv").or_else(|| name.strip_suffix(".json")).unwrap_or(name)
}
