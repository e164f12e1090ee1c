//! `trace`: statistics, first records, conversion.

use std::path::PathBuf;

use crate::terminal::{formats_text, records_text, trace_text};
use anyhow::{Result, anyhow};
use dumbwaiter_measure::grouped;
use dumbwaiter_traces::{
    self as traces, Arrival, Columns, Filter, Format, Options, StatOptions, TraceReader, TraceStat,
};

use crate::args::{Reading, Trace, TraceCommand, TraceConvert, TraceHead, TraceStat as StatArgs};
use crate::{Ended, input, output};

/// Records that `head` reads to count what is left out.
const HEAD_RECORDS: u64 = 100_000;

/// Runs the subcommand.
pub(crate) fn run(args: &Trace) -> Result<Ended> {
    match &args.what {
        TraceCommand::Stat(args) => stat(args),
        TraceCommand::Convert(args) => convert(args),
        TraceCommand::Head(args) => head(args),
        TraceCommand::Formats => {
            output::print(&formats_text(output::style()))?;
            Ok(Ended::Done)
        }
    }
}

fn options(reading: &Reading) -> Result<Options> {
    Ok(Options {
        format: reading.format.as_deref().map(Format::parse).transpose()?,
        columns: reading.columns.as_deref().map(Columns::parse).transpose()?,
        arrival: reading.arrival.as_deref().map(Arrival::parse).transpose()?,
        assume_bytes: reading.assume_bytes,
        ..Options::default()
    })
}

/// Opens a trace and says what was understood of it.
pub(crate) fn open(files: &[PathBuf], reading: &Reading) -> Result<TraceReader> {
    let reader = traces::open(files, &options(reading)?)?;
    for note in reader.notes() {
        crate::tell!("note: {note}");
    }
    Ok(reader)
}

fn stat(args: &StatArgs) -> Result<Ended> {
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    let mut reader = open(&args.files, &args.reading)?;
    let stat = TraceStat::of(&mut reader, &StatOptions::default())?;
    output::print_or_json(args.json.as_deref(), &stat, || trace_text(&stat))?;
    Ok(Ended::Done)
}

fn convert(args: &TraceConvert) -> Result<Ended> {
    output::check_writable(&args.to_file)?;
    let columns = args.to_columns.as_deref().map(Columns::parse).transpose()?;
    let format = match &args.to {
        Some(name) => Format::parse(name)?,
        None => Format::of_file_name(&args.to_file).ok_or_else(|| {
            anyhow!(
                "{}: no format is known for this extension; give --to NAME (see `dumbwaiter trace formats`)",
                args.to_file.display()
            )
        })?,
    };
    let filter = Filter {
        start: input::time_if("--start", args.start.as_ref())?.unwrap_or_default(),
        end: input::time_if("--end", args.end.as_ref())?,
        devices: args.device.clone(),
        tasks: args.process.clone(),
        skip: args.skip,
        records: args.records,
    };
    let mut reader = open(std::slice::from_ref(&args.from), &args.reading)?;
    let written = traces::convert(&mut reader, &args.to_file, format, columns.as_ref(), &filter, &|| false)?;
    crate::tell!(
        "{} records of {} written to {} as {}",
        grouped(written.records),
        reader.format().name(),
        args.to_file.display(),
        format.name()
    );
    for skipped in reader.skipped().iter().chain(&reader.changed()).chain(&written.left_out).chain(&written.lost) {
        crate::tell!("note: {} records: {}", grouped(skipped.count), skipped.reason);
    }
    if let Some(line) = reader.example() {
        crate::tell!("note: the first that is left out is {line}");
    }
    Ok(Ended::Done)
}

fn head(args: &TraceHead) -> Result<Ended> {
    let mut reader = open(&args.files, &args.reading)?;
    let mut records = Vec::new();
    let mut read = 0;
    // What is left out is said first, also of what is not shown.
    while let Some(record) = reader.next_record()? {
        read += 1;
        if (records.len() as u64) < args.records {
            records.push(record);
        } else if read >= HEAD_RECORDS {
            break;
        }
    }
    let of = if read >= HEAD_RECORDS { format!(" (of the first {})", grouped(read)) } else { String::new() };
    for counted in reader.skipped().iter().chain(&reader.changed()) {
        crate::tell!("note: {} records{of}: {}", grouped(counted.count), counted.reason);
    }
    if let Some(line) = reader.example() {
        crate::tell!("note: the first that is left out is {line}");
    }
    output::print(&records_text(&records, output::style()))?;
    Ok(Ended::Done)
}
