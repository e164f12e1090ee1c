//! Text traces: reads events with a line parser and counts the lines that do not parse.

use super::columns::{Columns, Layout};
use super::error::{Error, show};
use super::input::Input;
use super::record::{Arrival, Counts, Event, Known};

/// The result of parsing a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Line {
    /// An event.
    Event(Event),
    /// Well-formed without an event: a header, a plug, a summary.
    Ignored,
    /// Well-formed but not a usable request; the reason is counted.
    Skip(&'static str),
    /// Not of this format: the bytes of the line at fault, and what was expected.
    Bad(Fault),
}

/// A part of a line that does not parse.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) from: usize,
    pub(crate) len: usize,
    pub(crate) expected: &'static str,
}

impl Fault {
    /// A fault of the whole line.
    pub(crate) fn line(line: &[u8], expected: &'static str) -> Line {
        Line::Bad(Fault { from: 0, len: line.len(), expected })
    }

    /// A fault of one field, a slice of `line`.
    pub(crate) fn field(line: &[u8], field: &[u8], expected: &'static str) -> Line {
        let from = (field.as_ptr() as usize).saturating_sub(line.as_ptr() as usize).min(line.len());
        Line::Bad(Fault { from, len: field.len(), expected })
    }

    pub(crate) fn value<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        let from = self.from.min(line.len());
        &line[from..(from + self.len).min(line.len())]
    }
}

/// Parses the lines of one format.
pub(crate) trait LineParser: Send {
    /// Parses a line without its end. Lines come in order.
    fn parse(&mut self, line: &[u8]) -> Line;

    /// Records changed, by reason, for the end of the file.
    fn changed(&self) -> Counts {
        Counts::default()
    }

    /// The number of a device, or of a process, that the lines so far call by this name.
    fn named(&self, what: Named, name: &[u8]) -> Option<u32> {
        let _ = (what, name);
        None
    }
}

/// What has names in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Device,
    Task,
}

/// A source of events: one file of a trace.
pub(crate) trait Source: Send {
    /// The next event in the order of the file.
    fn next(&mut self) -> Result<Option<Event>, Error>;

    /// Records skipped so far, by reason.
    fn skipped(&self) -> Counts;

    /// Records changed so far, by reason.
    fn changed(&self) -> Counts {
        Counts::default()
    }

    /// The first line that was left out although it may be a request, and why.
    fn example(&self) -> Option<String> {
        None
    }

    /// As [`LineParser::named`].
    fn named(&self, what: Named, name: &[u8]) -> Option<u32> {
        let _ = (what, name);
        None
    }
}

/// Description of a file for the reader of a format.
pub(crate) struct Opening<'a> {
    /// Name of the format.
    pub(crate) format: &'static str,
    /// Layout of the format, and the columns given instead of it.
    pub(crate) layout: Option<&'static Layout>,
    pub(crate) columns: Option<&'a Columns>,
    pub(crate) arrival: Arrival,
    /// Size of requests without one, in bytes.
    pub(crate) assumed: u32,
}

/// The reader of a file, and the fields that its records have.
pub(crate) type Opened = Result<(Known, Box<dyn Source>), Error>;

/// Bad lines after which a file with fewer good lines is refused.
const BAD_LINES_MAX: u64 = 64;
/// The reason counted for lines that do not parse.
pub(crate) const MALFORMED: &str = "line does not parse";

/// A text trace.
pub(crate) struct TextSource {
    input: Input,
    parser: Box<dyn LineParser>,
    format: &'static str,
    line: u64,
    good: u64,
    first_bad: Option<(u64, String, &'static str)>,
    bad: u64,
    skipped: Counts,
    example: Option<String>,
}

impl TextSource {
    pub(crate) fn new(input: Input, parser: Box<dyn LineParser>, format: &'static str) -> TextSource {
        TextSource {
            input,
            parser,
            format,
            line: 0,
            good: 0,
            first_bad: None,
            bad: 0,
            skipped: Counts::default(),
            example: None,
        }
    }

