//! Traces: statistics, records, formats.

use dumbwaiter_measure::{grouped, latency_text};
use dumbwaiter_report::{Align, Style, bars, sparkline, table};
use dumbwaiter_traces::{Format, Quantiles, Record, TraceStat};

/// Columns of a plot.
const PLOT_WIDTH: usize = 72;

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

/// The statistics of a trace: figures line by line, the commonest sizes and the requests over time as plots, and notes.
pub fn trace_text(s: &TraceStat) -> String {
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
        text += &format!("note: {} records: {}\n", grouped(c.count), c.reason);
    }
    text
}

/// Name and value of the figures on requests, sizes and addresses.
fn stat_rows(s: &TraceStat) -> Vec<[String; 2]> {
    let size = |b: Option<f64>| maybe(b, bytes_text);
    let whole = |b: Option<u64>| maybe(b, |b| bytes_text(b as f64));
    let quantiles = |q: &Option<Quantiles>| {
        maybe(q.as_ref(), |q| format!("p50 {}, p95 {}", bytes_text(q.p50_bytes), bytes_text(q.p95_bytes)))
    };
    let requests = format!(
        "{} ({} reads, {} writes, {} others; {} reads)",
        grouped(s.records),
        grouped(s.reads),
        grouped(s.writes),
        grouped(s.others),
        percent(s.read_share)
    );
    let rate = format!(
        "{} on average, {} in the busiest second",
        maybe(s.mean_iops, |r| format!("{r:.1} IOPS")),
        maybe(s.peak_iops_1s, grouped)
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
        ("devices, tasks", format!("{}, {}", maybe(s.devices, grouped), maybe(s.tasks, grouped))),
    ];
    rows.map(|(name, value)| [name.to_owned(), value]).into()
}

/// Name and value of the figures on inter-arrival times and measured latencies.
fn timing_rows(s: &TraceStat) -> Vec<[String; 2]> {
    let us = latency_text;
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

/// Records of a trace, one row each.
pub fn records_text(records: &[Record], style: Style) -> String {
    let row = |r: &Record| {
        vec![
            format!("{:.6}", r.time.as_secs_f64()),
            r.op.to_string(),
            r.sector.to_string(),
            r.sectors.to_string(),
            r.device.to_string(),
            r.task.to_string(),
            r.latency.map_or("–".to_owned(), |l| latency_text(l.as_us_f64())),
        ]
    };
    let rows: Vec<Vec<String>> = records.iter().map(row).collect();
    let header = [
        ("time s", Align::Right),
        ("op", Align::Left),
        ("sector", Align::Right),
        ("sectors", Align::Right),
        ("device", Align::Right),
        ("task", Align::Right),
        ("measured", Align::Right),
    ];
    table(&header, &rows, style)
}

/// The formats that are read and written.
pub fn formats_text(style: Style) -> String {
    let row = |f: Format| {
        let access = if f.writable() { "read, written" } else { "read" };
        vec![f.name().to_owned(), access.to_owned(), f.about().to_owned()]
    };
    let rows: Vec<Vec<String>> = Format::ALL.into_iter().map(row).collect();
    let header = [("format", Align::Left), ("access", Align::Left), ("description", Align::Left)];
    table(&header, &rows, style)
}
