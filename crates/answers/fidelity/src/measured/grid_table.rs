//! Tables of a grid: random reads that arrive at a rate, beside a sequential writer held at another.

use std::collections::BTreeMap;

use super::MeasuredError;
use super::case::{Case, Clipped, Figures, FioOptions, Job, MeasuredRow, Part};
use super::csv::{Row, Table};

/// The columns that such a table must have.
pub(super) const COLUMNS: [&str; 5] = ["drive", "stat", "write_bw", "read_iops", "read_latency_ms"];

/// The measuring program raises a rate of 0 reads to this.
const READS_LEAST: f64 = 10.0;
/// It measures each cell for this long.
const SECONDS_MAX: f64 = 30.0;
/// I/Os that the reader may have under way.
const READER_DEPTH: u32 = 1000;
/// The writer has as many as the scheduler takes, at most these.
const WRITER_DEPTH: u32 = 64;
const READ_BYTES: f64 = 512.0;

/// The cases of a table: one for each drive, write rate and read rate, whose percentiles are rows.
pub(super) fn cases(table: &Table) -> Result<Vec<Case>, MeasuredError> {
    let mut places: BTreeMap<[&str; 4], usize> = BTreeMap::new();
    let mut cases: Vec<Case> = Vec::new();
    for row in table.rows() {
        let key = ["drive", "write_bw", "read_iops", "scheduler"].map(|column| table.text(row, column));
        let at = match places.get(&key) {
            Some(at) => *at,
            None => {
                cases.push(case(table, row)?);
                places.insert(key, cases.len() - 1);
                cases.len() - 1
            }
        };
        add(table, row, &mut cases[at].rows[0])?;
    }
    Ok(cases)
}

fn required(table: &Table, row: &Row, column: &str) -> Result<f64, MeasuredError> {
    table.number(row, column)?.ok_or_else(|| table.wrong(row, column, "a number, 0 or larger"))
}

fn case(table: &Table, row: &Row) -> Result<Case, MeasuredError> {
    let drive = table.text(row, "drive");
    let (writes, reads) = (required(table, row, "write_bw")?, required(table, row, "read_iops")?);
    let reads = reads.max(READS_LEAST);
    let scheduler = Some(table.text(row, "scheduler")).filter(|name| !name.is_empty()).unwrap_or("none");
    let options = |list: &[(&str, String)]| -> FioOptions {
        let always = [("ioengine", "libaio".to_owned()), ("direct", "1".to_owned())];
        always.iter().chain(list).map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
    };
    let job = |name: &str, iodepth, options| Job {
        name: name.to_owned(),
        numjobs: 1,
        options,
        writes: name == "writer",
        reads: name == "reads",
        iodepth,
        cpus: Vec::new(),
        drives: None,
    };
    let reader = options(&[
        ("rw", "randread".to_owned()),
        ("bs", "512".to_owned()),
        ("rate_iops", format!("{}", reads.round().max(1.0))),
        ("rate_process", "poisson".to_owned()),
        ("io_submit_mode", "offload".to_owned()),
        ("norandommap", "1".to_owned()),
    ]);
    let mut jobs = vec![job("reads", READER_DEPTH, reader)];
    if writes >= 1.0 {
        let writer = options(&[
            ("rw", "write".to_owned()),
            ("bs", "128k".to_owned()),
            ("rate", format!("{}", writes.round())),
            ("io_submit_mode", "offload".to_owned()),
        ]);
        jobs.push(job("writer", WRITER_DEPTH, writer));
    }
    let figures = Figures { iops: Some(reads), mb_s: Some(reads * READ_BYTES / 1e6), ..Figures::default() };
    let row = MeasuredRow {
        path: table.path().to_owned(),
        line: row.line,
        role: "reads".to_owned(),
        part: Part::Job(0),
        figures,
        clipped: Clipped::default(),
    };
    Ok(Case {
        figure: drive.to_owned(),
        condition: format!("{:.1} MB/s written, {reads} reads/s", writes / 1e6),
        scheduler: scheduler.to_owned(),
        stack: Ok(scheduler.to_owned()),
        drives: 1,
        jobs,
        rows: vec![row],
        length: None,
        groups: Vec::new(),
        seconds_max: SECONDS_MAX,
        note: None,
    })
}

/// Adds a percentile of a cell to its row.
fn add(table: &Table, row: &Row, cell: &mut MeasuredRow) -> Result<(), MeasuredError> {
    let us = required(table, row, "read_latency_ms")? * 1e3;
    let clipped = match table.text(row, "clipped") {
        "" | "0" => false,
        "1" => true,
        _ => return Err(table.wrong(row, "clipped", "0 or 1")),
    };
    let (value, bound) = match table.text(row, "stat") {
        "p50" => (&mut cell.figures.p50_us, &mut cell.clipped.p50),
        "p95" => (&mut cell.figures.p95_us, &mut cell.clipped.p95),
        _ => return Err(table.wrong(row, "stat", "p50 or p95")),
    };
    if value.is_some() {
        return Err(table.wrong(row, "stat", "each percentile of a cell once"));
    }
    (*value, *bound) = (Some(us), clipped);
    Ok(())
}
