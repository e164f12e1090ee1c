//! Dispatch recordings: the inputs and decisions of a kernel's scheduler.
//!
//! `NAME.csv.zst` (or `.csv`) holds one row per event: `ts_ns,event,req,sector,bytes,op,flags,pid,ioprio,cpu`.
//! `NAME.json` beside it holds scheduler, kernel, settings, CPUs and the phase of the kernel's ticks, and the control
//! groups with their weights and processes if there is more than the root group.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use dumbwaiter_block::{AtAttach, Flags, Ioprio, Nanos, Op, Setup, Tenant, TickClock};
use serde::Deserialize;

pub use crate::error::Error;
use crate::rows::{HEADER, SECTOR_MAX, TIME_NS_MAX, each_line, op_of, shown, value_of};

/// Periods of a kernel's ticks, with some room for a measured period: 100 to 1000 Hz are possible.
const TICK_NS: std::ops::RangeInclusive<u64> = 900_000..=11_000_000;
/// Largest depth of a queue; the kernel's limit is 10,240.
const DEPTH_MAX: u64 = 1 << 20;
/// The sector of a flush without data: all bits.
const NO_SECTOR: &str = "18446744073709551615";
/// Largest description.
const DESCRIPTION_BYTES_MAX: u64 = 64 << 20;
/// Most groups, and most groups in one another.
const GROUPS_MAX: usize = 4096;
const NESTING_MAX: usize = 32;

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
    /// A group got this weight.
    GroupWeight {
        /// Index in [`Recording::groups`].
        group: u32,
        /// The new weight.
        weight: u32,
    },
    /// The process of the row moved to this group, an index in [`Recording::groups`].
    TaskMoved(u32),
    /// The process of the row ended.
    TaskExited,
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

/// When the kernel's ticks step, as a description says it.
#[derive(Debug, Deserialize)]
pub(crate) struct Jiffies {
    period_ns: u64,
    step_at_ns: i64,
    #[serde(default)]
    uncertain_ns: u64,
}

impl Jiffies {
    /// The step may be this much earlier or later.
    pub(crate) fn uncertain(&self) -> Nanos {
        Nanos(self.uncertain_ns.min(self.period_ns))
    }

    /// The kernel's ticks; an error where no kernel has such.
    pub(crate) fn clock(&self, path: &Path) -> Result<TickClock, Error> {
        if !TICK_NS.contains(&self.period_ns) {
            let what = format!(
                "jiffies.period_ns: {} is not a kernel's tick period; expected {} to {} (100 to 1000 Hz)",
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
    #[serde(default)]
    groups: Vec<Group>,
    /// Whether the device was declared rotational when its scheduler was attached.
    #[serde(default)]
    rotational_at_attach: bool,
}

/// A control group of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Group {
    /// Empty for the root group; `a/x` is nested in `a`.
    pub path: String,
    /// Its weight before the first request, 1 to 10000. The root's has no effect.
    #[serde(default = "default_weight")]
    pub weight: u32,
    /// The processes in it when the recording begins.
    #[serde(default)]
    pub pids: Vec<i32>,
}

fn default_weight() -> u32 {
    Tenant::default().weight
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
    /// The scheduler's setup: clock, CPUs, depths.
    pub setup: Setup,
    /// Control groups, parents before children; none where everything was in the root group.
    pub groups: Vec<Group>,
    /// Events in order.
    pub rows: Vec<Row>,
}

/// The JSON beside a recording's rows.
pub(crate) fn read_description(path: &Path) -> Result<Vec<u8>, Error> {
    let io = |cause| Error::Io { path: path.to_owned(), cause };
    let mut text = Vec::new();
    let file = match std::fs::File::open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let what = "there is no such file; a recording has its description in NAME.json beside NAME.csv or NAME.csv.zst, as `dumbwaiter record --dispatch` writes them";
            return Err(Error::Setting { path: path.to_owned(), what: what.to_owned() });
        }
        opened => opened.map_err(io)?,
    };
    file.take(DESCRIPTION_BYTES_MAX + 1).read_to_end(&mut text).map_err(io)?;
    if text.len() as u64 > DESCRIPTION_BYTES_MAX {
        let what = format!("more than {} MiB; expected the description of a recording", DESCRIPTION_BYTES_MAX >> 20);
        return Err(Error::Setting { path: path.to_owned(), what });
    }
    Ok(text)
}

