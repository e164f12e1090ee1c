//! `fidelity`: our schedulers against recordings of the kernel's.

use anyhow::Result;
use dumbwaiter_fidelity::{Figures, Score, scores, summary};
use dumbwaiter_report::{Align, table};

use crate::args::Fidelity;
use crate::{Ended, closed_loop, output};

/// Replays every recording and prints or writes the scores.
pub(crate) fn run(args: &Fidelity) -> Result<Ended> {
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    if args.closed_loop {
        return closed_loop::run(args);
    }
    let document = scores(&args.files, args.explain, args.jobs)?;
    let scored = &document.files;
    match &args.json {
        Some(path) => output::write_json(path, &document)?,
        None => output::print(&text(scored))?,
    }
    for s in scored {
        if let Some(explanation) = &s.explanation {
            crate::tell!("{explanation}");
        } else if args.explain.is_some() {
            crate::tell!("{}: it has fewer differences", s.file);
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

fn percent(share: Option<f64>) -> String {
    share.map_or("–".to_owned(), |s| format!("{:.3} %", s * 100.0))
}

fn row(score: &Score) -> Vec<String> {
    let name = vec![score.file.clone(), score.kernel.clone()];
    let Some(f) = score.figures.as_ref().filter(|_| !score.is_empty()) else {
        let why = if score.unsupported { "unsupported" } else { "nothing to compare" };
        return [name, vec![why.to_owned()]].concat();
    };
    let Figures { calls, choice_calls, differences, missing, extra, .. } = f;
    let figures = vec![
        dumbwaiter_measure::grouped(*calls),
        percent(f.call_agreement),
        percent(f.dispatch_agreement),
        percent(f.none_agreement),
        if score.trivial { "trivial".to_owned() } else { dumbwaiter_measure::grouped(*choice_calls) },
        if score.trivial { "–".to_owned() } else { percent(f.choice_agreement) },
        differences.to_string(),
        percent(f.identical_share),
        f.kendall_tau_distance.map_or("–".to_owned(), |k| format!("{k:.6}")),
        f.mean_displacement.map_or("–".to_owned(), |d| format!("{d:.2}")),
        missing.to_string(),
        extra.to_string(),
    ];
    [name, figures].concat()
}

fn text(scored: &[Score]) -> String {
    let rows: Vec<Vec<String>> = scored.iter().map(row).collect();
    let header = [
        ("recording", Align::Left),
        ("kernel", Align::Left),
        ("calls", Align::Right),
        ("same answer", Align::Right),
        ("of requests", Align::Right),
        ("of none", Align::Right),
        ("with a choice", Align::Right),
        ("of these", Align::Right),
        ("differ", Align::Right),
        ("free: same place", Align::Right),
        ("Kendall", Align::Right),
        ("displaced", Align::Right),
        ("missing", Align::Right),
        ("extra", Align::Right),
    ];
    let mut text = table(&header, &rows, output::style());
    text.push('\n');
    for s in summary(scored) {
        text += &format!(
            "{}: {} recordings, of all calls {}, median {}, worst {}{}\n",
            s.scheduler,
            s.files,
            percent(s.pooled),
            percent(s.median),
            percent(s.worst),
            if s.trivial { "; trivial: it has no dispatch function" } else { "" }
        );
    }
    text
}
