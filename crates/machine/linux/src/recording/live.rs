//! Requests of a disk as they happen, for a program that watches for days: few fields, little work per event.
//!
//! The kernel's events go to a trace instance of our own, which the guard removes at the end, on a signal or after a crash.
//! Watching can be paused ([`LiveEvents::watch`]), so that a busy device costs no more than a quiet one.

use crate::Error;
use dumbwaiter_block::Op;

use crate::recording::event::{Format, Kind};
use crate::recording::live_instance::{LiveInstance, id_of};

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
    /// The kind of event.
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
    (LiveKind::Arrive, Kind::Allocated, "block/block_getrq"),
    (LiveKind::Issue, Kind::Issue, "block/block_rq_issue"),
    (LiveKind::Complete, Kind::Complete, "block/block_rq_complete"),
];

/// A trace instance for one disk.
pub struct LiveEvents {
    instance: LiveInstance,
    layouts: Vec<Layout>,
}

impl LiveEvents {
    /// Watches the disk of this number, paused at first. `buffer_kb` is the size of the kernel's buffer for each CPU.
    pub fn new(name: &str, device: (u32, u32), buffer_kb: u64) -> Result<LiveEvents, Error> {
        let instance = LiveInstance::new(name, buffer_kb)?;
        let add = |(kind, format, point)| instance.add((format, point), device, |format| Layout::of(kind, format));
        let layouts = POINTS.into_iter().map(add).collect::<Result<_, _>>()?;
        Ok(LiveEvents { instance, layouts })
    }

    /// Resumes or pauses.
    pub fn watch(&mut self, on: bool) -> Result<(), Error> {
        self.instance.watch(on)
    }

    /// Takes what happened since the last call, in order of time, and returns how many events were lost.
    pub fn take(&mut self, into: &mut Vec<LiveEvent>) -> Result<u64, Error> {
        let (first, layouts) = (into.len(), &self.layouts);
        let lost = self.instance.take(&mut |at, data| {
            let layout = layouts.iter().find(|layout| layout.id == id_of(data));
            into.extend(layout.and_then(|layout| layout.event(at, data)));
        })?;
        into[first..].sort_by_key(|event| event.at_ns);
        Ok(lost)
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
