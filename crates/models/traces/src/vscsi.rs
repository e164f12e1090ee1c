//! CloudPhysics/VMware vscsi records: little-endian, version 1 of 32 bytes or version 2 of 40 (with the response time),
//! distinguished by the version field. Sectors of 512 bytes, µs.

use std::io;

use dumbwaiter_block::{Nanos, Op};

use super::error::{Error, show};
use super::input::{Input, LOOK_AHEAD_BYTES};
use super::record::{Counts, Event, Known, Record};
use super::record_writer::{Expressible, Lost, RecordWriter, Writing};
use super::table::{ROUNDED, cover};
use super::text::{Opened, Opening, Source};

/// Layout of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// serial u32, length u32, scatter-gather u32, command u16, version u16, LBN u64, µs u64.
    One,
    /// command u16, version u16, serial u32, length u32, scatter-gather u32, LBN u64, µs u64, response µs u64.
    Two,
}

impl Version {
    fn bytes(self) -> usize {
        match self {
            Version::One => 32,
            Version::Two => 40,
        }
    }

    fn command(self, r: &[u8]) -> (u16, u16) {
        let at = if self == Version::One { 12 } else { 0 };
        (u16::from_le_bytes([r[at], r[at + 1]]), u16::from_le_bytes([r[at + 2], r[at + 3]]))
    }
}

/// The version if all of the first records (up to 64) have its mark and a SCSI command of one byte.
pub(crate) fn detect(bytes: &[u8]) -> Option<Version> {
    [(Version::One, 1), (Version::Two, 2)].into_iter().find_map(|(version, mark)| {
        let mut records = bytes.chunks_exact(version.bytes()).take(64).peekable();
        records.peek()?;
        let fits = |r: &[u8]| {
            let (command, v) = version.command(r);
            v >> 8 == mark && command < 0x100 && operation(command).is_some()
        };
        // Some of them may be commands that move no data.
        let (mut good, mut all) = (0, 0);
        for r in records {
            all += 1;
            good += u32::from(fits(r));
        }
        (good * 2 > all).then_some(version)
    })
}

/// The operation of a SCSI command; `None` if it moves no data.
fn operation(command: u16) -> Option<Op> {
    Some(match command {
        0x08 | 0x28 | 0x88 | 0xa8 => Op::Read,
        0x0a | 0x2a | 0x8a | 0xaa | 0x2e | 0x8e | 0xae => Op::Write,
        0x35 | 0x91 => Op::Flush,
        0x42 => Op::Discard,
        0x41 | 0x93 => Op::WriteZeroes,
        _ => return None,
    })
}

/// A vscsi file.
struct Vscsi {
    input: Input,
    version: Version,
    records: u64,
    skipped: Counts,
    rounded: u64,
}

impl Source for Vscsi {
    fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            let mut whole = [0u8; 40];
            let r = &mut whole[..self.version.bytes()];
            if !self.input.record(r, "a vscsi record", self.records)? {
                return Ok(None);
            }
            let (path, at) = (self.input.path(), self.input.offset() - r.len() as u64);
            let (command, version) = self.version.command(r);
            let mark = if self.version == Version::One { 1 } else { 2 };
            if version >> 8 != mark {
                let expected = format!("record version {mark} (0x{mark:02x}00)");
                return Err(Error::bad(path, format!("byte {at}"), format!("0x{version:04x}"), expected));
            }
            self.records += 1;
            let Some(op) = operation(command) else {
                self.skipped.add("SCSI command that moves no data", 1);
                continue;
            };
            let long = |at: usize| u64::from_le_bytes(r[at..at + 8].try_into().expect("eight bytes"));
            let at = if self.version == Version::One { 4 } else { 8 };
            let bytes = u32::from_le_bytes(r[at..at + 4].try_into().expect("four bytes"));
            let mut record = Record::new(op, long(16), 0);
            // Microseconds of any epoch stay below 2^64 ns in this arithmetic modulo 2^64.
            record.time = Nanos(long(24).wrapping_mul(1000));
            if self.version == Version::Two {
                record.latency = Some(Nanos(long(32).saturating_mul(1000))).filter(|l| l.0 > 0);
            }
            let (_, sectors, widened) = cover(0, u64::from(bytes)).expect("a 32-bit length fits");
            record.sectors = sectors;
            self.rounded += u64::from(widened);
            return Ok(Some(Event::Arrive(record)));
        }
    }

    fn skipped(&self) -> Counts {
        self.skipped.clone()
    }

    fn changed(&self) -> Counts {
        Counts::of(ROUNDED, self.rounded)
    }
}

pub(crate) fn open(mut input: Input, _: &Opening) -> Opened {
    let start = input.peek(LOOK_AHEAD_BYTES)?;
    let Some(version) = detect(start) else {
        let shown = show(&start[..start.len().min(32)]);
        return Err(Error::bad(input.path(), "header".into(), shown, "vscsi records of version 1 or 2"));
    };
    let source = Vscsi { input, version, records: 0, skipped: Counts::default(), rounded: 0 };
    Ok((FIELDS, Box::new(source)))
}

const FIELDS: Known = Known { times: true, sizes: true, devices: false, tasks: false };

/// Writes version 2 if the first record has a measured latency, else version 1.
#[derive(Default)]
struct VscsiWriter {
    version: Option<Version>,
    serial: u32,
}

pub(crate) fn writer(_: &mut Vec<u8>, _: Writing) -> io::Result<Box<dyn RecordWriter>> {
    Ok(Box::new(VscsiWriter::default()))
}

impl RecordWriter for VscsiWriter {
    fn expressible(&self) -> Expressible {
        Expressible { fields: FIELDS, measured: true, marks: false, tags: false }
    }

    fn write(
        &mut self,
        out: &mut Vec<u8>,
        record: &Record,
        _: Option<Nanos>,
    ) -> io::Result<Result<Lost, &'static str>> {
        let serial = self.serial;
        self.serial = serial.wrapping_add(1);
        let with = if record.latency.is_some() { Version::Two } else { Version::One };
        let version = *self.version.get_or_insert(with);
        let Ok(bytes) = u32::try_from(record.bytes()) else { return Ok(Err("longer than 4 GiB")) };
        let command: u16 = match record.op {
            Op::Read => 0x28,
            Op::Write => 0x2a,
            Op::Flush => 0x35,
            Op::Discard | Op::SecureErase => 0x42,
            Op::WriteZeroes => 0x41,
        };
        let mark: u16 = if version == Version::One { 0x100 } else { 0x200 };
        let head = [command.to_le_bytes(), mark.to_le_bytes()].concat();
        let counts = [serial.to_le_bytes(), bytes.to_le_bytes(), 1u32.to_le_bytes()].concat();
        match version {
            Version::One => out.extend([counts, head].concat()),
            Version::Two => out.extend([head, counts].concat()),
        }
        out.extend(record.sector.to_le_bytes());
        out.extend((record.time.0 / 1000).to_le_bytes());
        if version == Version::Two {
            out.extend(record.latency.map_or(0, |l| l.0 / 1000).to_le_bytes());
        }
        Ok(Ok(Lost { time: !record.time.0.is_multiple_of(1000), range: false }))
    }
}
