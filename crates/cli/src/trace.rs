//! `trace`: statistics, first records, conversion.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use dumbwaiter_report::{Align, bars, sparkline, table};
use dumbwaiter_traces::{self as traces, Arrival, Columns, Format, Options, StatOptions, TraceReader, TraceStat};

use crate::args::{Reading, Trace, TraceCommand, TraceConvert, TraceHead, TraceStat as StatArgs};
use crate::{Ended, output};

/// Runs the subcommand.
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
    match &args.json {
        Some(path) => output::write_json(path, &stat)?,
        None => output::print(&stat_text(&stat))?,
    }
    Ok(Ended::Done)
}

/// The figure as text, or a dash if the trace lacks it.
fn maybe<T>(value: Option<T>, say: impl FnOnce(T) -> String) -> String {
    value.map_or("–".to_owned(), say)
}

fn bytes_text(bytes: f64) -> String {
    match bytes {
        b if b < 1024.0 => format!("{b:.0} B"),
        b if b < 1024.0 * 1024.0 => format!("{:.2} KiB", b / 1024.0),
        b if b < 1024.0 * 1024.0 * 1024.0 => format!("{:.1} MiB", b / 1048576.0),
        b => format!("{:.2} GiB", b / 1073741824.0),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn stat_text(s: &TraceStat) -> String {
    let mut rows = stat_rows(s);
    rows.extend(timing_rows(s));
    let width = rows.iter().map(|r| r[0].chars().count()).max().unwrap_or(0);
    let mut text: String = rows.iter().map(|[k, v]| format!("{k:width$}  {v}\n")).collect();
    let sizes: Vec<(String, u64)> = s
        .commonest_sizes
        .iter()
        .map(|c| (bytes_text(c.bytes as f64), (c.share * s.records as f64).round() as u64))
        .collect();
    if !sizes.is_empty() {
        text += &format!("\ncommonest sizes\n{}", bars(&sizes, PLOT_WIDTH));
    }
    if let Some(over) = &s.over_time {
        let requests: Vec<f64> = over.reads.iter().zip(&over.writes).map(|(r, w)| (r + w) as f64).collect();
        let seconds = over.interval_s * requests.len() as f64;
        text += &format!("\nrequests over {seconds:.1} s\n{}\n", sparkline(&requests, PLOT_WIDTH));
    }
    for m in &s.missing {
        text += &format!("note: the trace has no {m}\n");
    }
    for c in s.skipped.iter().chain(&s.changed) {
        text += &format!("note: {} records: {}\n", dumbwaiter_measure::grouped(c.count), c.reason);
    }
    text
}

/// Name and value of the figures on requests, sizes and addresses.
fn stat_rows(s: &TraceStat) -> Vec<[String; 2]> {
    let size = |b: Option<f64>| maybe(b, bytes_text);
    let whole = |b: Option<u64>| maybe(b, |b| bytes_text(b as f64));
    let quantiles = |q: &Option<traces::Quantiles>| {
        maybe(q.as_ref(), |q| format!("p50 {}, p95 {}", bytes_text(q.p50_bytes), bytes_text(q.p95_bytes)))
    };
    let requests = format!(
        "{} ({} reads, {} writes, {} others; {} reads)",
        dumbwaiter_measure::grouped(s.records),
        dumbwaiter_measure::grouped(s.reads),
        dumbwaiter_measure::grouped(s.writes),
        dumbwaiter_measure::grouped(s.others),
        percent(s.read_share)
    );
    let rate = format!(
        "{} on average, {} in the busiest second",
        maybe(s.mean_iops, |r| format!("{r:.1} IOPS")),
        maybe(s.peak_iops_1s, dumbwaiter_measure::grouped)
    );
    let sequential = format!(
        "{} (near {}, in 32 streams {})",
        maybe(s.sequential_share, percent),
        maybe(s.near_share, percent),
        maybe(s.sequential_32_share, percent)
    );
    let footprint =
        format!("{} ({} of writes are rewrites)", whole(s.footprint_bytes), maybe(s.rewrite_share, percent));
    let rows = [
        ("format", s.format.clone()),
        ("requests", requests),
        ("data", format!("{} read, {} written", whole(s.read_bytes), whole(s.write_bytes))),
        ("duration", maybe(s.duration_s, |d| format!("{d:.3} s"))),
        ("rate", rate),
        ("read size", format!("mean {}, {}", size(s.mean_read_bytes), quantiles(&s.read_size))),
        ("write size", format!("mean {}, {}", size(s.mean_write_bytes), quantiles(&s.write_size))),
        ("sequential", sequential),
        ("footprint", footprint),
        (
            "highest byte",
            format!(
                "{}; {} of requests start at a multiple of 4 KiB",
                bytes_text(s.highest_byte as f64),
                percent(s.aligned_share)
            ),
        ),
        (
            "devices, tasks",
            format!(
                "{}, {}",
                maybe(s.devices, dumbwaiter_measure::grouped),
                maybe(s.tasks, dumbwaiter_measure::grouped)
            ),
        ),
    ];
    rows.map(|(name, value)| [name.to_owned(), value]).into()
}

/// Name and value of the figures on inter-arrival times and measured latencies.
fn timing_rows(s: &TraceStat) -> Vec<[String; 2]> {
    let us = dumbwaiter_measure::latency_text;
    let mut rows = Vec::new();
    if let Some(i) = &s.inter_arrival {
        let value = format!(
            "mean {}, p50 {}, p99 {}, CV {:.2}, {} simultaneous",
            us(i.mean_us),
            us(i.p50_us),
            us(i.p99_us),
            i.cv,
            percent(i.zero_share)
        );
        rows.push(["inter-arrival".to_owned(), value]);
    }
    for m in &s.latency {
        let value = format!("{}: mean {}, p50 {}, p99 {}", m.op, us(m.mean_us), us(m.p50_us), us(m.p99_us));
        rows.push([format!("measured {}", m.what), value]);
    }
    rows
}

const PLOT_WIDTH: usize = 72;

fn convert(args: &TraceConvert) -> Result<Ended> {
    output::check_writable(&args.to_file)?;
    let columns = args.to_columns.as_deref().map(Columns::parse).transpose()?;
    let format = match &args.to {
        Some(name) => Format::parse(name)?,
        None => format_of_name(&args.to_file).ok_or_else(|| {
            anyhow!(
                "{}: no format is known for this extension; give --to NAME (see `dumbwaiter trace formats`)",
                args.to_file.display()
            )
        })?,
    };
    let mut reader = open(std::slice::from_ref(&args.from), &args.reading)?;
    let written = traces::convert(&mut reader, &args.to_file, format, columns.as_ref(), None)?;
    crate::tell!(
        "{} records of {} written to {} as {}",
        dumbwaiter_measure::grouped(written.records),
        reader.format().name(),
        args.to_file.display(),
        format.name()
    );
    for skipped in reader.skipped().iter().chain(&reader.changed()).chain(&written.left_out).chain(&written.lost) {
        crate::tell!("note: {} records: {}", dumbwaiter_measure::grouped(skipped.count), skipped.reason);
    }
    Ok(Ended::Done)
}

/// The format that the file name's extension selects.
pub(crate) fn format_of_name(path: &std::path::Path) -> Option<Format> {
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    let stem = name.strip_suffix(".zst").or_else(|| name.strip_suffix(".gz")).unwrap_or(&name);
    let ending = stem.rsplit_once('.')?.1;
    Some(match ending {
        "dwt" => Format::Columnar,
        "blkparse" => Format::Blkparse,
        "vscsi" => Format::Vscsi,
        "spc" => Format::Spc,
        "iolog" => Format::Iolog3,
        other => return Format::parse(other).ok(),
    })
}

fn head(args: &TraceHead) -> Result<Ended> {
    let mut reader = open(&args.files, &args.reading)?;
    let mut rows = Vec::new();
    while (rows.len() as u64) < args.records {
        let Some(r) = reader.next_record()? else { break };
        rows.push(vec![
            format!("{:.6}", r.time.as_secs_f64()),
            r.op.to_string(),
            r.sector.to_string(),
            r.sectors.to_string(),
            r.device.to_string(),
            r.task.to_string(),
            r.latency.map_or("–".to_owned(), |l| dumbwaiter_measure::latency_text(l.as_us_f64())),
        ]);
    }
    let header = [
        ("time s", Align::Right),
        ("op", Align::Left),
        ("sector", Align::Right),
        ("sectors", Align::Right),
        ("device", Align::Right),
        ("task", Align::Right),
        ("measured", Align::Right),
    ];
    output::print(&table(&header, &rows, output::style()))?;
    Ok(Ended::Done)
}

fn formats() -> Result<Ended> {
    let rows: Vec<Vec<String>> = Format::ALL
        .into_iter()
        .map(|f| {
            vec![
                f.name().to_owned(),
                if f.writable() { "read, written" } else { "read" }.to_owned(),
                f.about().to_owned(),
            ]
        })
        .collect();
    let header = [("format", Align::Left), ("access", Align::Left), ("description", Align::Left)];
    output::print(&table(&header, &rows, output::style()))?;
    Ok(Ended::Done)
}
