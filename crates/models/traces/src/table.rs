//! Reads and writes delimited lines by a list of columns.

use std::collections::BTreeMap;
use std::io::{self, Write};

use dumbwaiter_block::{Flags, IoTag, Nanos, Op, SECTOR_BYTES};

use super::columns::{Column, Columns, Layout, OpStyle};
use super::error::{Error, show};
use super::input::{Input, LOOK_AHEAD_BYTES};
use super::number;
use super::record::{Counts, Event, NAMED, Record};
use super::record_writer::{Expressible, Lost, NO_WORD, RecordWriter, Writing};
use super::text::{Fault, Line, LineParser, Opened, Opening, TextSource, first_lines, header};

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

/// The arrival of `record` with the range from byte `offset`; counts widened ranges in `rounded`.
pub(crate) fn arrival(mut record: Record, offset: u64, bytes: u64, rounded: &mut u64) -> Line {
    match cover(offset, bytes) {
        Ok((sector, sectors, widened)) => {
            (record.sector, record.sectors) = (sector, sectors);
            *rounded += u64::from(widened);
            Line::Event(Event::Arrive(record))
        }
        Err(reason) => Line::Skip(reason),
    }
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
fn fields(line: &[u8], delimiter: u8) -> usize {
    let mut rest = Some(line);
    let mut n = 0;
    while field(&mut rest, delimiter).is_some() {
        n += 1;
    }
    n
}

/// The delimiter that gives a line exactly `want` fields, or at least as many; `prefer` among several.
fn delimiter_of(line: &[u8], want: usize, prefer: u8) -> Option<u8> {
    let all = [prefer, b',', b'\t', b';', b'|', b' '].map(|d| (d, fields(line, d)));
    let exact = all.iter().find(|(_, n)| *n == want);
    exact.or_else(|| all.iter().find(|(_, n)| *n > want)).map(|(d, _)| *d)
}

/// Parsed fields of a line.
struct Fields<'a> {
    record: Record,
    offset: u64,
    bytes: u64,
    gap: u64,
    device: Option<&'a [u8]>,
    host: Option<&'a [u8]>,
}

fn below(text: &[u8], limit: u32) -> Option<u32> {
    number::unsigned32(text).filter(|n| *n < limit)
}

impl Table {
    /// Takes the value of a column; the error is what was expected.
    fn take<'a>(&mut self, column: Column, text: &'a [u8], f: &mut Fields<'a>) -> Result<(), &'static str> {
        let r = &mut f.record;
        match column {
            Column::Skip | Column::Name => {}
            Column::Time(unit) => r.time = Nanos(number::time(text, unit).ok_or("a time")?),
            Column::Gap(unit) => f.gap = number::time(text, unit).ok_or("a time to the next request")?,
            Column::Op(style) => r.op = op(text, style).ok_or(style.expected())?,
            Column::Offset(unit) => f.offset = length(text, unit).ok_or("an offset (a whole number)")?,
            Column::Size(unit) => f.bytes = length(text, unit).ok_or("a size (a whole number)")?,
            Column::Device | Column::Host if text.is_empty() => return Err("a device"),
            Column::Device => f.device = Some(text),
            Column::Host => f.host = Some(text),
            Column::Major => r.device |= below(text, 1 << 12).ok_or("a major device number")? << 20,
            Column::Minor => r.device |= below(text, 1 << 20).ok_or("a minor device number")?,
            Column::Task if text.is_empty() => return Err("a process"),
            Column::Task => r.task = below(text, NAMED).unwrap_or_else(|| self.tasks.number(text)),
            Column::Sync => match text {
                b"S" | b"s" | b"1" => r.flags = r.flags.with(Flags::SYNC),
                b"A" | b"a" | b"0" => {}
                _ => return Err("S or A"),
            },
            Column::Tag => r.tag = tag(text).map_err(|()| "an I/O tag: 0 to 23, or its name")?,
            Column::Latency(unit) => r.latency = measured(text, unit).map_err(|()| "a latency")?,
            Column::Wait(unit) => r.wait = measured(text, unit).map_err(|()| "a waiting time")?,
        }
        Ok(())
    }
}

