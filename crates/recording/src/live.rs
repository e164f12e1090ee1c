//! Requests of a disk as they happen, for a program that watches for days: few fields, little work per event.
//!
//! The kernel's events go to a trace instance of our own, which the guard removes at the end, on a signal or after a crash.
//! Watching can be paused ([`LiveEvents::watch`]), so that a busy device costs no more than a quiet one.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use dumbwaiter_block::Op;
use dumbwaiter_linux::Error;
use dumbwaiter_linux::file::{names, read, read_some, write};
use dumbwaiter_linux::undo::{Action, Guard};

use crate::event::{Format, Kind};
use crate::pages::records;
use crate::tracefs;

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LiveKind {
    /// A task created it.
    Arrive,
    /// It was sent to the device.
    Issue,
    /// The device finished it.
    Complete,
}

/// One event of a request. The kernel's events name no request: operation and first sector tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveEvent {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// What happened.
    pub kind: LiveKind,
    /// The process that was running; of an arrival, the one that submits.
    pub pid: u32,
    /// Operation.
    pub op: Op,
    /// The kernel marked it as metadata.
    pub meta: bool,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u32,
}

/// Where the fields of one tracepoint are in its records.
#[derive(Clone, Copy, Debug)]
struct Layout {
    kind: LiveKind,
    id: u16,
    pid: usize,
    sector: usize,
    sectors: usize,
    rwbs: (usize, usize),
}

impl Layout {
    fn of(kind: LiveKind, format: &Format) -> Option<Layout> {
        let at = |name: &str, size: usize| format.place(name).filter(|(_, found)| *found == size).map(|(at, _)| at);
        Some(Layout {
            kind,
            id: format.id,
            pid: at("common_pid", 4)?,
            sector: at("sector", 8)?,
            sectors: at("nr_sector", 4)?,
            rwbs: format.place("rwbs")?,
        })
    }

    /// `None` for a record that is cut off, and for what is no read, write, flush or discard.
    fn event(&self, at_ns: u64, data: &[u8]) -> Option<LiveEvent> {
        let word = |at: usize| Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_le_bytes(data.get(at..at + 8)?.try_into().ok()?));
        let rwbs = data.get(self.rwbs.0..self.rwbs.0 + self.rwbs.1)?;
        let letters = rwbs.split(|b| *b == 0).next()?;
        // A leading F is a flush before the operation.
        let op = match (letters.first()?, letters.get(1)) {
            (b'F', Some(b'W')) => b'W',
            (first, _) => *first,
        };
        let op = match op {
            b'R' => Op::Read,
            b'W' => Op::Write,
            b'F' => Op::Flush,
            b'D' => Op::Discard,
            _ => return None,
        };
        Some(LiveEvent {
            at_ns,
            kind: self.kind,
            pid: word(self.pid)?,
            op,
            meta: letters.contains(&b'M'),
            sector: long(self.sector)?,
            sectors: word(self.sectors)?,
        })
    }
}

/// The tracepoints that are watched.
const POINTS: [(LiveKind, Kind, &str); 3] = [
    (LiveKind::Arrive, Kind::Allocated, "block_getrq"),
    (LiveKind::Issue, Kind::Issue, "block_rq_issue"),
    (LiveKind::Complete, Kind::Complete, "block_rq_complete"),
];

/// A trace instance for one disk.
pub struct LiveEvents {
    dir: PathBuf,
    /// `trace_pipe_raw` of each CPU.
    pipes: Vec<PathBuf>,
    layouts: Vec<Layout>,
    page: Vec<u8>,
    lost_before: u64,
    _guard: Guard,
}

