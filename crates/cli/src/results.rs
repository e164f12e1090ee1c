//! What a comparison found, and where that goes: a table, JSON, a page, Parquet.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use dumbwaiter_advise::Document;
use dumbwaiter_block::Nanos;
use dumbwaiter_measure::RunResult;
use dumbwaiter_report::{compare_text, write_html, write_parquet};
use dumbwaiter_scenario::Scenario;

use crate::args::{Compare, Outputs};
use crate::output;

/// Can everything be written that was asked for, beside what is read?
pub(crate) fn check_outputs(args: &Outputs, inputs: &[&Path]) -> Result<()> {
    output::check_files(args.json.as_deref(), args.html.as_deref(), inputs)?;
    if let Some(dir) = &args.parquet {
        output::check_folder(dir)?;
    }
    Ok(())
}

/// Writes all that was asked for.
pub(crate) fn write_all(args: &Outputs, document: &Document) -> Result<()> {
    let to_stdout = args.json.as_deref().is_some_and(output::is_stdout);
    let json = || args.json.as_ref().map_or(Ok(()), |path| output::write_text(path, &document.to_json()));
    // Files first, and each whatever becomes of the others: what is on stdout is lost with its reader.
    let mut done = Vec::new();
    if let Some(path) = &args.html {
        done.push((write_html(document, path).map_err(Into::into), path, "report"));
    }
    if let Some(dir) = &args.parquet {
        done.push((write_parquet(document, dir).map_err(Into::into), dir, "Parquet tables"));
    }
    if let Some(path) = args.json.as_ref().filter(|_| !to_stdout) {
        done.push((json(), path, "JSON"));
    }
    let printed = if to_stdout {
        document.notes.iter().for_each(|note| crate::tell!("note: {note}"));
        json()
    } else {
        output::print(&compare_text(document, output::style()))
    };
    for (written, path, what) in done {
        written?;
        story(path, what);
    }
    printed
}

fn story(path: &Path, what: &str) {
    if !output::is_stdout(path) {
        crate::tell!("{what} written to {}", path.display());
    }
}

/// The runs of a comparison with all that is to be known of them.
pub(crate) fn document(
    args: &Compare,
    scenario: &Scenario,
    runs: Vec<RunResult>,
    notes: Vec<String>,
) -> Result<Document> {
    let versions = BTreeMap::from([("dumbwaiter".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    let title = if scenario.name.is_empty() { "comparison" } else { &scenario.name };
    let mut document = Document::new(title, serde_json::to_value(scenario)?, versions, runs, args.goal.into());
    document.notes = notes;
    Ok(document)
}

/// Schedulers that left an I/O waiting for twice as long as any that they finished: its latency is in no figure. Of each
/// place, one; with each run goes how long its oldest I/O had waited.
pub(crate) fn starved_notes<'a>(
    runs: impl Iterator<Item = (&'a RunResult, Nanos)>,
    place: impl Fn(&RunResult) -> String,
) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for (run, oldest) in runs.filter(|(run, oldest)| oldest.as_us_f64() > 2.0 * run.latency_us.max.max(0.0)) {
        let place = place(run) + ": ";
        if !notes.iter().any(|note| note.starts_with(&place)) {
            let count = run.ledger.outstanding;
            notes.push(format!(
                "{place}{count} I/Os were not finished at the end, one had waited {oldest}; no latency counts them"
            ));
        }
    }
    notes
}
