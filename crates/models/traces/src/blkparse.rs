//! Text of `blkparse` (default line): `major,minor cpu seq seconds pid action RWBS sector + sectors [process]`.
//!
//! Arrivals are Q events if there are any, else I, D or C. D and C of a range give the measured times of the arrivals
//! inside it. An event before time zero is printed with a time that wrapped at 64 bits, at the end of the file; a first
//! pass over the file collects such lines, and they are read first.

use std::collections::BTreeMap;
use std::io::{self, Write};

use dumbwaiter_block::{Flags, Nanos, Op};

use super::error::Error;
use super::input::Input;
use super::number;
use super::operation::rwbs;
use super::record::{Arrival, Counts, Event, Known, Record, Span};
use super::record_writer::{Expressible, Lost, RecordWriter, Writing};
use super::table::TOO_LONG;
use super::text::{Fault, Line, LineParser, MALFORMED, Opened, Opening, Source, TextSource, first_lines};

pub(crate) const NO_SECTOR: &str = "no sector (packet command)";
pub(crate) const NO_DATA: &str = "neither data nor flush";
/// 2^64 ns as blkparse prints it: whole seconds in 32 bits.
const WRAP_SECONDS: u64 = 1_266_874_889;
const WRAP_NS: u64 = 1_266_874_889_709_551_616;
/// Longest negative time that is recognised, s: 15 minutes.
const WRAP_SPAN: u64 = 900;
/// Most lines before time zero that are kept, and their greatest length in bytes.
const EARLY_LINES_MAX: usize = 1 << 16;
const EARLY_LINE_BYTES_MAX: usize = 512;

/// Whether a time has wrapped.
fn wrapped(ns: u64) -> bool {
    (WRAP_SECONDS - WRAP_SPAN..=WRAP_SECONDS).contains(&(ns / 1_000_000_000)) && ns < WRAP_NS
}

/// Whether `seconds`, the time of a line of `line_bytes`, has wrapped and the line is kept for reading first. Nearly every
/// line fails the cheap test of the first digits. The first pass and the parser must agree, or a record is lost.
#[inline]
fn kept_early(seconds: &[u8], line_bytes: usize) -> bool {
    let zeros = seconds.iter().take_while(|b| **b == b'0').count();
    line_bytes <= EARLY_LINE_BYTES_MAX
        && seconds[zeros..].starts_with(b"126687")
        && number::time(seconds, 1_000_000_000).is_some_and(wrapped)
}

/// Reads `input` to its end and returns the lines whose times wrapped.
fn early_lines(mut input: Input) -> Result<Vec<Vec<u8>>, Error> {
    let mut found = Vec::new();
    let mut number = 0;
    while let Some(line) = {
        number += 1;
        input.line(number)?
    } {
        let seconds = line.split(u8::is_ascii_whitespace).filter(|f| !f.is_empty()).nth(3);
        if seconds.is_some_and(|s| kept_early(s, line.len())) && found.len() < EARLY_LINES_MAX {
            found.push(line.to_vec());
        }
    }
    Ok(found)
}

/// The line parser.
pub(crate) struct Blkparse {
    arrival: Arrival,
    /// `early` lines with wrapped times were already read: skip them in the file.
    early: usize,
}

impl Blkparse {
    pub(crate) fn new(arrival: Arrival, early: usize) -> Blkparse {
        Blkparse { arrival, early }
    }
}

/// The arrival events in the lines of `start`, the start or `all` of a file.
pub(crate) fn arrivals(start: &[u8], all: bool) -> Vec<Arrival> {
    let action = |line: &&[u8]| {
        let letter = line.split(u8::is_ascii_whitespace).filter(|f| !f.is_empty()).nth(5)?;
        Arrival::parse(std::str::from_utf8(letter).ok()?).ok()
    };
    first_lines(start, all).iter().filter_map(action).collect()
}

pub(crate) fn open(input: Input, opening: &Opening) -> Opened {
    let mut early = Vec::new();
    if input.rereadable() {
        early = early_lines(Input::open(input.path())?)?;
    }
    let rest = TextSource::new(input, Box::new(Blkparse::new(opening.arrival, early.len())), opening.format);
    let all = EarlyFirst::new(&early, opening.arrival, rest);
    Ok((Known::ALL, Box::new(all)))
}

/// Events before time zero, which are at the end of the file, followed by the file.
struct EarlyFirst {
    early: std::vec::IntoIter<Event>,
    skipped: Counts,
    rest: TextSource,
}

impl EarlyFirst {
    fn new(lines: &[Vec<u8>], arrival: Arrival, rest: TextSource) -> EarlyFirst {
        let mut parser = Blkparse::new(arrival, 0);
        let (mut events, mut skipped) = (Vec::new(), Counts::default());
        for line in lines {
            match parser.parse(line) {
                Line::Event(event) => events.push(event),
                Line::Skip(reason) => skipped.add(reason, 1),
                Line::Bad(_) => skipped.add(MALFORMED, 1),
                Line::Ignored => {}
            }
        }
        events.sort_by_key(|e| e.time() as i64);
        EarlyFirst { early: events.into_iter(), skipped, rest }
    }
}

