//! `fidelity`: our schedulers against recordings of the kernel's; with `--closed-loop` the recordings' jobs in simulation.

use crate::terminal::{closed_loops_text, measured_summary_text, measured_text, scores_text};
use anyhow::Result;
use dumbwaiter_fidelity::measured::{device_of, error_table, host};
use dumbwaiter_fidelity::{ClosedLoops, MeasuredOptions, closed_loops, measured, recorded_again, scores};

use crate::args::Fidelity;
use crate::progress::Watched;
use crate::{Ended, input, output};

/// Replays every recording and prints or writes the scores.
pub(crate) fn run(args: &Fidelity) -> Result<Ended> {
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    if let Some(source) = &args.measured.measured {
        return beside_measured(args, source);
    }
    if args.closed_loop {
        return closed_loop(args);
    }
    let document = scores(&args.files, args.explain, args.jobs)?;
    let scored = &document.files;
    output::print_or_json(args.json.as_deref(), &document, || scores_text(scored, output::style()))?;
    for s in scored {
        if let Some(explanation) = &s.explanation {
            crate::tell!("{explanation}");
        } else if args.explain.is_some() {
            let of = s.controller.as_ref().map_or(String::new(), |own| format!(", {}", own.controller));
            crate::tell!("{}{of}: it has fewer differences", s.file);
        }
    }
    let empty: Vec<&str> = scored.iter().filter(|s| s.is_empty()).map(|s| s.file.as_str()).collect();
    if empty.is_empty() {
        return Ok(Ended::Done);
    }
    crate::tell!(
        "dumbwaiter: nothing to compare: no request in {}; record a device while it is used",
        empty.join(", ")
    );
    Ok(Ended::Failed)
}

/// Runs the jobs of the recordings, or takes second recordings of them, and prints or writes how they agree.
fn closed_loop(args: &Fidelity) -> Result<Ended> {
    if let Some(again) = &args.against {
        return show(args, &recorded_again(&args.files, again)?, false);
    }
    let world = input::simulator(args.jobs)?;
    let watched = Watched::start()?;
    let found = watched.run(|control| closed_loops(&args.files, &world, control))?;
    show(args, &found, watched.control().cancelled())
}

fn show(args: &Fidelity, found: &ClosedLoops, cancelled: bool) -> Result<Ended> {
    if args.json.is_some() {
        for other in &found.not_comparable {
            crate::tell!("not compared: {}: {}", other.file, other.reason);
        }
    }
    output::print_or_json(args.json.as_deref(), &found.compared, || closed_loops_text(found, output::style()))?;
    if found.compared.is_empty() && !cancelled {
        crate::tell!("dumbwaiter: nothing to compare: no recording could be");
        return Ok(Ended::Failed);
    }
    Ok(if cancelled { Ended::Interrupted } else { Ended::Done })
}

/// Runs what was measured on real drives, and prints or writes it beside the predictions.
fn beside_measured(args: &Fidelity, source: &str) -> Result<Ended> {
    let given = &args.measured;
    let figures = &given.figure;
    let seconds = |flag: &str, text: &Option<String>| -> Result<Option<f64>> {
        let time = input::time_if(flag, text.as_ref())?;
        anyhow::ensure!(time.is_none_or(|time| time.0 > 0), "{flag} 0: expected a time above 0");
        Ok(time.map(|time| time.as_secs_f64()))
    };
    let options = MeasuredOptions {
        devices: given.device.iter().map(|text| device_of(text)).collect::<Result<_, _>>()?,
        host: host(given.host.as_deref(), given.cpus)?,
        seconds: seconds("--seconds", &given.seconds)?,
        warmup: seconds("--warmup", &given.warmup)?,
        effort: 1.0,
        replicates: given.replicates.unwrap_or(if given.verdicts { 3 } else { 1 }),
        figures: figures.clone(),
        verdicts: given.verdicts,
        scheduler: given.scheduler.clone(),
    };
    if let Some(path) = &given.errors {
        output::check_writable(path)?;
    }
    let world = input::simulator(args.jobs)?;
    let watched = Watched::start()?;
    let found = watched.run(|control| measured(source, &options, &world, control))?;
    if let Some(path) = &given.errors {
        let name = source.rsplit('/').next().unwrap_or(source);
        output::write_text(path, &error_table(&found.rows, name))?;
    }
    match &args.json {
        None => output::print(&measured_text(&found, output::style()))?,
        Some(path) => {
            output::write_json(path, &found.entries())?;
            crate::tell!("{}", measured_summary_text(&found, output::style()).trim_end());
        }
    }
    Ok(if found.cancelled { Ended::Interrupted } else { Ended::Done })
}
