//! Reads and writes delimited lines by a list of columns.

use std::collections::BTreeMap;
use std::io::{self, Write};

use dumbwaiter_block::{Flags, IoTag, Nanos, Op, SECTOR_BYTES};

use super::columns::{self, Column, Columns, Layout};
use super::error::{Error, show};
use super::input::{Input, LOOK_AHEAD_BYTES};
use super::number;
use super::operation::{op, op_text};
use super::record::{Arrival, Counts, Event, NAMED, Record, Span};
use super::record_writer::{Expressible, Lost, NO_WORD, RecordWriter, Writing};
use super::text::{Fault, Line, LineParser, Named, Opened, Opening, TextSource, first_lines, header, no_output};

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
    /// The number of a name that appeared.
    pub(crate) fn of(&self, name: &[u8]) -> Option<u32> {
        self.numbers.get(name).copied()
    }

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
    /// The event that counts as the arrival, of columns with events.
    arrival: Arrival,
    devices: Names,
    tasks: Names,
    /// Current time of traces with gaps instead of times.
    clock: u64,
    /// The last time of day, and the midnights before it.
    last_clock: u64,
    days: u64,
    rounded: u64,
}

impl Table {
    pub(crate) fn new(columns: Columns, delimiter: u8, extra: bool, assumed: u32) -> Table {
        Table {
            columns,
            delimiter,
            extra,
            assumed,
            arrival: Arrival::Queue,
            devices: Names::default(),
            tasks: Names::default(),
            clock: 0,
            last_clock: 0,
            days: 0,
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

/// Whether a column of this name can have the value.
pub(crate) fn takes(name: &str, value: &[u8]) -> bool {
    let Some(column) = columns::named(name) else { return false };
    let list = Columns::parse("op,lba").expect("a list");
    let mut fields = Fields::new(ASSUMED_BYTES);
    let taken = Table::new(list, b',', true, ASSUMED_BYTES).take(column, value, &mut fields).is_ok();
    let most = u64::from(SECTORS_MAX) * SECTOR_BYTES;
    taken && fields.bytes <= most && fields.offset <= u64::MAX - 2 * most
}

/// Whether an `event` of this value counts as a request's arrival.
pub(crate) fn is_event(value: &[u8]) -> bool {
    Happening::of(value) != Happening::Other
}

/// Parsed fields of a line.
struct Fields<'a> {
    record: Record,
    offset: u64,
    bytes: u64,
    gap: u64,
    completed: Option<u64>,
    service: Option<Nanos>,
    event: Option<Happening>,
    device: Option<&'a [u8]>,
    host: Option<&'a [u8]>,
}

impl Fields<'_> {
    fn new(assumed: u32) -> Self {
        Fields {
            record: Record::new(Op::Read, 0, 0),
            offset: 0,
            bytes: u64::from(assumed),
            gap: 0,
            completed: None,
            service: None,
            event: None,
            device: None,
            host: None,
        }
    }

    /// Latency of the parts that were measured, and the arrival of a request of which the completion is known.
    fn complete(&mut self, timed: bool) {
        let r = &mut self.record;
        if let (None, Some(service)) = (r.latency, self.service) {
            r.latency = Some(Nanos(r.wait.unwrap_or_default().0.saturating_add(service.0)));
        }
        match (self.completed, r.latency) {
            (Some(completed), None) if timed => r.latency = completed.checked_sub(r.time.0).map(Nanos),
            (Some(completed), latency) if !timed => {
                r.time = Nanos(completed.wrapping_sub(latency.unwrap_or_default().0));
            }
            _ => {}
        }
        // A preflush without data is a flush, with any letters; so is a write of nothing at an address of all ones.
        let nowhere = self.offset == u64::MAX || self.offset == u64::from(u32::MAX) * SECTOR_BYTES;
        if self.bytes == 0 && (r.flags.has(Flags::PREFLUSH) || nowhere && r.op == Op::Write) {
            (r.op, r.flags) = (Op::Flush, r.flags.without(Flags::PREFLUSH));
        }
    }
}

/// What a line with an event tells of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happening {
    /// One of the events that may count as its arrival.
    Seen(Arrival),
    /// Something else: a merge, a plug.
    Other,
}

