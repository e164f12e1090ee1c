//! What a comparison found, and where that goes: a table, JSON, a page, Parquet.

use std::path::Path;

use anyhow::{Result, bail};
use dumbwaiter_advise::Document;
use dumbwaiter_experiment::{Comparison, Ending, Failure, FailureKind};
use dumbwaiter_report::{compare_text, write_html, write_parquet};

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
pub(crate) fn write_all(args: &Outputs, document: &Document) -> Result<()> {
    let to_stdout = args.json.as_deref().is_some_and(output::is_stdout);
    let json = || args.json.as_ref().map_or(Ok(()), |path| output::write_text(path, &document.to_json()));
    // Files first, each even if another fails; output on stdout is lost if its reader is gone.
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

/// Prints and writes what a comparison found, and says how it ended.
pub(crate) fn finish(compared: Result<Comparison, Failure>, outputs: &Outputs) -> Result<Ended> {
    let Comparison { document, ending } = match compared {
        Ok(comparison) => comparison,
        Err(failure) => return ended_by(failure),
    };
    write_all(outputs, &document)?;
    match ending {
        Ending::Complete => Ok(Ended::Done),
        Ending::Interrupted => Ok(Ended::Interrupted),
        Ending::Failed(failure) => ended_by(failure),
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
