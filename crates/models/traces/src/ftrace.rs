//! Text of the kernel's block tracepoints: `trace_pipe` and `trace` of tracefs, `trace-cmd report`, `perf script`.
//!
//! ```text
//!  fio-1234    [001] d..1.  1234.567890: block_rq_issue: 8,0 R 4096 () 9096 + 8 [fio]
//!  fio  1234 [001]  1234.567890: block:block_rq_complete: 8,0 R () 9096 + 8 [0]
//! ```
//!
//! The events are those of blkparse, and arrivals are chosen and paired as there.

use dumbwaiter_block::{Flags, Op};

use super::blkparse::{NO_DATA, NO_SECTOR, arrive, device};
use super::input::Input;
use super::number;
use super::operation::rwbs;
use super::record::{Arrival, Event, Known, Span};
use super::table::TOO_LONG;
use super::text::{Fault, Line, LineParser, Opened, Opening, TextSource, first_lines};

/// Tracepoints, with the event of blkparse that they are. The others are of no request, or of one that has another.
const EVENTS: [(&[u8], Arrival); 4] = [
    (b"block_bio_queue", Arrival::Queue),
    (b"block_rq_insert", Arrival::Insert),
    (b"block_rq_issue", Arrival::Issue),
    (b"block_rq_complete", Arrival::Complete),
];

/// The line parser.
pub(crate) struct Ftrace {
    arrival: Arrival,
}

impl Ftrace {
    pub(crate) fn new(arrival: Arrival) -> Ftrace {
        Ftrace { arrival }
    }
}

pub(crate) fn open(input: Input, opening: &Opening) -> Opened {
    let parser = Box::new(Ftrace::new(opening.arrival));
    Ok((Known::ALL, Box::new(TextSource::new(input, parser, opening.format))))
}

/// The arrival events in the lines of `start`, the start or `all` of a file.
pub(crate) fn arrivals(start: &[u8], all: bool) -> Vec<Arrival> {
    first_lines(start, all).iter().filter_map(|line| event_of(split(line)?.name)).collect()
}

fn event_of(name: &[u8]) -> Option<Arrival> {
    EVENTS.iter().find(|(event, _)| *event == name).map(|(_, event)| *event)
}

/// Whether a line is a tracepoint of the block layer, used or not.
pub(crate) fn is_event(line: &[u8]) -> bool {
    split(line).is_some()
}

/// The parts of a line.
struct Parts<'a> {
    /// Process, CPU and flags.
    before: &'a [u8],
    seconds: &'a [u8],
    name: &'a [u8],
    body: &'a [u8],
}

/// Splits `process [cpu] flags seconds: name: body`.
fn split(line: &[u8]) -> Option<Parts<'_>> {
    let mut from = 0;
    loop {
        let at = from + line[from..].windows(6).position(|w| w == b"block_")?;
        let end = at + line[at..].iter().position(|b| *b == b':' || b.is_ascii_whitespace())?;
        let head = line[..at].strip_suffix(b"block:").unwrap_or(&line[..at]).trim_ascii_end();
        from = end;
        let Some(head) = head.strip_suffix(b":").filter(|_| line[end] == b':') else { continue };
        let start = head.iter().rposition(u8::is_ascii_whitespace).map_or(0, |p| p + 1);
        if number::time(&head[start..], 1_000_000_000).is_none() {
            continue;
        }
        let (before, seconds) = head.split_at(start);
        return Some(Parts { before, seconds, name: &line[at..end], body: &line[end + 1..] });
    }
}

/// The process in `fio-1234 [001]`, `fio-1234 (1200) [001]`, `fio 1234 [001]` or `fio 1234/1235 [001]`.
fn process(before: &[u8]) -> u32 {
    let cut = |text: &'_ [u8], open: u8| text.iter().rposition(|b| *b == open).unwrap_or(text.len());
    let text = &before[..cut(before, b'[')];
    let text = if text.trim_ascii_end().ends_with(b")") { &text[..cut(text, b'(')] } else { text };
    let word = text.trim_ascii_end().rsplit(u8::is_ascii_whitespace).next().unwrap_or(b"");
    let word = word.split(|b| *b == b'/').next_back().unwrap_or(word);
    let digits = word.iter().rposition(|b| !b.is_ascii_digit()).map_or(0, |p| p + 1);
    number::unsigned32(&word[digits..]).unwrap_or(0)
}

/// First sector and sectors: the numbers around a plus.
fn extent(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut fields = body.split(u8::is_ascii_whitespace).filter(|f| !f.is_empty());
    let mut last: &[u8] = b"";
    while let Some(field) = fields.next() {
        if field == b"+" {
            return fields.next().map(|sectors| (last, sectors));
        }
        last = field;
    }
    None
}

impl LineParser for Ftrace {
    fn parse(&mut self, line: &[u8]) -> Line {
        let Some(Parts { before, seconds, name, body }) = split(line) else {
            // Headers of tracefs, other events, and perf's call chains.
            let text = line.trim_ascii_start();
            let chain = text.len() < line.len() && text.first().is_some_and(u8::is_ascii_hexdigit);
            let other = line.windows(2).any(|w| w == b": ") || line.starts_with(b"CPU:") || line.starts_with(b"cpus=");
            return match text.starts_with(b"#") || chain || other {
                true => Line::Ignored,
                false => Fault::line(line, "an event of the block layer such as block_rq_issue"),
            };
        };
        let Some(event) = event_of(name) else { return Line::Ignored };
        let Some(time) = number::time(seconds, 1_000_000_000) else {
            return Fault::field(line, seconds, "a time in seconds");
        };
        let mut fields = body.split(u8::is_ascii_whitespace).filter(|f| !f.is_empty());
        let (device_text, word) = (fields.next().unwrap_or(b""), fields.next().unwrap_or(b""));
        let Some(device) = device(device_text) else {
            return Fault::field(line, device_text, "a device as major,minor");
        };
        let arrives = event == self.arrival;
        let left_out = |reason| if arrives { Line::Skip(reason) } else { Line::Ignored };
        let Some((op, flags)) = rwbs(word) else { return left_out(NO_DATA) };
        let Some((sector, sectors)) = extent(body) else { return left_out(NO_SECTOR) };
        let (Some(sector), Some(sectors)) = (number::unsigned(sector), number::unsigned(sectors)) else {
            return Fault::line(line, "a sector, a plus and a count of sectors");
        };
        let Ok(sectors) = u32::try_from(sectors) else { return left_out(TOO_LONG) };
        let span = Span { time, sector, sectors, device };
        if arrives {
            let op = if sectors == 0 && flags.has(Flags::PREFLUSH) { Op::Flush } else { op };
            return Line::Event(arrive(op, flags, process(before), span));
        }
        match event {
            Arrival::Issue => Line::Event(Event::Issue(span)),
            Arrival::Complete => Line::Event(Event::Complete(span)),
            Arrival::Queue | Arrival::Insert => Line::Ignored,
        }
    }
}
