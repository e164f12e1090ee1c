//! What a comparison found, and where that goes: a table, JSON, a page, Parquet.

use std::path::Path;

use anyhow::{Result, bail};
use dumbwaiter_advise::{Document, Provenance};
use dumbwaiter_experiment::{Comparison, Ending, Failure, FailureKind};
use dumbwaiter_report::{Format, document_text, write_html, write_parquet};

use crate::args::Outputs;
use crate::{Ended, output};

/// Can everything be written that was asked for, beside what is read?
pub(crate) fn check_outputs(args: &Outputs, inputs: &[&Path]) -> Result<()> {
    output::check_files(args.json.as_deref(), args.html.as_deref(), inputs)?;
    if let Some(dir) = &args.parquet {
        output::check_folder(dir)?;
    }
    Ok(())
}

/// Writes all that was asked for.
pub(crate) fn write_all(args: &Outputs, document: &Document, format: Format) -> Result<()> {
    let to_stdout = args.json.as_deref().is_some_and(output::is_stdout);
    let json = || args.json.as_ref().map_or(Ok(()), |path| output::write_text(path, &document.to_json()));
    // Files first, each even if another fails; output on stdout is lost if its reader is gone.
    let mut done: Vec<(Result<()>, _, _)> = Vec::new();
    if let Some(path) = &args.html {
        done.push((write_html(document, path).map_err(Into::into), path, "report"));
    }
    if let Some(dir) = &args.parquet {
        done.push((write_parquet(document, dir).map_err(Into::into), dir, "Parquet tables"));
    }
    if let Some(path) = args.json.as_ref().filter(|_| !to_stdout) {
        done.push((json().map_err(Into::into), path, "JSON"));
    }
    let printed = if to_stdout {
        document.notes.iter().for_each(|note| crate::tell!("note: {note}"));
        json()
    } else {
        output::print(&document_text(document, format, output::screen(args.wide)))
    };
    for (written, path, what) in done {
        written?;
        story(path, what);
    }
    Ok(printed?)
}

fn story(path: &Path, what: &str) {
    if !output::is_stdout(path) {
        crate::tell!("{what} written to {}", path.display());
    }
}

/// Prints and writes what a comparison found, and says how it ended.
pub(crate) fn finish(compared: Result<Comparison, Failure>, outputs: &Outputs, format: Format) -> Result<Ended> {
    let Comparison { mut document, ending } = match compared {
        Ok(comparison) => comparison,
        Err(failure) => return ended_by(failure),
    };
    built_from(&mut document.provenance);
    write_all(outputs, &document, format)?;
    match ending {
        Ending::Complete => Ok(Ended::Done),
        Ending::Interrupted => Ok(Ended::Interrupted),
        Ending::Failed(failure) => ended_by(failure),
    }
}

/// The format of this name.
pub(crate) fn format(name: &str) -> Result<Format> {
    match Format::parse(name) {
        Some(format) => Ok(format),
        None => bail!("--format: `{name}` is not a format; expected table, csv, markdown or json"),
    }
}

/// Adds the commit of this program, and for a real drive the command as it was typed.
fn built_from(provenance: &mut Provenance) {
    provenance.commit = dumbwaiter_version::commit();
    if provenance.drive.is_some() {
        provenance.arguments = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    }
}

/// The exit code of a failure; its reason goes to stderr.
pub(crate) fn ended_by(failure: Failure) -> Result<Ended> {
    let ended = match failure.kind {
        FailureKind::Refused => bail!(failure.reason),
        FailureKind::Device => Ended::DeviceFailed,
        FailureKind::Interrupted => Ended::Interrupted,
    };
    crate::tell!("dumbwaiter: {}", failure.reason);
    Ok(ended)
}
