//! Reads and writes delimited lines by a list of columns.

use std::collections::BTreeMap;
use std::io::Write;

use dumbwaiter_block::{Flags, IoTag, Nanos, Op, SECTOR_BYTES};

use super::columns::{Column, Columns, OpStyle};
use super::number;
use super::record::{Counts, Event, NAMED, Record};
use super::text::{Fault, Line, LineParser};

/// Default size of the records of a trace without sizes, bytes.
pub(crate) const ASSUMED_BYTES: u32 = 4096;
/// Most distinct names of devices or tasks; further ones share the last number.
const NAMES_MAX: usize = 1 << 16;

pub(crate) const TOO_LONG: &str = "longer than 1 GiB";
/// Longest request that a trace may contain, in sectors: 1 GiB. Block layers split far shorter ones.
pub(crate) const SECTORS_MAX: u32 = 1 << 21;
pub(crate) const ROUNDED: &str = "widened to whole 512-byte sectors";

/// Numbers names in order of first appearance.
#[derive(Default)]
pub(crate) struct Names {
    numbers: BTreeMap<Vec<u8>, u32>,
    /// The last name and its number: lines of one device come in runs.
    last: Vec<u8>,
    last_number: u32,
}

impl Names {
    pub(crate) fn number(&mut self, name: &[u8]) -> u32 {
        if self.last_number != 0 && self.last == name {
            return self.last_number;
        }
        let n = match self.numbers.get(name) {
            Some(n) => *n,
            None => {
                let n = NAMED | self.numbers.len().min(NAMES_MAX) as u32;
                if self.numbers.len() < NAMES_MAX {
                    self.numbers.insert(name.to_vec(), n);
                }
                n
            }
        };
        self.last.clear();
        self.last.extend_from_slice(name);
        self.last_number = n;
        n
    }
}

/// First sector and sectors that cover a byte range, and whether they exceed the range.
pub(crate) fn cover(offset: u64, bytes: u64) -> Result<(u64, u32, bool), &'static str> {
    let sector = offset / SECTOR_BYTES;
    let end = offset.checked_add(bytes).ok_or("offset over 64 bits")?.div_ceil(SECTOR_BYTES);
    let sectors = u32::try_from(end - sector).map_err(|_| TOO_LONG)?;
    Ok((sector, sectors, !offset.is_multiple_of(SECTOR_BYTES) || !bytes.is_multiple_of(SECTOR_BYTES)))
}

/// A parser of delimited lines.
pub(crate) struct Table {
    columns: Columns,
    /// Field delimiter; a space stands for any white space.
    delimiter: u8,
    /// Whether further fields after the last column are allowed.
    extra: bool,
    assumed: u32,
    devices: Names,
    tasks: Names,
    /// Current time of traces with gaps instead of times.
    clock: u64,
    rounded: u64,
}

impl Table {
    pub(crate) fn new(columns: Columns, delimiter: u8, extra: bool, assumed: u32) -> Table {
        Table {
            columns,
            delimiter,
            extra,
            assumed,
            devices: Names::default(),
            tasks: Names::default(),
            clock: 0,
            rounded: 0,
        }
    }
}

/// The next field of `rest`, trimmed; `None` at the end.
fn field<'a>(rest: &mut Option<&'a [u8]>, delimiter: u8) -> Option<&'a [u8]> {
    let text = (*rest)?;
    if delimiter != b' ' {
        let end = text.iter().position(|b| *b == delimiter);
        *rest = end.map(|e| &text[e + 1..]);
        return Some(unquote(text[..end.unwrap_or(text.len())].trim_ascii()));
    }
    let text = text.trim_ascii_start();
    if text.is_empty() {
        *rest = None;
        return None;
    }
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    *rest = Some(&text[end..]);
    Some(&text[..end])
}

fn unquote(field: &[u8]) -> &[u8] {
    match field {
        [b'"', inner @ .., b'"'] => inner,
        _ => field,
    }
}

/// Number of fields of a line with this delimiter.
pub(crate) fn fields(line: &[u8], delimiter: u8) -> usize {
    let mut rest = Some(line);
    let mut n = 0;
    while field(&mut rest, delimiter).is_some() {
        n += 1;
    }
    n
}