impl Happening {
    fn of(text: &[u8]) -> Happening {
        let name = text.rsplit(|b| *b == b':').next().unwrap_or(text);
        let is = |words: &[&str]| words.iter().any(|word| name.eq_ignore_ascii_case(word.as_bytes()));
        let words: [(Arrival, &[&str]); 4] = [
            (Arrival::Queue, &["Q", "queue", "queued", "submit", "block_bio_queue"]),
            (Arrival::Insert, &["I", "insert", "inserted", "block_rq_insert"]),
            (
                Arrival::Issue,
                &["D", "issue", "issued", "dispatch", "start", "begin", "block_rq_issue", "block_io_start"],
            ),
            (
                Arrival::Complete,
                &["C", "complete", "completed", "completion", "done", "end", "block_rq_complete", "block_io_done"],
            ),
        ];
        words.iter().find(|(_, words)| is(words)).map_or(Happening::Other, |(event, _)| Happening::Seen(*event))
    }
}

fn below(text: &[u8], limit: u32) -> Option<u32> {
    number::unsigned32(text).filter(|n| *n < limit)
}

impl Table {
    /// A time in units of `unit` ns, or one of a clock, which a day after midnight goes on.
    fn time(&mut self, text: &[u8], unit: u64) -> Option<u64> {
        if let Some(ns) = number::time(text, unit) {
            return Some(ns);
        }
        let (ns, dated) = number::clock(text)?;
        if dated {
            return Some(ns);
        }
        let half = number::DAY_NS / 2;
        // Around midnight the times of a line may be of two days.
        let before = self.days > 0 && ns > self.last_clock + half;
        if !before {
            self.days += u64::from(ns + half < self.last_clock);
            self.last_clock = ns;
        }
        Some(ns.wrapping_add((self.days - u64::from(before)).wrapping_mul(number::DAY_NS)))
    }

    /// Takes the value of a column; the error is what was expected.
    fn take<'a>(&mut self, column: Column, text: &'a [u8], f: &mut Fields<'a>) -> Result<(), &'static str> {
        let r = &mut f.record;
        match column {
            Column::Skip | Column::Name => {}
            Column::Time(unit) => r.time = Nanos(self.time(text, unit).ok_or("a time")?),
            Column::Gap(unit) => f.gap = number::time(text, unit).ok_or("a time to the next request")?,
            Column::Op(style) => {
                let (op, flags) = op(text, style).ok_or(style.expected())?;
                (r.op, r.flags) = (op, r.flags.with(flags));
            }
            Column::Event => f.event = Some(Happening::of(text)),
            Column::Completed(unit) => f.completed = Some(self.time(text, unit).ok_or("a time")?),
            Column::Service(unit) => f.service = measured(text, unit).map_err(|()| "a latency")?,
            // Tools print an address of all ones for a flush.
            Column::Offset(_) if matches!(text, b"-1" | b"18446744073709551615") => f.offset = u64::MAX,
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

impl Table {
    /// The values of a line, or what it is instead.
    fn fields<'a>(&mut self, line: &'a [u8]) -> Result<Fields<'a>, Line> {
        let mut f = Fields::new(self.assumed);
        let mut rest = Some(line);
        for at in 0..self.columns.list.len() {
            let column = self.columns.list[at];
            let Some(text) = field(&mut rest, self.delimiter) else {
                return Err(Fault::line(line, "more fields in the line"));
            };
            if column == Column::Name {
                // A name may contain the delimiter: the surplus fields belong to it.
                let left = rest.map_or(0, |r| fields(r, self.delimiter));
                for _ in 0..left.saturating_sub(self.columns.list.len() - at - 1) {
                    field(&mut rest, self.delimiter);
                }
            }
            self.take(column, text, &mut f).map_err(|expected| Fault::field(line, text, expected))?;
        }
        f.record.device |= match (f.device, f.host) {
            (None, None) => 0,
            (Some(name), None) | (None, Some(name)) => below(name, NAMED).unwrap_or_else(|| self.devices.number(name)),
            // Every format with both has them next to each other, so one slice names both.
            (Some(device), Some(host)) => self.devices.number(between(line, device, host)),
        };
        if !self.extra {
            while let Some(text) = field(&mut rest, self.delimiter) {
                if !text.is_empty() {
                    return Err(Fault::field(line, text, "the end of the line"));
                }
            }
        }
        f.complete(self.columns.has(|c| matches!(c, Column::Time(_) | Column::Gap(_))));
        Ok(f)
    }

    /// The event of a line, of columns with events.
    fn event_of(&mut self, line: &[u8]) -> Option<Arrival> {
        match self.fields(line).ok()?.event? {
            Happening::Seen(event) => Some(event),
            Happening::Other => None,
        }
    }
}

impl LineParser for Table {
    fn named(&self, what: Named, name: &[u8]) -> Option<u32> {
        match what {
            Named::Device => self.devices.of(name),
            Named::Task => self.tasks.of(name),
        }
    }

