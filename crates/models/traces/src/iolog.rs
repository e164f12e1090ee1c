//! fio iologs. Version 2: `file action` or `file action offset length` in bytes, and `file wait µs` (time since the

use std::collections::BTreeSet;
use std::io::{self, Write};

use dumbwaiter_block::{Nanos, Op, SECTOR_BYTES};

use super::input::Input;
use super::number;
use super::record::{Counts, Event, Known, NAMED, Record};
use super::record_writer::{Expressible, Lost, NO_WORD, RecordWriter};
use super::table::{Names, ROUNDED, arrival};
use super::text::{Fault, Line, LineParser, Opened, Opening, TextSource};

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
        arrival(record, offset, bytes, &mut self.rounded)
    }

    fn changed(&self) -> Counts {
        Counts::of(ROUNDED, self.rounded)
    }
}

/// Writes the file name of a device.
fn file(out: &mut Vec<u8>, device: u32) -> io::Result<()> {
    write!(out, "/dev/trace{}", device & !NAMED)
}

pub(crate) fn open(input: Input, opening: &Opening, timed: bool) -> Opened {
    let source = TextSource::new(input, Box::new(Iolog::new(timed)), opening.format);
    Ok((Known { tasks: false, ..Known::ALL }, Box::new(source)))
}

/// Writes an iolog: the files opened and the time written so far.
struct IologWriter {
    timed: bool,
    opened: BTreeSet<u32>,
    clock_us: u64,
}

pub(crate) fn writer(out: &mut Vec<u8>, timed: bool) -> io::Result<Box<dyn RecordWriter>> {
    out.extend(if timed { HEAD3 } else { HEAD2 });
    out.push(b'\n');
    Ok(Box::new(IologWriter { timed, opened: BTreeSet::new(), clock_us: 0 }))
}

impl RecordWriter for IologWriter {
    fn expressible(&self) -> Expressible {
        Expressible { fields: Known { tasks: false, ..Known::ALL }, measured: false, marks: false, tags: false }
    }

    fn write(
        &mut self,
        out: &mut Vec<u8>,
        record: &Record,
        _: Option<Nanos>,
    ) -> io::Result<Result<Lost, &'static str>> {
        let action = match record.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Discard => "trim",
            Op::Flush => "sync",
            Op::SecureErase | Op::WriteZeroes => return Ok(Err(NO_WORD)),
        };
        let (timed, us) = (self.timed, record.time.0 / 1000);
        let stamp = |out: &mut Vec<u8>| {
            if timed {
                write!(out, "{us} ")?;
            }
            file(out, record.device)
        };
        if self.opened.insert(record.device) {
            for verb in [" add\n", " open\n"] {
                stamp(out)?;
                out.extend(verb.as_bytes());
            }
        }
        if !timed && us > self.clock_us {
            stamp(out)?;
            writeln!(out, " wait {}", us - self.clock_us)?;
            self.clock_us = us;
        }
        stamp(out)?;
        writeln!(out, " {action} {} {}", record.sector * SECTOR_BYTES, record.bytes())?;
        Ok(Ok(Lost { time: !record.time.0.is_multiple_of(1000), range: false }))
    }

    /// Closes the files.
    fn finish(&mut self, out: &mut Vec<u8>, last: Nanos) -> io::Result<()> {
        for device in &self.opened {
            if self.timed {
                write!(out, "{} ", last.0 / 1000)?;
            }
            file(out, *device)?;
            out.extend(b" close\n");
        }
        Ok(())
    }
}