impl Recording {
    /// Reads the rows of `path` (`.csv` or `.csv.zst`) and the JSON beside it; or of its JSON, the rows beside that.
    ///
    /// # Errors
    /// A file that cannot be read, is too large, or is not a recording; with the line.
    pub fn open(path: &Path) -> Result<Recording, Error> {
        let files = Files::of(path);
        Recording::read(&files.rows, files.open_rows()?, &files.description, &read_description(&files.description)?)
    }

    /// Reads a recording from its `rows`, plain or zstd, and the JSON text of its `description`. Messages call them `path`
    /// and `beside`.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn read(path: &Path, rows: impl Read, beside: &Path, description: &[u8]) -> Result<Recording, Error> {
        let mut recording = Recording::described(path, beside, description)?;
        recording.rows = read_rows(path, rows, &recording.groups)?;
        Ok(recording)
    }

    /// A recording without its rows.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub(crate) fn described(path: &Path, beside: &Path, description: &[u8]) -> Result<Recording, Error> {
        let about: Description = serde_json::from_slice(description)
            .map_err(|cause| Error::Description { path: beside.to_owned(), cause })?;
        check_groups(beside, &about.groups)?;
        let clock = about.jiffies.as_ref().map_or(Ok(TickClock::HZ_250), |jiffies| jiffies.clock(beside))?;
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
            smt: false,
            shared_tags: false,
            lun_depth: None,
            nr_requests: depth("queue.nr_requests", number(&about.queue.nr_requests), 256)?,
            device_depth: depth("device.attributes.hw_queue_depth", device_depth, 128)?,
            rotational: number(&about.queue.rotational) == Some(1),
            // A recorder that does not say it attached the scheduler to flash, and may have declared that rotational afterwards.
            at_attach: AtAttach { rotational: Some(about.rotational_at_attach), ..AtAttach::default() },
        };
        let iosched = about.iosched.iter().map(|(k, v)| (k.clone(), plain(v))).collect();
        let (scheduler, kernel, groups) = (about.scheduler, about.kernel, about.groups);
        Ok(Recording { path: path.into(), scheduler, kernel, iosched, setup, groups, rows: Vec::new() })
    }
}

/// Refuses groups of which a replay cannot make tenants.
fn check_groups(path: &Path, groups: &[Group]) -> Result<(), Error> {
    let refused = |what: String| Err(Error::Setting { path: path.to_owned(), what });
    if groups.len() > GROUPS_MAX {
        return refused(format!("{} groups; expected at most {GROUPS_MAX}", groups.len()));
    }
    for (i, group) in groups.iter().enumerate() {
        let name = shown(&group.path);
        if group.path.split('/').count() > NESTING_MAX {
            return refused(format!("group `{name}`: expected at most {NESTING_MAX} groups in one another"));
        }
        if !(1..=Tenant::MAX_WEIGHT).contains(&group.weight) {
            return refused(format!("group `{name}`: weight {}: expected 1 to {}", group.weight, Tenant::MAX_WEIGHT));
        }
        if groups[..i].iter().any(|other| other.path == group.path) {
            return refused(format!("group `{name}` is there twice"));
        }
        if let Some((parent, _)) = group.path.rsplit_once('/')
            && !groups[..i].iter().any(|other| other.path == parent)
        {
            return refused(format!("group `{name}`: expected its parent `{}` before it", shown(parent)));
        }
    }
    Ok(())
}

/// The two files of a recording.
pub(crate) struct Files {
    pub(crate) rows: PathBuf,
    pub(crate) description: PathBuf,
}