impl Source for EarlyFirst {
    fn next(&mut self) -> Result<Option<Event>, Error> {
        match self.early.next() {
            Some(event) => Ok(Some(event)),
            None => self.rest.next(),
        }
    }

    fn example(&self) -> Option<String> {
        self.rest.example()
    }

    fn skipped(&self) -> Counts {
        let mut all = self.rest.skipped();
        all.merge(&self.skipped);
        all
    }

    fn changed(&self) -> Counts {
        self.rest.changed()
    }
}

/// Starts of the lines of the summary after the events.
const SUMMARY: [&[u8]; 18] = [
    b"CPU",
    b"Total",
    b"Reads",
    b"Writes",
    b"Read ",
    b"Write ",
    b"IO unplugs",
    b"PC ",
    b"Throughput",
    b"Events",
    b"Skips",
    b"Queue",
    b"Timer",
    b"Allocations",
    b"Dispatches",
    b"Input file",
    b"Merges",
    b"Completed",
];

/// A device number, `major,minor`.
#[inline]
pub(crate) fn device(text: &[u8]) -> Option<u32> {
    let comma = text.iter().position(|b| *b == b',')?;
    let major = number::unsigned32(&text[..comma]).filter(|n| *n < 1 << 12)?;
    let minor = number::unsigned32(&text[comma + 1..]).filter(|n| *n < 1 << 20)?;
    Some(major << 20 | minor)
}

/// Whether blkparse prints this event.
#[inline]
fn is_action(text: &[u8]) -> bool {
    match text {
        [letter] => b"QIDCABFGMPRSTUXm".contains(letter),
        text => text == b"UT",
    }
}

/// First sector and sectors from the fields that `next` returns, 0 where there are none; else the line is skipped or wrong.
#[inline]
fn extent<'a>(line: &'a [u8], mut next: impl FnMut() -> &'a [u8], arrives: bool) -> Result<(u64, u32), Line> {
    let sector_text = next();
    let Some(sector) = number::unsigned(sector_text) else {
        let none = sector_text.is_empty() || sector_text[0] == b'[' || sector_text[0] == b'(';
        return if none { Ok((0, 0)) } else { Err(Fault::field(line, sector_text, "a sector number")) };
    };
    let plus = next();
    if plus == b"+" {
        let text = next();
        match number::unsigned(text).map(u32::try_from) {
            Some(Ok(sectors)) => Ok((sector, sectors)),
            Some(Err(_)) => Err(Line::Skip(TOO_LONG)),
            None => Err(Fault::field(line, text, "a count of sectors")),
        }
    } else if plus.starts_with(b"(") {
        Err(if arrives { Line::Skip(NO_SECTOR) } else { Line::Ignored })
    } else if plus.is_empty() || plus.starts_with(b"[") {
        Ok((0, 0))
    } else {
        Err(Fault::field(line, plus, "+ and a count of sectors"))
    }
}

impl LineParser for Blkparse {
    fn parse(&mut self, line: &[u8]) -> Line {
        let mut rest = line;
        let mut next = || {
            let text = rest.trim_ascii_start();
            let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
            rest = &text[end..];
            &text[..end]
        };
        let device_text = next();
        let Some(device) = device(device_text) else {
            let text = line.trim_ascii_start();
            if SUMMARY.iter().any(|s| text.starts_with(s)) {
                return Line::Ignored;
            }
            return Fault::field(line, device_text, "a device as major,minor");
        };
        let (cpu, sequence, seconds) = (next(), next(), next());
        if number::unsigned(cpu).is_none() {
            return Fault::field(line, cpu, "a CPU number");
        }
        if number::unsigned(sequence).is_none() {
            return Fault::field(line, sequence, "a sequence number");
        }
        let Some(mut time) = number::time(seconds, 1_000_000_000) else {
            return Fault::field(line, seconds, "a time in seconds");
        };
        if wrapped(time) {
            if self.early > 0 && kept_early(seconds, line.len()) {
                self.early -= 1;
                return Line::Ignored;
            }
            time = time.wrapping_sub(WRAP_NS);
        }
        let (pid_text, action) = (next(), next());
        let Some(pid) = number::unsigned32(pid_text) else {
            return Fault::field(line, pid_text, "a process number");
        };
        if !is_action(action) {
            return Fault::field(line, action, "an event letter such as Q, I, D or C");
        }
        if !matches!(action, b"Q" | b"I" | b"D" | b"C") {
            return Line::Ignored;
        }
        let arrives = action[0] == self.arrival.letter() as u8;
        let word = next();
        let Some((op, flags)) = rwbs(word) else {
            if word.is_empty() || !word.iter().all(u8::is_ascii_alphabetic) {
                return Fault::field(line, word, "an operation such as R, WS or FWFS");
            }
            return if arrives { Line::Skip(NO_DATA) } else { Line::Ignored };
        };
        let (sector, sectors) = match extent(line, next, arrives) {
            Ok(extent) => extent,
            Err(line) => return line,
        };
        let span = Span { time, sector, sectors, device };
        if !arrives {
            return match action[0] {
                b'D' => Line::Event(Event::Issue(span)),
                b'C' => Line::Event(Event::Complete(span)),
                _ => Line::Ignored,
            };
        }
        // A preflush without data is a flush, with any letters.
        let op = if sectors == 0 && flags.has(Flags::PREFLUSH) { Op::Flush } else { op };
        Line::Event(arrive(op, flags, pid, span))
    }
}

