//! The end of a comparison: its document is printed and written, and decides the exit code.

use std::path::Path;

use anyhow::{Result, bail};
use dumbwaiter_advise::{Document, Provenance};
use dumbwaiter_experiment::{Comparison, Ending};
use dumbwaiter_report::Format;

use crate::Ended;
use crate::args::Outputs;

/// Can everything be written that was asked for, beside what is read?
pub(crate) fn check_outputs(args: &Outputs, inputs: &[&Path]) -> Result<()> {
    Ok(args.of_document().check(inputs)?)
}

/// Prints and writes all that was asked for.
pub(crate) fn write_all(args: &Outputs, document: &Document, format: Format) -> Result<()> {
    Ok(args.of_document().write(document, format)?)
}

/// Prints and writes what a comparison found, and says how it ended.
pub(crate) fn finish(compared: Comparison, outputs: &Outputs, format: Format) -> Result<Ended> {
    let Comparison { mut document, ending } = compared;
    built_from(&mut document.provenance);
    write_all(outputs, &document, format)?;
    match ending {
        Ending::Complete => Ok(Ended::Done),
        Ending::Interrupted => Ok(Ended::Interrupted),
        Ending::Failed(failure) => Err(failure.into()),
    }
}

/// The format of this name.
pub(crate) fn format(name: &str) -> Result<Format> {
    match Format::parse(name) {
        Some(format) => Ok(format),
        None => bail!(
            "--format: `{name}` is not a format; expected table, csv, markdown, json, udev, nixos, tuned, ansible or systemd"
        ),
    }
}

/// Adds the commit of this program, and for a real drive the command as it was typed.
fn built_from(provenance: &mut Provenance) {
    provenance.commit = crate::version::commit();
    if provenance.drive.is_some() {
        provenance.arguments = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    }
}