impl Files {
    /// The rows' file, to read.
    pub(crate) fn open_rows(&self) -> Result<std::fs::File, Error> {
        std::fs::File::open(&self.rows).map_err(|cause| Error::Io { path: self.rows.clone(), cause })
    }

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

fn read_rows(path: &Path, input: impl Read, groups: &[Group]) -> Result<Vec<Row>, Error> {
    let mut rows: Vec<Row> = Vec::new();
    let mut grouped = false;
    each_line(path, input, &mut |line, text| {
        if line == 1 {
            let found = shown(text);
            let expected = || format!("expected the header `{HEADER}`, found `{found}`");
            grouped = text.strip_prefix(HEADER) == Some(",group");
            return if text == HEADER || grouped { Ok(()) } else { Err(expected()) };
        }
        // The scheduler knows the group by the process.
        let fields = 1 + text.bytes().filter(|byte| *byte == b',').count();
        if grouped && fields != 11 {
            return Err(format!("expected 11 fields, found {fields} in `{}`", shown(text)));
        }
        let text = if grouped { text.rsplit_once(',').map_or(text, |(row, _)| row) } else { text };
        let row = parse_row(text, line, groups)?;
        if row.at < rows.last().map_or(Nanos::ZERO, |last| last.at) {
            return Err("the time goes back; expected rows in the order of their times".into());
        }
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

/// The index of the group that a row's details name.
fn group_in(details: &str, groups: &[Group]) -> Result<u32, String> {
    let path = value_of(details, "group").ok_or_else(|| format!("expected group=PATH, found `{}`", shown(details)))?;
    let index = groups.iter().position(|group| group.path == path);
    index.map(|i| i as u32).ok_or_else(|| format!("group `{}` is not among the `groups` of the JSON", shown(path)))
}

/// The kind of a row by the name of its event and its details.
fn kind_of(event: &str, details: &str, groups: &[Group]) -> Result<RowKind, String> {
    Ok(match event {
        "bio_queue" => RowKind::Arrival,
        "getrq" => RowKind::Allocated,
        "plug" => RowKind::Plug,
        "unplug" => RowKind::Unplug,
        "bio_backmerge" => RowKind::BackMerge,
        "bio_frontmerge" => RowKind::FrontMerge,
        "rq_merge" => {
            let other = details.split(';').find_map(|f| f.trim().strip_prefix("absorbs="));
            let other = other.and_then(|n| n.parse().ok());
            RowKind::Absorb(other.ok_or_else(|| format!("rq_merge without absorbs=N: `{}`", shown(details)))?)
        }
        "rq_insert" => RowKind::Insert,
        "dispatch" => RowKind::Dispatch,
        "dispatch_none" => RowKind::DispatchNone,
        "rq_issue" => RowKind::Issue,
        "rq_complete" => RowKind::Complete,
        "rq_requeue" => RowKind::Requeue,
        "group_weight" => {
            let weight = value_of(details, "weight").and_then(|w| w.parse().ok());
            let weight = weight.filter(|w| (1..=Tenant::MAX_WEIGHT).contains(w));
            let max = Tenant::MAX_WEIGHT;
            let fail = || format!("group_weight without weight=N, N from 1 to {max}: `{}`", shown(details));
            RowKind::GroupWeight { group: group_in(details, groups)?, weight: weight.ok_or_else(fail)? }
        }
        "task_group" => RowKind::TaskMoved(group_in(details, groups)?),
        "task_exit" => RowKind::TaskExited,
        _ => RowKind::Other,
    })
}

/// The flags that a row's details spell as letters.
fn flags_in(details: &str) -> Flags {
    details.chars().fold(Flags::NONE, |flags, letter| {
        flags.with(match letter {
            'S' => Flags::SYNC,
            'A' => Flags::RAHEAD,
            'M' => Flags::META,
            'F' => Flags::FUA,
            _ => Flags::NONE,
        })
    })
}

fn parse_row(text: &str, line: u64, groups: &[Group]) -> Result<Row, String> {
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
    let within = |i: usize, most: u64| match number(i)? {
        n if n <= most => Ok(n),
        n => Err(format!("column {}: {n}; expected at most {most}", i + 1)),
    };
    Ok(Row {
        at: Nanos(within(0, TIME_NS_MAX)?),
        kind: kind_of(fields[1], fields[6], groups)?,
        req: within(2, u64::from(u32::MAX))? as u32,
        // The kernel gives a flush without data a sector of all bits.
        sector: if fields[3] == NO_SECTOR { 0 } else { within(3, SECTOR_MAX)? },
        bytes: within(4, u64::from(u32::MAX))?,
        op: op_of(fields[5]),
        flags: flags_in(fields[6]),
        pid: match fields[7] {
            "" => 0,
            pid => pid.parse().map_err(|_| format!("column 8: expected a process number, found `{}`", shown(pid)))?,
        },
        ioprio: Ioprio(within(8, u64::from(u16::MAX))? as u16),
        cpu: within(9, u64::from(u16::MAX))? as u16,
        line,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{call_by_call, compare, free_running, kernel_order, scheduler_of};
    use dumbwaiter_schedulers::Choice;

    #[test]
    fn rows_without_their_description_are_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let rows = folder.path().join("load.csv");
        std::fs::write(&rows, HEADER).unwrap();
        let said = Recording::open(&rows).err().unwrap().to_string();
        assert!(said.contains("load.json: there is no such file") && said.contains("NAME.json beside"), "{said}");
    }

    /// Replays rows under each of the kernel's schedulers; found by fuzzing.
    fn survives(rows: &[&str]) {
        let text = format!("{HEADER}\n{}\n", rows.join("\n"));
        for scheduler in ["none", "mq-deadline", "kyber", "bfq"] {
            let about = format!(r#"{{"scheduler":"{scheduler}","kernel":"6.12"}}"#);
            let read = Recording::read(Path::new("r.csv"), text.as_bytes(), Path::new("r.json"), about.as_bytes());
            let recording = read.unwrap_or_else(|e| panic!("{scheduler}: {e}"));
            let choice = Choice::parse(&scheduler_of(&recording).unwrap().to_string()).unwrap();
            let make = |setup| choice.scheduler(setup);
            call_by_call(&recording, &make, Some(1));
            compare(&kernel_order(&recording), &free_running(&recording, &make));
        }
    }

    #[test]
    fn a_recording_says_what_the_device_was_when_its_scheduler_was_attached() {
        let at_attach = |more: &str| {
            let about = format!(r#"{{"scheduler":"bfq","kernel":"6.12","queue":{{"rotational":"1"}}{more}}}"#);
            let rows = format!("{HEADER}\n1,getrq,1,8,4096,R,S,12,0,1\n");
            let read = Recording::read(Path::new("r.csv"), rows.as_bytes(), Path::new("r.json"), about.as_bytes());
            read.unwrap().setup.at_attach.rotational
        };
        assert_eq!(at_attach(r#","rotational_at_attach":true"#), Some(true));
        assert_eq!(at_attach(""), Some(false), "recorders that do not say it attach the scheduler to flash");
    }

    #[test]
    fn a_request_may_be_issued_that_was_never_dispatched() {
        survives(&[
            "1,getrq,1,8,4096,R,S,12,0,1",
            "2,rq_insert,1,8,4096,R,S,12,0,1",
            "3,dispatch,2,8,4096,R,S,12,0,1",
            "4,rq_issue,1,8,4096,R,,12,0,1",
            "9,rq_complete,1,8,4096,R,,12,0,1",
        ]);
    }

    #[test]
    fn a_request_may_pass_the_scheduler_by() {
        survives(&[
            "1,getrq,1,8,4096,R,S,12,0,1",
            "3,dispatch,1,8,4096,R,S,12,0,1",
            "4,rq_issue,1,8,4096,R,,12,0,1",
            "9,rq_complete,1,8,4096,R,,12,0,1",
            "10,dispatch_none,,,,,,,,0",
        ]);
    }

    #[test]
    fn rows_out_of_order_and_endless_lines_are_errors() {
        let refused = |rows: &str| {
            let text = format!("{HEADER}\n{rows}");
            let about: &[u8] = br#"{"scheduler":"none","kernel":"6.12"}"#;
            let read = Recording::read(Path::new("r.csv"), text.as_bytes(), Path::new("r.json"), about);
            read.err().map(|e| e.to_string()).unwrap_or_default()
        };
        assert!(refused("2,plug,,,,,,1,,0\n1,plug,,,,,,1,,0\n").contains("the time goes back"));
        assert!(refused(&"0".repeat(3 << 20)).contains("more than 1 MiB"));
        assert!(refused(&format!("{},plug,,,,,,1,,0\n", u64::MAX)).contains("at most"));
    }
}