    fn mostly_bad(&self) -> Error {
        let (line, value, expected) = self.first_bad.clone().expect("only called after a bad line");
        Error::Mostly {
            path: self.input.path().to_path_buf(),
            format: self.format.to_string(),
            bad: self.bad,
            seen: self.good + self.bad,
            line,
            value,
            expected,
        }
    }
}

impl Source for TextSource {
    fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            self.line += 1;
            let Some(line) = self.input.line(self.line)? else {
                if self.bad > self.good {
                    return Err(self.mostly_bad());
                }
                return Ok(None);
            };
            if no_output(line) {
                continue;
            }
            match self.parser.parse(line) {
                Line::Event(event) => {
                    self.good += 1;
                    return Ok(Some(event));
                }
                Line::Ignored => self.good += 1,
                Line::Skip(reason) => {
                    self.good += 1;
                    if self.example.is_none() {
                        self.example = Some(format!("line {}: {}", self.line, show(line)));
                    }
                    self.skipped.add(reason, 1);
                }
                Line::Bad(fault) => {
                    // A first line of words is a header.
                    if self.good == 0 && self.bad == 0 && header(line) {
                        continue;
                    }
                    if self.example.is_none() {
                        let found = show(fault.value(line));
                        let (number, expected) = (self.line, fault.expected);
                        let found = if fault.len < line.len() { format!(" has {found}") } else { String::new() };
                        let line = show(line);
                        self.example = Some(format!("line {number}: {line}{found} where {expected} is expected"));
                    }
                    if self.first_bad.is_none() {
                        self.first_bad = Some((self.line, show(fault.value(line)), fault.expected));
                    }
                    self.bad += 1;
                    self.skipped.add(MALFORMED, 1);
                    if self.bad > BAD_LINES_MAX && self.bad > self.good {
                        return Err(self.mostly_bad());
                    }
                }
            }
        }
    }

    fn skipped(&self) -> Counts {
        self.skipped.clone()
    }

    fn changed(&self) -> Counts {
        self.parser.changed()
    }

    fn example(&self) -> Option<String> {
        self.example.clone()
    }

    fn named(&self, what: Named, name: &[u8]) -> Option<u32> {
        self.parser.named(what, name)
    }
}

/// Whether a line is nothing that a tool printed: blank, a prompt with its command, an interrupt.
pub(crate) fn no_output(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    let Some(first) = text.first() else { return true };
    let prompt = match first {
        b'$' => text.starts_with(b"$ "),
        // user@host:~$ or [root@host ~]#
        first if first.is_ascii_alphabetic() || *first == b'[' => {
            let end = text.windows(2).position(|w| w == b"$ " || w == b"# ");
            end.is_some_and(|end| end < PROMPT_BYTES_MAX && text[..end].contains(&b'@'))
        }
        _ => false,
    };
    prompt || text == b"^C"
}

/// Longest prompt that is recognised.
const PROMPT_BYTES_MAX: usize = 80;

/// Lines at the start of a file, without a truncated last one unless the start is `all` of the file.
pub(crate) fn first_lines(start: &[u8], all: bool) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = start.split(|b| *b == b'\n').collect();
    if !all {
        lines.pop();
    }
    let trim = |l: &'_ [u8]| l.iter().rposition(|b| !matches!(b, 0 | b'\r')).map_or(0, |p| p + 1);
    let mut lines: Vec<&[u8]> = lines.into_iter().map(|l| &l[..trim(l)]).collect();
    lines.retain(|l| !l.iter().all(u8::is_ascii_whitespace));
    lines
}

/// Whether a line is a header of column names, a `#` comment or what bpftrace says first: printable, and no field starts with a
/// digit.
pub(crate) fn header(line: &[u8]) -> bool {
    let printable = line.iter().all(|b| (b' '..=b'~').contains(b) || *b == b'\t');
    let mut fields = line.split(|b| matches!(b, b',' | b';' | b'\t' | b' ' | b'|')).filter(|f| !f.is_empty());
    printable
        && (line.starts_with(b"#")
            || line.starts_with(b"Attaching ")
            || line.starts_with(b"[") && line.windows(3).any(|w| w == b"] [")
            || fields.all(|f| f[0].is_ascii_alphabetic() || matches!(f[0], b'_' | b'"' | b'(')))
}