impl LineParser for Table {
    fn parse(&mut self, line: &[u8]) -> Line {
        if line.starts_with(b"#") {
            return Line::Ignored;
        }
        let bytes = u64::from(self.assumed);
        let mut f = Fields { record: Record::new(Op::Read, 0, 0), offset: 0, bytes, gap: 0, device: None, host: None };
        let mut rest = Some(line);
        for at in 0..self.columns.list.len() {
            let column = self.columns.list[at];
            let Some(text) = field(&mut rest, self.delimiter) else {
                return Fault::line(line, "more fields in the line");
            };
            if column == Column::Name {
                // A name may contain the delimiter: the surplus fields belong to it.
                let left = rest.map_or(0, |r| fields(r, self.delimiter));
                for _ in 0..left.saturating_sub(self.columns.list.len() - at - 1) {
                    field(&mut rest, self.delimiter);
                }
            }
            if let Err(expected) = self.take(column, text, &mut f) {
                return Fault::field(line, text, expected);
            }
        }
        let Fields { mut record, offset, bytes, gap, device, host } = f;
        record.device |= match (device, host) {
            (None, None) => 0,
            (Some(name), None) | (None, Some(name)) => below(name, NAMED).unwrap_or_else(|| self.devices.number(name)),
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
        arrival(record, offset, bytes, &mut self.rounded)
    }

    fn changed(&self) -> Counts {
        Counts::of(ROUNDED, self.rounded)
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
fn op_word(text: &[u8]) -> Option<Op> {
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

/// Opens delimited text.
pub(crate) fn open(mut input: Input, opening: &Opening) -> Opened {
    let layout = opening.layout;
    let list = opening.columns.cloned().or_else(|| layout.map(Layout::list)).expect("delimited formats have columns");
    let start = input.peek(LOOK_AHEAD_BYTES)?;
    let found = delimiter(start, start.len() < LOOK_AHEAD_BYTES, &list, layout.map_or(b',', |l| l.delimiter));
    let Some(delimiter) = found else {
        let shown = show(start.split(|b| *b == b'\n').next().unwrap_or(&[]));
        let expected = format!("{} fields: {list}", list.list.len());
        return Err(Error::bad(input.path(), "line 1".into(), shown, expected));
    };
    let known = list.known();
    let table = Table::new(list, delimiter, layout.is_none_or(|l| l.extra), opening.assumed);
    Ok((known, Box::new(TextSource::new(input, Box::new(table), opening.format))))
}

/// Delimiter for a column list, from the first line that is neither comment nor header.
fn delimiter(start: &[u8], all: bool, columns: &Columns, prefer: u8) -> Option<u8> {
    let lines = first_lines(start, all);
    let mut lines = lines.iter().filter(|l| !l.starts_with(b"#"));
    let first = lines.next()?;
    let line = lines.next().filter(|_| header(first)).unwrap_or(first);
    let want = columns.list.len();
    // A name may contain white space, so the number of fields does not decide.
    let named = columns.has(|c| *c == Column::Name) && fields(line, b' ') >= want;
    if named { Some(b' ') } else { delimiter_of(line, want, prefer) }
}

/// Writes delimited text.
struct TableWriter {
    columns: Columns,
    delimiter: u8,
    /// Fewest decimals of times; `None` for whole numbers.
    decimals: Option<usize>,
}

pub(crate) fn writer(out: &mut Vec<u8>, Writing { columns, layout, .. }: Writing) -> io::Result<Box<dyn RecordWriter>> {
    let columns = columns.expect("delimited formats have columns");
    if let Some(header) = layout.map_or(Some(columns.as_str()), |l| l.header) {
        out.extend(header.as_bytes());
        out.push(b'\n');
    }
    let (delimiter, decimals) = layout.map_or((b',', Some(0)), |l| (l.delimiter, l.decimals));
    Ok(Box::new(TableWriter { columns, delimiter, decimals }))
}

impl RecordWriter for TableWriter {
    fn expressible(&self) -> Expressible {
        Expressible {
            fields: self.columns.known(),
            measured: self.columns.has(|c| matches!(c, Column::Latency(_))),
            marks: false,
            tags: self.columns.has(|c| *c == Column::Tag),
        }
    }

    fn write(
        &mut self,
        out: &mut Vec<u8>,
        record: &Record,
        next: Option<Nanos>,
    ) -> io::Result<Result<Lost, &'static str>> {
        let written = write_line(out, record, next, &self.columns, self.delimiter, self.decimals);
        Ok(written.inspect(|_| out.push(b'\n')))
    }
}

/// Writes a record as a line without its end. `next` is the arrival of the next record.
fn write_line(
    out: &mut Vec<u8>,
    record: &Record,
    next: Option<Nanos>,
    columns: &Columns,
    delimiter: u8,
    decimals: Option<usize>,
) -> Result<Lost, &'static str> {
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
                    return Err(NO_WORD);
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
    Ok(lost)
}

fn put(out: &mut Vec<u8>, n: u64) {
    write!(out, "{n}").expect("a Vec takes every byte");
}
