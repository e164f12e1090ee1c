//! Text traces: a line parser in, events out, with lines that do not parse counted and judged.

use super::error::{Error, show};
use super::input::Input;
use super::record::{Counts, Event};

/// What a line is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Line {
    /// Something happened.
    Event(Event),
    /// Well-formed, and nothing to tell: a header, a plug, a summary.
    Ignored,
    /// Well-formed, but no request that can be used; the reason is counted.
    Skip(&'static str),
    /// Not of this format: which bytes of the line, and what was expected there.
    Bad(Fault),
}

/// A place in a line that is not as expected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) from: usize,
    pub(crate) len: usize,
    pub(crate) expected: &'static str,
}

impl Fault {
    /// The whole line is wrong.
    pub(crate) fn line(line: &[u8], expected: &'static str) -> Line {
        Line::Bad(Fault { from: 0, len: line.len(), expected })
    }

    /// One field (a slice of `line`) is wrong.
    pub(crate) fn field(line: &[u8], field: &[u8], expected: &'static str) -> Line {
        let from = (field.as_ptr() as usize).saturating_sub(line.as_ptr() as usize).min(line.len());
        Line::Bad(Fault { from, len: field.len(), expected })
    }

    pub(crate) fn value<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        let from = self.from.min(line.len());
        &line[from..(from + self.len).min(line.len())]
    }
}

/// Understands the lines of one format.
pub(crate) trait LineParser: Send {
    /// What is this line? Its end is cut off. Lines come in order.
    fn parse(&mut self, line: &[u8]) -> Line;

    /// What to tell about the whole at the end: counts of records that were changed.
    fn changed(&self) -> Counts {
        Counts::default()
    }
}

/// Reads events; the side of a file that the merge sees.
pub(crate) trait Source: Send {
    /// The next event in file order.
    fn next(&mut self) -> Result<Option<Event>, Error>;

    /// Records left out so far, by reason.
    fn skipped(&self) -> Counts;

    /// Records changed so far, by reason.
    fn changed(&self) -> Counts {
        Counts::default()
    }
}

/// Bad lines after which a file with fewer good ones is given up.
const PATIENCE: u64 = 64;
/// Reason under which lines that do not parse are counted.
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
}

impl TextSource {
    pub(crate) fn new(input: Input, parser: Box<dyn LineParser>, format: &'static str) -> TextSource {
        TextSource { input, parser, format, line: 0, good: 0, first_bad: None, bad: 0, skipped: Counts::default() }
    }

    fn mostly(&self) -> Error {
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
                    return Err(self.mostly());
                }
                return Ok(None);
            };
            if line.iter().all(u8::is_ascii_whitespace) {
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
                    self.skipped.add(reason, 1);
                }
                Line::Bad(fault) => {
                    // A first line of words is a header, whatever its names.
                    if self.good == 0 && self.bad == 0 && header(line) {
                        continue;
                    }
                    if self.first_bad.is_none() {
                        self.first_bad = Some((self.line, show(fault.value(line)), fault.expected));
                    }
                    self.bad += 1;
                    self.skipped.add(MALFORMED, 1);
                    if self.bad > PATIENCE && self.bad > self.good {
                        return Err(self.mostly());
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
}

/// Does a line look like column names (or a `#` comment): printable, no field starting with a digit?
pub(crate) fn header(line: &[u8]) -> bool {
    let printable = line.iter().all(|b| (b' '..=b'~').contains(b) || *b == b'\t');
    let mut fields = line.split(|b| matches!(b, b',' | b';' | b'\t' | b' ' | b'|')).filter(|f| !f.is_empty());
    printable
        && (line.starts_with(b"#") || fields.all(|f| f[0].is_ascii_alphabetic() || matches!(f[0], b'_' | b'"' | b'(')))
}