    fn parse(&mut self, line: &[u8]) -> Line {
        if line.starts_with(b"#") {
            return Line::Ignored;
        }
        let Fields { mut record, offset, bytes, gap, event, .. } = match self.fields(line) {
            Ok(fields) => fields,
            Err(line) => return line,
        };
        if event == Some(Happening::Other) {
            return Line::Ignored;
        }
        if self.columns.has(|c| matches!(c, Column::Gap(_))) {
            record.time = Nanos(self.clock);
            self.clock = self.clock.wrapping_add(gap);
        }
        let offset = if record.op == Op::Flush { 0 } else { offset };
        match (arrival(record, offset, bytes, &mut self.rounded), event) {
            (Line::Event(Event::Arrive(record)), Some(Happening::Seen(event))) if event != self.arrival => {
                let Record { sector, sectors, device, .. } = record;
                let span = Span { time: record.time.0, sector, sectors, device };
                match event {
                    Arrival::Issue => Line::Event(Event::Issue(span)),
                    Arrival::Complete => Line::Event(Event::Complete(span)),
                    Arrival::Queue | Arrival::Insert => Line::Ignored,
                }
            }
            (line, _) => line,
        }
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
    let table = Table { arrival: opening.arrival, ..table };
    Ok((known, Box::new(TextSource::new(input, Box::new(table), opening.format))))
}

/// The events in the start (or `all`) of a file with these columns.
pub(crate) fn arrivals(start: &[u8], all: bool, columns: &Columns) -> Vec<Arrival> {
    let Some(delimiter) = delimiter(start, all, columns, b',') else { return Vec::new() };
    let mut table = Table::new(columns.clone(), delimiter, true, ASSUMED_BYTES);
    first_lines(start, all).iter().filter_map(|line| table.event_of(line)).collect()
}

/// Delimiter for a column list, from the first line that has its columns and is neither comment nor header.
fn delimiter(start: &[u8], all: bool, columns: &Columns, prefer: u8) -> Option<u8> {
    let want = columns.list.len();
    // A name may contain white space, so the number of fields does not decide.
    let named = columns.has(|c| *c == Column::Name);
    let of =
        |line: &&[u8]| if named && fields(line, b' ') >= want { Some(b' ') } else { delimiter_of(line, want, prefer) };
    let lines = first_lines(start, all);
    let mut data = lines.iter().filter(|line| !no_output(line) && !header(line));
    data.find_map(of).or_else(|| lines.iter().find(|line| !line.starts_with(b"#")).and_then(of))
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
            Column::Completed(unit) => {
                let latency = record.latency.unwrap_or_default();
                time(out, record.time.0.saturating_add(latency.0), unit);
            }
            Column::Service(unit) => match (record.latency, record.wait) {
                (Some(latency), wait) => time(out, latency.0.saturating_sub(wait.unwrap_or_default().0), unit),
                (None, _) => out.extend(b"-1"),
            },
            Column::Event => out.push(b'Q'),
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