/// The delimiter that gives a line exactly `want` fields, or at least as many; `prefer` among several.
pub(crate) fn delimiter_of(line: &[u8], want: usize, prefer: u8) -> Option<u8> {
    let all = [prefer, b',', b'\t', b';', b'|', b' '].map(|d| (d, fields(line, d)));
    let exact = all.iter().find(|(_, n)| *n == want);
    exact.or_else(|| all.iter().find(|(_, n)| *n > want)).map(|(d, _)| *d)
}

impl LineParser for Table {
    /// Long because it has one arm for each kind of column.
    fn parse(&mut self, line: &[u8]) -> Line {
        if line.starts_with(b"#") {
            return Line::Ignored;
        }
        let mut record = Record::new(Op::Read, 0, 0);
        let mut rest = Some(line);
        let (mut offset, mut bytes) = (0u64, u64::from(self.assumed));
        let mut gap = 0;
        let (mut device, mut host) = (None, None);
        let mut at = 0;
        while at < self.columns.list.len() {
            let column = self.columns.list[at];
            at += 1;
            let Some(text) = field(&mut rest, self.delimiter) else {
                return Fault::line(line, "more fields in the line");
            };
            match column {
                Column::Skip => {}
                Column::Name => {
                    // A name may contain the delimiter: the surplus fields belong to it.
                    let left = rest.map_or(0, |r| fields(r, self.delimiter));
                    for _ in 0..left.saturating_sub(self.columns.list.len() - at) {
                        field(&mut rest, self.delimiter);
                    }
                }
                Column::Time(unit) => match number::time(text, unit) {
                    Some(ns) => record.time = Nanos(ns),
                    None => return Fault::field(line, text, "a time"),
                },
                Column::Gap(unit) => match number::time(text, unit) {
                    Some(ns) => gap = ns,
                    None => return Fault::field(line, text, "a time to the next request"),
                },
                Column::Op(style) => match op(text, style) {
                    Some(op) => record.op = op,
                    None => return Fault::field(line, text, style.expected()),
                },
                Column::Offset(unit) => match length(text, unit) {
                    Some(n) => offset = n,
                    None => return Fault::field(line, text, "an offset (a whole number)"),
                },
                Column::Size(unit) => match length(text, unit) {
                    Some(n) => bytes = n,
                    None => return Fault::field(line, text, "a size (a whole number)"),
                },
                Column::Device | Column::Host if text.is_empty() => return Fault::field(line, text, "a device"),
                Column::Device => device = Some(text),
                Column::Host => host = Some(text),
                Column::Major => match number::unsigned32(text) {
                    Some(n) if n < 1 << 12 => record.device |= n << 20,
                    _ => return Fault::field(line, text, "a major device number"),
                },
                Column::Minor => match number::unsigned32(text) {
                    Some(n) if n < 1 << 20 => record.device |= n,
                    _ => return Fault::field(line, text, "a minor device number"),
                },
                Column::Task => match number::unsigned32(text) {
                    _ if text.is_empty() => return Fault::field(line, text, "a process"),
                    Some(n) if n < NAMED => record.task = n,
                    _ => record.task = self.tasks.number(text),
                },
                Column::Sync => match text {
                    b"S" | b"s" | b"1" => record.flags = record.flags.with(Flags::SYNC),
                    b"A" | b"a" | b"0" => {}
                    _ => return Fault::field(line, text, "S or A"),
                },
                Column::Tag => match tag(text) {
                    Ok(tag) => record.tag = tag,
                    Err(()) => return Fault::field(line, text, "an I/O tag: 0 to 23, or its name"),
                },
                Column::Latency(unit) => match measured(text, unit) {
                    Ok(ns) => record.latency = ns,
                    Err(()) => return Fault::field(line, text, "a latency"),
                },
                Column::Wait(unit) => match measured(text, unit) {
                    Ok(ns) => record.wait = ns,
                    Err(()) => return Fault::field(line, text, "a waiting time"),
                },
            }
        }
        record.device |= match (device, host) {
            (None, None) => 0,
            (Some(name), None) | (None, Some(name)) => match number::unsigned32(name) {
                Some(n) if n < NAMED => n,
                _ => self.devices.number(name),
            },
            // Every format with both has them next to each other, so one slice names both.
            (Some(device), Some(host)) => self.devices.number(between(line, device, host)),
        };
        if !self.extra {
            while let Some(text) = field(&mut rest, self.delimiter) {
                if !text.is_empty() {
                    return Fault::field(line, text, "the end of the line");
                }
            }
        }
        if self.columns.has(|c| matches!(c, Column::Gap(_))) {
            record.time = Nanos(self.clock);
            self.clock = self.clock.wrapping_add(gap);
        }
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

/// The part of `line` from one of its fields to another.
fn between<'a>(line: &'a [u8], one: &[u8], other: &[u8]) -> &'a [u8] {
    let at = |field: &[u8]| (field.as_ptr() as usize).wrapping_sub(line.as_ptr() as usize);
    let (from, to) = (at(one).min(at(other)), (at(one) + one.len()).max(at(other) + other.len()));
    line.get(from..to).unwrap_or(line)
}

