//! Dispatch recordings: the inputs and decisions of a kernel's scheduler.
//!
//! `NAME.csv.zst` (or `.csv`) holds one row per event: `ts_ns,event,req,sector,bytes,op,flags,pid,ioprio,cpu`.
//! `NAME.json` beside it holds scheduler, kernel, settings, CPUs and the phase of the kernel's ticks.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use dumbwaiter_block::{AtAttach, Flags, Ioprio, Nanos, Op, Setup, TickClock};
use serde::Deserialize;

/// Periods of a kernel's ticks, with some room for a measured period: 100 to 1000 Hz are possible.
const TICK_NS: std::ops::RangeInclusive<u64> = 900_000..=11_000_000;
/// Largest depth of a queue; the kernel's limit is 10,240.
const DEPTH_MAX: u64 = 1 << 20;
/// Largest description.
const DESCRIPTION_BYTES_MAX: u64 = 64 << 20;
/// Longest line of the rows.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Latest time of a row: 30 years after the first.
const TIME_NS_MAX: u64 = 1 << 60;
/// Highest sector: the end of 16 EiB.
const SECTOR_MAX: u64 = 1 << 55;
/// Most rows: they are kept in memory.
const ROWS_MAX: usize = 1 << 26;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("{path}: {cause}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The JSON beside the rows is not as expected.
    #[error("{path}: not the description of a dispatch recording: {cause}")]
    Description {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        cause: serde_json::Error,
    },
    /// A value of the JSON beside the rows is out of its range.
    #[error("{path}: {what}")]
    Setting {
        /// The file.
        path: PathBuf,
        /// Key, value and what was expected.
        what: String,
    },
    /// A row is not as expected.
    #[error("{path}, line {line}: {what}")]
    Row {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What was found and what was expected.
        what: String,
    },
}

/// The kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// An I/O enters the block layer.
    Arrival,
    /// A request was allocated.
    Allocated,
    /// A process starts to plug its requests.
    Plug,
    /// A process unplugs.
    Unplug,
    /// An I/O was added behind a request.
    BackMerge,
    /// An I/O was added before a request.
    FrontMerge,
    /// A request absorbed another one.
    Absorb(u32),
    /// The scheduler received a request.
    Insert,
    /// The scheduler was asked and returned this request.
    Dispatch,
    /// The scheduler was asked and returned nothing.
    DispatchNone,
    /// The driver took a request.
    Issue,
    /// The device finished a request.
    Complete,
    /// The driver gave a request back.
    Requeue,
    /// An event that a replay does not need.
    Other,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Time since the first event.
    pub at: Nanos,
    /// Kind of event.
    pub kind: RowKind,
    /// The request, 0 where there is none.
    pub req: u32,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Operation.
    pub op: Op,
    /// Flags.
    pub flags: Flags,
    /// The process that allocated the request; −1 where the kernel knows none.
    pub pid: i32,
    /// Priority as the kernel stores it, 0 where there is none.
    pub ioprio: Ioprio,
    /// CPU of the event.
    pub cpu: u16,
    /// Line in the file.
    pub line: u64,
}

#[derive(Debug, Deserialize)]
struct Jiffies {
    period_ns: u64,
    step_at_ns: i64,
}

impl Jiffies {
    /// The kernel's ticks; an error where no kernel has such.
    fn clock(&self, path: &Path) -> Result<TickClock, Error> {
        if !TICK_NS.contains(&self.period_ns) {
            let what = format!(
                "jiffies.period_ns: {} is no period of a kernel's ticks; expected {} to {} (100 to 1000 Hz)",
                self.period_ns,
                TICK_NS.start(),
                TICK_NS.end()
            );
            return Err(Error::Setting { path: path.to_owned(), what });
        }
        let step_at = self.step_at_ns.rem_euclid(self.period_ns as i64) as u64;
        Ok(TickClock { period: Nanos(self.period_ns), step_at: Nanos(step_at) })
    }
}

