//! `trace`: what is in a trace, its first records, another format.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use dumbwaiter_report::{Align, bars, sparkline, table};
use dumbwaiter_workloads::traces::{self, Columns, Format, Options, TraceReader, TraceStat};

use crate::args::{Reading, Trace, TraceCommand, TraceConvert, TraceHead, TraceStat as StatArgs};
use crate::{Ended, output};

/// Does what was asked for.
pub(crate) fn run(args: &Trace) -> Result<Ended> {
    match &args.what {
        TraceCommand::Stat(args) => stat(args),
        TraceCommand::Convert(args) => convert(args),
        TraceCommand::Head(args) => head(args),
        TraceCommand::Formats => formats(),
    }
}

fn options(reading: &Reading) -> Result<Options> {
    Ok(Options {
        format: reading.format.as_deref().map(Format::parse).transpose()?,
        columns: reading.columns.as_deref().map(Columns::parse).transpose()?,
        ..Options::default()
    })
}

fn open(files: &[PathBuf], reading: &Reading) -> Result<TraceReader> {
    let reader = traces::open(files, &options(reading)?)?;
    for note in reader.notes() {
        eprintln!("note: {note}");
    }
    Ok(reader)
}
