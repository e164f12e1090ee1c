//! fio iologs. Version 2: `file action` or `file action offset length` in bytes, and `file wait µs` (time since the

use std::io::Write;

use dumbwaiter_block::{Nanos, Op};

use super::number;
use super::record::{Counts, Event, Record};
use super::table::{Names, ROUNDED, cover};
use super::text::{Fault, Line, LineParser};

/// First line of version 2.
pub(crate) const HEAD2: &[u8] = b"fio version 2 iolog";
/// First line of version 3.
pub(crate) const HEAD3: &[u8] = b"fio version 3 iolog";

/// The parser of both versions.
pub(crate) struct Iolog {
    timed: bool,
    files: Names,
    clock: u64,
    rounded: u64,
}

impl Iolog {
    /// `timed`: version 3.
    pub(crate) fn new(timed: bool) -> Iolog {
        Iolog { timed, files: Names::default(), clock: 0, rounded: 0 }
    }
}

impl LineParser for Iolog {
    fn parse(&mut self, line: &[u8]) -> Line {
        if line.starts_with(b"fio version ") {
            let mine = if self.timed { HEAD3 } else { HEAD2 };
            return if line.trim_ascii_end() == mine { Line::Ignored } else { Fault::line(line, "fio version 2 or 3") };
        }
        let mut fields = line.split(u8::is_ascii_whitespace).filter(|f| !f.is_empty());
        let mut next = || fields.next().unwrap_or(&line[line.len()..]);
        if self.timed {
            let text = next();
            match number::time(text, 1000) {
                Some(ns) => self.clock = ns,
                None => return Fault::field(line, text, "a time in µs"),
            }
        }
        let (file, action) = (next(), next());
        let op = match action {
            b"add" | b"open" | b"close" => return Line::Ignored,
            b"wait" if !self.timed => {
                let text = next();
                return match number::time(text, 1000) {
                    Some(ns) => {
                        self.clock = self.clock.wrapping_add(ns);
                        Line::Ignored
                    }
                    None => Fault::field(line, text, "a time to wait in µs"),
                };
            }
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            b"sync" | b"datasync" | b"sync_file_range" => Op::Flush,
            _ => return Fault::field(line, action, "add, open, close, read, write, trim, sync, datasync or wait"),
        };
        let (offset_text, bytes_text) = (next(), next());
        let mut record = Record::new(op, 0, 0);
        record.time = Nanos(self.clock);
        record.device = self.files.number(file);
        if op == Op::Flush {
            return Line::Event(Event::Arrive(record));
        }
        let Some(offset) = number::unsigned(offset_text) else {
            return Fault::field(line, offset_text, "an offset in bytes");
        };
        let Some(bytes) = number::unsigned(bytes_text) else {
            return Fault::field(line, bytes_text, "a length in bytes");
        };
        match cover(offset, bytes) {
            Ok((sector, sectors, widened)) => {
                (record.sector, record.sectors) = (sector, sectors);
                self.rounded += u64::from(widened);
                Line::Event(Event::Arrive(record))
            }
            Err(reason) => Line::Skip(reason),
        }
    }

    fn changed(&self) -> Counts {
        let mut counts = Counts::default();
        counts.add(ROUNDED, self.rounded);
        counts
    }
}

/// Writes the file name of a device.
fn file(out: &mut Vec<u8>, device: u32) {
    write!(out, "/dev/trace{}", device & !super::record::NAMED).expect("a Vec takes every byte");
}

/// State of an iolog writer: the files opened and the time written so far.
#[derive(Default)]
pub(crate) struct IologWriter {
    opened: std::collections::BTreeSet<u32>,
    clock_us: u64,
}

impl IologWriter {
    /// Writes a record; `false` if iologs cannot express its operation.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, record: &Record, timed: bool) -> bool {
        let action = match record.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Discard => "trim",
            Op::Flush => "sync",
            Op::SecureErase | Op::WriteZeroes => return false,
        };
        let us = record.time.0 / 1000;
        let stamp = |out: &mut Vec<u8>| {
            if timed {
                write!(out, "{us} ").expect("a Vec takes every byte");
            }
            file(out, record.device);
        };
        if self.opened.insert(record.device) {
            for verb in [" add\n", " open\n"] {
                stamp(out);
                out.extend(verb.as_bytes());
            }
        }
        if !timed && us > self.clock_us {
            stamp(out);
            writeln!(out, " wait {}", us - self.clock_us).expect("a Vec takes every byte");
            self.clock_us = us;
        }
        stamp(out);
        writeln!(out, " {action} {} {}", record.sector * dumbwaiter_block::SECTOR_BYTES, record.bytes())
            .expect("a Vec takes every byte");
        true
    }

    /// Closes the files.
    pub(crate) fn finish(&self, out: &mut Vec<u8>, timed: bool, last: Nanos) {
        for device in &self.opened {
            if timed {
                write!(out, "{} ", last.0 / 1000).expect("a Vec takes every byte");
            }
            file(out, *device);
            out.extend(b" close\n");
        }
    }
}