#[derive(Debug, Default, Deserialize)]
struct Queue {
    #[serde(default)]
    nr_requests: Option<serde_json::Value>,
    #[serde(default)]
    rotational: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Description {
    scheduler: String,
    kernel: String,
    #[serde(default = "one")]
    cpus: u16,
    #[serde(default)]
    queue: Queue,
    #[serde(default)]
    iosched: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    jiffies: Option<Jiffies>,
    #[serde(default)]
    device: serde_json::Value,
}

fn one() -> u16 {
    1
}

/// A recording with all its rows.
pub struct Recording {
    /// The rows' file.
    pub path: PathBuf,
    /// The kernel's scheduler.
    pub scheduler: String,
    /// The kernel's release.
    pub kernel: String,
    /// Settings in force, as text.
    pub iosched: BTreeMap<String, String>,
    /// What a scheduler is made with: clock, CPUs, depths.
    pub setup: Setup,
    /// Events in order.
    pub rows: Vec<Row>,
}

impl Recording {
    /// Reads the rows of `path` (`.csv` or `.csv.zst`) and the JSON beside it; or of its JSON, the rows beside that.
    ///
    /// # Errors
    /// A file that cannot be read, is too large, or is not a recording; with the line.
    pub fn open(path: &Path) -> Result<Recording, Error> {
        let Files { rows: path, description: beside } = &Files::of(path);
        let io = |path: &Path| {
            let path = path.to_owned();
            move |cause| Error::Io { path, cause }
        };
        let rows = std::fs::File::open(path).map_err(io(path))?;
        let mut text = Vec::new();
        let file = std::fs::File::open(beside).map_err(io(beside))?;
        file.take(DESCRIPTION_BYTES_MAX + 1).read_to_end(&mut text).map_err(io(beside))?;
        if text.len() as u64 > DESCRIPTION_BYTES_MAX {
            let what =
                format!("more than {} MiB; expected the description of a recording", DESCRIPTION_BYTES_MAX >> 20);
            return Err(Error::Setting { path: beside.clone(), what });
        }
        Recording::read(path, rows, beside, &text)
    }

    /// Reads a recording from its `rows`, plain or zstd, and the JSON text of its `description`. Messages call them `path`
    /// and `beside`.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn read(path: &Path, mut rows: impl Read, beside: &Path, description: &[u8]) -> Result<Recording, Error> {
        let io = |cause| Error::Io { path: path.to_owned(), cause };
        let about: Description = serde_json::from_slice(description)
            .map_err(|cause| Error::Description { path: beside.to_owned(), cause })?;
        let clock = about.jiffies.as_ref().map_or(Ok(TickClock::HZ_250), |jiffies| jiffies.clock(beside))?;
        let mut magic = Vec::new();
        rows.by_ref().take(4).read_to_end(&mut magic).map_err(io)?;
        let packed = magic == [0x28, 0xb5, 0x2f, 0xfd];
        let whole = std::io::Cursor::new(magic).chain(rows);
        let rows = if packed {
            let decoder = zstd::Decoder::new(whole).map_err(io)?;
            read_rows(path, BufReader::new(decoder))?
        } else {
            read_rows(path, BufReader::new(whole))?
        };
        let number = |v: &Option<serde_json::Value>| v.as_ref().and_then(as_number);
        let depth = |key: &str, value: Option<u64>, default: u32| match value {
            None => Ok(default),
            Some(n) if (1..=DEPTH_MAX).contains(&n) => Ok(n as u32),
            Some(n) => {
                Err(Error::Setting { path: beside.to_owned(), what: format!("{key}: {n}; expected 1 to {DEPTH_MAX}") })
            }
        };
        let device_depth = about.device.pointer("/attributes/hw_queue_depth").and_then(as_number);
        let setup = Setup {
            clock,
            cpus: about.cpus.max(1),
            hw_queues: 1,
            nr_requests: depth("queue.nr_requests", number(&about.queue.nr_requests), 256)?,
            device_depth: depth("device.attributes.hw_queue_depth", device_depth, 128)?,
            rotational: number(&about.queue.rotational) == Some(1),
            // The recorder attaches the scheduler to flash, which it may declare rotational afterwards.
            at_attach: AtAttach { rotational: Some(false), ..AtAttach::default() },
        };
        let iosched = about.iosched.iter().map(|(k, v)| (k.clone(), plain(v))).collect();
        Ok(Recording { path: path.into(), scheduler: about.scheduler, kernel: about.kernel, iosched, setup, rows })
    }
}

/// The two files of a recording.
pub(crate) struct Files {
    pub(crate) rows: PathBuf,
    pub(crate) description: PathBuf,
}

impl Files {
    /// Both, by the name of either.
    pub(crate) fn of(path: &Path) -> Files {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some(stem) = name.strip_suffix(".json") {
            let packed = path.with_file_name(format!("{stem}.csv.zst"));
            let rows = if packed.exists() { packed } else { path.with_file_name(format!("{stem}.csv")) };
            return Files { rows, description: path.to_owned() };
        }
        let stem = name.strip_suffix(".zst").unwrap_or(&name);
        let stem = stem.strip_suffix(".csv").unwrap_or(stem);
        Files { rows: path.to_owned(), description: path.with_file_name(format!("{stem}.json")) }
    }
}