impl LiveEvents {
    /// Watches the disk of this number, paused at first. `buffer_kb` is the size of the kernel's buffer for each CPU.
    pub fn new(name: &str, (major, minor): (u32, u32), buffer_kb: u64) -> Result<LiveEvents, Error> {
        let instance = format!("dumbwaiter-{}-{name}", std::process::id());
        let dir = tracefs::root()?.join("instances").join(instance);
        let make = || std::fs::create_dir(&dir).map_err(|e| Error::file("make the trace instance", &dir, e));
        let guard = Guard::new(Action::remove_instance(&dir), make)?;
        let file = |name: &str| dir.join(name);
        write(&file("tracing_on"), "0")?;
        write(&file("trace_clock"), "mono")?;
        write(&file("buffer_size_kb"), &buffer_kb.to_string())?;
        let mut layouts = Vec::new();
        for (kind, format_kind, point) in POINTS {
            let event = dir.join("events/block").join(point);
            let path = event.join("format");
            let format = Format::parse(format_kind, &read(&path)?).and_then(|format| Layout::of(kind, &format));
            layouts.push(format.ok_or_else(|| Error::Refused(format!("{} is not as expected", path.display())))?);
            write(&event.join("filter"), &format!("dev == {}", major << 20 | minor))?;
            write(&event.join("enable"), "1")?;
        }
        let cpus = names(&dir.join("per_cpu"))?;
        let pipes = cpus.iter().map(|cpu| dir.join("per_cpu").join(cpu).join("trace_pipe_raw")).collect();
        let page = tracefs::page_bytes(&read_some(&file("events/header_page")).unwrap_or_default());
        Ok(LiveEvents { dir, pipes, layouts, page: vec![0; page], lost_before: 0, _guard: guard })
    }

    /// Resumes or pauses.
    pub fn watch(&mut self, on: bool) -> Result<(), Error> {
        write(&self.dir.join("tracing_on"), if on { "1" } else { "0" })
    }

    /// Takes what happened since the last call, in order of time, and returns how many events were lost.
    pub fn take(&mut self, into: &mut Vec<LiveEvent>) -> Result<u64, Error> {
        let first = into.len();
        for path in &self.pipes {
            let fail = |e| Error::file("read", path, e);
            // Open only during the call: an instance with open files cannot be removed.
            let mut file =
                std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(fail)?;
            loop {
                let count = match file.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(e) => return Err(fail(e)),
                };
                let layouts = &self.layouts;
                let whole = records(&self.page[..count], &mut |at, data| {
                    let id = data.get(..2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
                    let layout = layouts.iter().find(|layout| layout.id == id);
                    into.extend(layout.and_then(|layout| layout.event(at, data)));
                });
                whole.ok_or_else(|| {
                    Error::Refused(format!("{}: a page of the trace buffer is not as expected", path.display()))
                })?;
            }
        }
        into[first..].sort_by_key(|event| event.at_ns);
        let lost = tracefs::lost(&self.dir)?;
        let more = lost.saturating_sub(self.lost_before);
        self.lost_before = lost;
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: block_rq_issue\nID: 77\nformat:\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n";

    fn record(rwbs: &[u8]) -> Vec<u8> {
        let mut data = vec![0u8; 48];
        data[4..8].copy_from_slice(&42u32.to_le_bytes());
        data[16..24].copy_from_slice(&99u64.to_le_bytes());
        data[24..28].copy_from_slice(&8u32.to_le_bytes());
        data[34..34 + rwbs.len()].copy_from_slice(rwbs);
        data
    }

    #[test]
    fn fields_are_read_where_the_format_puts_them() {
        let layout = Layout::of(LiveKind::Issue, &Format::parse(Kind::Issue, FORMAT).unwrap()).unwrap();
        let event = layout.event(5, &record(b"WSM")).unwrap();
        assert_eq!((event.pid, event.sector, event.sectors, event.op, event.meta), (42, 99, 8, Op::Write, true));
        let ops = [&b"R"[..], b"FWS", b"FF", b"DS", b"N", b""].map(|r| layout.event(0, &record(r)).map(|e| e.op));
        let expected = [Some(Op::Read), Some(Op::Write), Some(Op::Flush), Some(Op::Discard), None, None];
        assert_eq!(ops, expected);
        assert_eq!(layout.event(0, &record(b"R")[..30]), None, "cut off");
    }

    #[test]
    fn a_format_without_a_field_is_refused() {
        let text = FORMAT.replace("sector_t sector", "sector_t elsewhere");
        assert!(Layout::of(LiveKind::Issue, &Format::parse(Kind::Issue, &text).unwrap()).is_none());
    }
}