fn length(text: &[u8], unit: u64) -> Option<u64> {
    match number::unsigned(text) {
        Some(n) => n.checked_mul(unit),
        // Some tools write whole numbers with a decimal point.
        None => text.strip_suffix(b".0").and_then(number::unsigned)?.checked_mul(unit),
    }
}

/// A measured time; empty, `-` or negative if not measured.
fn measured(text: &[u8], unit: u64) -> Result<Option<Nanos>, ()> {
    match text {
        b"" | b"-" => Ok(None),
        [b'-', ..] => number::time(text, unit).map(|_| None).ok_or(()),
        _ => number::time(text, unit).map(|ns| Some(Nanos(ns))).ok_or(()),
    }
}

/// An I/O tag; empty or `-` where there is none.
fn tag(text: &[u8]) -> Result<Option<IoTag>, ()> {
    match text {
        b"" | b"-" => Ok(None),
        _ => std::str::from_utf8(text).ok().and_then(IoTag::parse).map(Some).ok_or(()),
    }
}

impl OpStyle {
    fn expected(self) -> &'static str {
        match self {
            OpStyle::Letter | OpStyle::Lower | OpStyle::Word => "an operation (read, write, discard, flush, …)",
            OpStyle::ReadIsOne => "1 (read) or 0 (write)",
            OpStyle::WriteIsOne => "0 (read) or 1 (write)",
            OpStyle::HexFlags => "hexadecimal flags",
        }
    }
}

/// An operation as a letter or a word, in any case.
pub(crate) fn op_word(text: &[u8]) -> Option<Op> {
    let is = |words: &[&str]| words.iter().any(|w| text.eq_ignore_ascii_case(w.as_bytes()));
    let all: [(&[&str], Op); 6] = [
        (&["r", "read", "rd", "rs"], Op::Read),
        (&["w", "write", "wr", "ws"], Op::Write),
        (&["d", "t", "discard", "trim", "unmap"], Op::Discard),
        (&["f", "flush", "sync", "fsync", "datasync", "fdatasync"], Op::Flush),
        (&["e", "secure-erase"], Op::SecureErase),
        (&["z", "wz", "write-zeroes"], Op::WriteZeroes),
    ];
    all.iter().find(|(words, _)| is(words)).map(|(_, op)| *op)
}

fn op(text: &[u8], style: OpStyle) -> Option<Op> {
    match style {
        OpStyle::Letter | OpStyle::Lower | OpStyle::Word => op_word(text),
        OpStyle::ReadIsOne | OpStyle::WriteIsOne => match (text, style) {
            (b"1", OpStyle::ReadIsOne) | (b"0", OpStyle::WriteIsOne) => Some(Op::Read),
            (b"0", OpStyle::ReadIsOne) | (b"1", OpStyle::WriteIsOne) => Some(Op::Write),
            _ => None,
        },
        OpStyle::HexFlags => number::hex(text).map(|f| if f & 1 == 1 { Op::Read } else { Op::Write }),
    }
}