pub(crate) fn as_number(value: &serde_json::Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

const HEADER: &str = "ts_ns,event,req,sector,bytes,op,flags,pid,ioprio,cpu";

fn read_rows(path: &Path, mut input: impl BufRead) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    let mut text = String::new();
    let mut line = 0;
    loop {
        text.clear();
        line += 1;
        let fail = |what: String| Error::Row { path: path.into(), line, what };
        let got = input.by_ref().take(LINE_BYTES_MAX).read_line(&mut text);
        let got = got.map_err(|e| fail(format!("cannot be read: {e}")))?;
        if got == 0 {
            break;
        }
        if got as u64 == LINE_BYTES_MAX && !text.ends_with('\n') {
            return Err(fail("a line of more than 1 MiB; expected a row of 10 fields".into()));
        }
        if rows.len() == ROWS_MAX {
            return Err(fail(format!("more than {ROWS_MAX} rows; record for a shorter time")));
        }
        let row = text.trim_end();
        if line == 1 {
            if row != HEADER {
                return Err(fail(format!("expected the header `{HEADER}`, found `{}`", shown(row))));
            }
            continue;
        }
        let row = parse_row(row, line).map_err(fail)?;
        if row.at < rows.last().map_or(Nanos::ZERO, |last: &Row| last.at) {
            return Err(fail("the time goes back; expected rows in the order of their times".into()));
        }
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(Error::Row { path: path.into(), line: 1, what: "no rows: expected a dispatch recording".into() });
    }
    Ok(rows)
}

/// The start of a text for a message, control characters escaped.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    if text.chars().nth(80).is_some() { start + "…" } else { start }
}

fn parse_row(text: &str, line: u64) -> Result<Row, String> {
    let mut fields = [""; 10];
    let mut count = 0;
    for field in text.split(',') {
        *fields.get_mut(count).ok_or_else(|| format!("more than 10 fields in `{}`", shown(text)))? = field;
        count += 1;
    }
    if count != 10 {
        return Err(format!("expected 10 fields, found {count} in `{}`", shown(text)));
    }
    let number = |i: usize| -> Result<u64, String> {
        if fields[i].is_empty() {
            return Ok(0);
        }
        fields[i].parse().map_err(|_| format!("column {}: expected a number, found `{}`", i + 1, shown(fields[i])))
    };
    let kind = match fields[1] {
        "bio_queue" => RowKind::Arrival,
        "getrq" => RowKind::Allocated,
        "plug" => RowKind::Plug,
        "unplug" => RowKind::Unplug,
        "bio_backmerge" => RowKind::BackMerge,
        "bio_frontmerge" => RowKind::FrontMerge,
        "rq_merge" => {
            let other = fields[6].split(';').find_map(|f| f.trim().strip_prefix("absorbs="));
            let other = other.and_then(|n| n.parse().ok());
            RowKind::Absorb(other.ok_or_else(|| format!("rq_merge without absorbs=N: `{}`", shown(fields[6])))?)
        }
        "rq_insert" => RowKind::Insert,
        "dispatch" => RowKind::Dispatch,
        "dispatch_none" => RowKind::DispatchNone,
        "rq_issue" => RowKind::Issue,
        "rq_complete" => RowKind::Complete,
        "rq_requeue" => RowKind::Requeue,
        _ => RowKind::Other,
    };
    let op = match fields[5] {
        "W" => Op::Write,
        "D" => Op::Discard,
        "F" => Op::Flush,
        _ => Op::Read,
    };
    let mut flags = Flags::NONE;
    for letter in fields[6].chars() {
        flags = flags.with(match letter {
            'S' => Flags::SYNC,
            'A' => Flags::RAHEAD,
            'M' => Flags::META,
            'F' => Flags::FUA,
            _ => Flags::NONE,
        });
    }
    let within = |i: usize, most: u64| match number(i)? {
        n if n <= most => Ok(n),
        n => Err(format!("column {}: {n}; expected at most {most}", i + 1)),
    };
    Ok(Row {
        at: Nanos(within(0, TIME_NS_MAX)?),
        kind,
        req: within(2, u64::from(u32::MAX))? as u32,
        sector: within(3, SECTOR_MAX)?,
        bytes: within(4, u64::from(u32::MAX))?,
        op,
        flags,
        pid: match fields[7] {
            "" => 0,
            pid => pid.parse().map_err(|_| format!("column 8: expected a process number, found `{}`", shown(pid)))?,
        },
        ioprio: Ioprio(within(8, u64::from(u16::MAX))? as u16),
        cpu: within(9, u64::from(u16::MAX))? as u16,
        line,
    })
}
