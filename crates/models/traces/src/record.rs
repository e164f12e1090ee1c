//! Records of a trace, and the events that readers turn into records.

use dumbwaiter_block::{Flags, IoTag, Nanos, Op};

use super::error::Error;

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

/// Fields that the records of a trace have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Arrival times; without them all are 0.
    pub times: bool,
    /// Sizes; without them all are [`Options::assume_bytes`](crate::Options::assume_bytes).
    pub sizes: bool,
    /// Device numbers; without them all are 0.
    pub devices: bool,
    /// Processes; without them all are 0.
    pub tasks: bool,
}

impl Known {
    pub(crate) const ALL: Known = Known { times: true, sizes: true, devices: true, tasks: true };

    pub(crate) fn bits(self) -> u32 {
        u32::from(self.times) | u32::from(self.sizes) << 1 | u32::from(self.devices) << 2 | u32::from(self.tasks) << 3
    }

    pub(crate) fn of_bits(bits: u32) -> Known {
        Known { times: bits & 1 != 0, sizes: bits & 2 != 0, devices: bits & 4 != 0, tasks: bits & 8 != 0 }
    }
}

/// The event that counts as the arrival of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arrival {
    /// Q: submitted to the block layer.
    Queue,
    /// I: inserted into the scheduler.
    Insert,
    /// D: sent to the driver.
    Issue,
    /// C: completed.
    Complete,
}

impl Arrival {
    /// The letter of the event in blkparse's text.
    pub fn letter(self) -> char {
        match self {
            Arrival::Queue => 'Q',
            Arrival::Insert => 'I',
            Arrival::Issue => 'D',
            Arrival::Complete => 'C',
        }
    }

    pub(crate) const ALL: [Arrival; 4] = [Arrival::Queue, Arrival::Insert, Arrival::Issue, Arrival::Complete];

    /// Parses the letter of an event.
    pub fn parse(letter: &str) -> Result<Arrival, Error> {
        let all = Arrival::ALL.into_iter();
        all.clone()
            .find(|a| letter.len() == 1 && letter.starts_with(a.letter()))
            .ok_or_else(|| Error::option("arrival", letter, "Q, I, D or C"))
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
    pub(crate) fn of(reason: &'static str, n: u64) -> Counts {
        let mut counts = Counts::default();
        counts.add(reason, n);
        counts
    }

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
