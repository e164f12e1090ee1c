//! Records of a trace, and the events that readers turn into records.

use dumbwaiter_block::{Flags, IoTag, Nanos, Op};

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time of arrival since the first record; non-decreasing.
    pub time: Nanos,
    /// First sector, in units of 512 bytes.
    pub sector: u64,
    /// Measured time from arrival to completion, if the trace has it.
    pub latency: Option<Nanos>,
    /// Measured time from arrival to dispatch (in the scheduler), if the trace has it.
    pub wait: Option<Nanos>,
    /// Length in sectors of 512 bytes; 0 only for a flush.
    pub sectors: u32,
    /// Device, volume or file: the trace's own number, or [`NAMED`] plus the order of first appearance of a name.
    pub device: u32,
    /// Submitting process (its pid, or [`NAMED`] plus the order of first appearance of a name); 0 if unknown.
    pub task: u32,
    /// Request flags: sync, metadata, read-ahead, FUA, preflush.
    pub flags: Flags,
    /// The operation.
    pub op: Op,
    /// The kind of its data in the file system, if the trace says it.
    pub tag: Option<IoTag>,
}

/// Added to the numbers of names, so that they differ from numbers of the trace.
pub const NAMED: u32 = 1 << 31;

impl Record {
    /// A record at time zero of device 0 and task 0 without flags or measured times.
    pub fn new(op: Op, sector: u64, sectors: u32) -> Record {
        Record {
            time: Nanos(0),
            sector,
            latency: None,
            wait: None,
            sectors,
            device: 0,
            task: 0,
            flags: Flags::NONE,
            op,
            tag: None,
        }
    }

    /// The sector after the last one.
    pub fn end(&self) -> u64 {
        self.sector.saturating_add(u64::from(self.sectors))
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.sectors) * dumbwaiter_block::SECTOR_BYTES
    }
}

/// An event of a trace file. Times are raw: nanoseconds of the trace's own clock, modulo 2^64.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A request arrives.
    Arrive(Record),
    /// A range was sent to the device.
    Issue(Span),
    /// A range completed.
    Complete(Span),
}

impl Event {
    /// Raw time of the event.
    pub(crate) fn time(&self) -> u64 {
        match self {
            Event::Arrive(r) => r.time.0,
            Event::Issue(s) | Event::Complete(s) => s.time,
        }
    }
}

/// A range of sectors at a raw time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) time: u64,
    pub(crate) sector: u64,
    pub(crate) sectors: u32,
    pub(crate) device: u32,
}

/// The number of records skipped or changed for one reason.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Skipped {
    /// The reason.
    pub reason: String,
    /// Number of records.
    pub count: u64,
}

/// Counts by reason, in order of first appearance. Reasons are few, so a linear search is cheapest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(Vec<(&'static str, u64)>);

impl Counts {
    pub(crate) fn add(&mut self, reason: &'static str, n: u64) {
        if n == 0 {
            return;
        }
        match self.0.iter_mut().find(|(r, _)| *r == reason) {
            Some((_, count)) => *count += n,
            None => self.0.push((reason, n)),
        }
    }

    pub(crate) fn merge(&mut self, other: &Counts) {
        for (reason, n) in &other.0 {
            self.add(reason, *n);
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(|(_, n)| n).sum()
    }

    pub(crate) fn report(&self) -> Vec<Skipped> {
        self.0.iter().map(|(reason, count)| Skipped { reason: (*reason).to_string(), count: *count }).collect()
    }
}