/// The notation of an operation in a style; `None` if the style cannot express it.
fn op_text(op: Op, style: OpStyle) -> Option<&'static str> {
    let letters = |read, write, discard, flush, erase, zeroes| match op {
        Op::Read => read,
        Op::Write => write,
        Op::Discard => discard,
        Op::Flush => flush,
        Op::SecureErase => erase,
        Op::WriteZeroes => zeroes,
    };
    match style {
        OpStyle::Letter => Some(letters("R", "W", "D", "F", "E", "Z")),
        OpStyle::Lower => Some(letters("r", "w", "d", "f", "e", "z")),
        OpStyle::Word => Some(letters("Read", "Write", "Discard", "Flush", "secure-erase", "write-zeroes")),
        OpStyle::ReadIsOne | OpStyle::HexFlags if op == Op::Read => Some("1"),
        OpStyle::ReadIsOne | OpStyle::HexFlags if op == Op::Write => Some("0"),
        OpStyle::WriteIsOne if op == Op::Read => Some("0"),
        OpStyle::WriteIsOne if op == Op::Write => Some("1"),
        _ => None,
    }
}

/// Information lost in a written line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lost {
    /// The format cannot express the operation: nothing was written.
    pub(crate) op: bool,
    /// The time was truncated to the column's unit.
    pub(crate) time: bool,
    /// The range was widened to the column's unit.
    pub(crate) range: bool,
}

/// Writes a record as a line without its end. `next` is the arrival of the next record.
pub(crate) fn write_line(
    out: &mut Vec<u8>,
    record: &Record,
    next: Option<Nanos>,
    columns: &Columns,
    delimiter: u8,
    decimals: Option<usize>,
) -> Lost {
    let mut lost = Lost::default();
    let start = out.len();
    let start_byte = record.sector.saturating_mul(SECTOR_BYTES);
    for (i, column) in columns.list.iter().enumerate() {
        if i > 0 {
            out.push(delimiter);
        }
        let mut time = |out: &mut Vec<u8>, ns: u64, unit: u64| match decimals {
            Some(places) if unit > 1 => number::write_time(out, ns, unit, places),
            _ => {
                lost.time |= !ns.is_multiple_of(unit);
                number::write_time(out, ns - ns % unit, unit, 0);
            }
        };
        match *column {
            Column::Time(unit) => time(out, record.time.0, unit),
            Column::Gap(unit) => time(out, next.map_or(0, |n| n.0.saturating_sub(record.time.0)), unit),
            Column::Latency(unit) => match record.latency {
                Some(ns) => time(out, ns.0, unit),
                None => out.extend(b"-1"),
            },
            Column::Wait(unit) => match record.wait {
                Some(ns) => time(out, ns.0, unit),
                None => out.extend(b"-1"),
            },
            Column::Op(style) => match op_text(record.op, style) {
                Some(text) => out.extend(text.as_bytes()),
                None => {
                    out.truncate(start);
                    lost.op = true;
                    return lost;
                }
            },
            Column::Offset(unit) => {
                lost.range |= !start_byte.is_multiple_of(unit);
                put(out, start_byte / unit);
            }
            Column::Size(unit) => {
                let end = start_byte.saturating_add(record.bytes());
                lost.range |= !record.bytes().is_multiple_of(unit);
                put(out, end.div_ceil(unit) - start_byte / unit);
            }
            Column::Device => put(out, u64::from(record.device & !NAMED)),
            Column::Host => out.extend(if record.device & NAMED == 0 { b"host".as_slice() } else { b"named" }),
            Column::Major => put(out, u64::from(record.device >> 20)),
            Column::Minor => put(out, u64::from(record.device & 0xf_ffff)),
            Column::Task => put(out, u64::from(record.task & !NAMED)),
            Column::Sync => out.push(if record.flags.has(Flags::SYNC) { b'S' } else { b'A' }),
            Column::Tag => match record.tag {
                Some(tag) => put(out, u64::from(tag.code())),
                None => out.push(b'-'),
            },
            Column::Name => out.push(b'-'),
            Column::Skip => out.push(b'0'),
        }
    }
    lost
}

fn put(out: &mut Vec<u8>, n: u64) {
    write!(out, "{n}").expect("a Vec takes every byte");
}