/// The event of an arrival.
pub(crate) fn arrive(op: Op, flags: Flags, pid: u32, span: Span) -> Event {
    let mut record = Record::new(op, span.sector, span.sectors);
    record.time = Nanos(span.time);
    record.device = span.device;
    record.task = pid;
    record.flags = flags;
    Event::Arrive(record)
}

/// Pending D and C events by time and order, with their requests.
type Later = BTreeMap<(u64, u64), (char, Record)>;

/// Writes Q events, and the D and C events of measured times among them.
#[derive(Default)]
struct BlkparseWriter {
    sequence: u64,
    later: Later,
}

pub(crate) fn writer(_: &mut Vec<u8>, _: Writing) -> io::Result<Box<dyn RecordWriter>> {
    Ok(Box::new(BlkparseWriter::default()))
}

impl BlkparseWriter {
    /// Writes the D and C events before `now`.
    fn later_lines(&mut self, out: &mut Vec<u8>, now: u64) -> io::Result<()> {
        while let Some(first) = self.later.first_entry()
            && first.key().0 < now
        {
            let ((time, _), (event, record)) = first.remove_entry();
            self.sequence += 1;
            write_line(out, &record, self.sequence, event, Nanos(time))?;
        }
        Ok(())
    }
}

impl RecordWriter for BlkparseWriter {
    fn expressible(&self) -> Expressible {
        Expressible { fields: Known::ALL, measured: true, marks: true, tags: false }
    }

    fn write(&mut self, out: &mut Vec<u8>, r: &Record, _: Option<Nanos>) -> io::Result<Result<Lost, &'static str>> {
        self.later_lines(out, r.time.0)?;
        self.sequence += 1;
        write_line(out, r, self.sequence, 'Q', r.time)?;
        let times = [('D', r.wait), ('C', r.latency)];
        for (event, after) in times.into_iter().filter_map(|(e, t)| Some((e, t?))).filter(|_| r.sectors > 0) {
            // At equal times D comes before C.
            let order = self.sequence << 1 | u64::from(event == 'C');
            self.later.insert((r.time.0.saturating_add(after.0), order), (event, *r));
        }
        Ok(Ok(Lost::default()))
    }

    fn finish(&mut self, out: &mut Vec<u8>, _: Nanos) -> io::Result<()> {
        self.later_lines(out, u64::MAX)
    }
}

/// Writes the line of an event of a record.
fn write_line(out: &mut Vec<u8>, record: &Record, sequence: u64, event: char, time: Nanos) -> io::Result<()> {
    let mut rwbs = Vec::with_capacity(8);
    if record.flags.has(Flags::PREFLUSH) || record.op == Op::Flush {
        rwbs.push(b'F');
    }
    rwbs.extend_from_slice(match record.op {
        Op::Read => b"R",
        Op::Write => b"W",
        Op::Flush => b"N",
        Op::Discard => b"D",
        Op::SecureErase => b"DE",
        Op::WriteZeroes => b"WZ",
    });
    let marks = [(Flags::FUA, b'F'), (Flags::RAHEAD, b'A'), (Flags::SYNC, b'S'), (Flags::META, b'M')];
    rwbs.extend(marks.iter().filter(|(f, _)| record.flags.has(*f)).map(|(_, letter)| *letter));
    let rwbs = std::str::from_utf8(&rwbs).expect("letters only");
    let (major, minor) = (record.device >> 20, record.device & 0xf_ffff);
    let (s, ns) = (time.0 / 1_000_000_000, time.0 % 1_000_000_000);
    write!(out, "{major:3},{minor:<3} {:2} {sequence:8} {s:5}.{ns:09} {:5}  {event} {rwbs:>3} ", 0, record.task)?;
    if record.sectors > 0 {
        write!(out, "{} + {} ", record.sector, record.sectors)?;
    }
    out.extend_from_slice(b"[0]\n");
    Ok(())
}
