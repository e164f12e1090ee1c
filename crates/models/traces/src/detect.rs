//! Detects formats: binary ones by magic, text by trying every parser on the first lines.

use super::blkparse::{Arrival, Blkparse};
use super::columns::{Column, Columns};
use super::error::Unclear;
use super::format::Format;
use super::header::Header;
use super::iolog::{HEAD2, HEAD3, Iolog};
use super::record::Event;
use super::table::{ASSUMED_BYTES, Table, delimiter_of, fields};
use super::text::{Line, LineParser, header as is_header};
use super::{blktrace, columnar, header, hp_srt, vscsi};

/// Lines that are tried.
const LINES_TRIED: usize = 256;

/// The detected format of a file.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) format: Format,
    /// For [`Format::Columns`]: the columns named by the header.
    pub(crate) columns: Option<Columns>,
    /// Other formats that parse the first lines as well.
    pub(crate) others: Vec<Format>,
    /// Names of columns that are not used.
    pub(crate) unused: Vec<String>,
}

impl Found {
    pub(crate) fn only(format: Format) -> Found {
        Found { format, columns: None, others: Vec::new(), unused: Vec::new() }
    }
}

fn found(format: Format) -> Result<Option<Found>, Unclear> {
    Ok(Some(Found::only(format)))
}

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

/// Detects the format from the start of a file. An error if its first line names columns that are not understood: such a
/// file is never guessed to be of another format.
pub(crate) fn detect(start: &[u8], all: bool) -> Result<Option<Found>, Unclear> {
    if start.starts_with(columnar::MAGIC) {
        return found(Format::Columnar);
    }
    if hp_srt::detect(start) {
        return found(Format::HpSrt);
    }
    if blktrace::magic(start).is_some() {
        return found(Format::Blktrace);
    }
    if vscsi::detect(start).is_some() {
        return found(Format::Vscsi);
    }
    if start.starts_with(HEAD2) {
        return found(Format::Iolog2);
    }
    if start.starts_with(HEAD3) {
        return found(Format::Iolog3);
    }
    let lines = first_lines(start, all);
    // The header of a named format decides for it.
    let of_format =
        |f: &Format| f.layout().and_then(|l| l.header).is_some_and(|h| lines.first() == Some(&h.as_bytes()));
    if let Some(format) = Format::ALL.into_iter().find(of_format) {
        return found(format);
    }
    let from = lines.iter().position(|l| !l.starts_with(b"#")).unwrap_or(0);
    // A comment may be the header, if there is none behind it.
    match header::read(&lines[from..]).or_else(|| header::read(&lines)) {
        Some(Header::Unclear(unclear)) => return Err(unclear),
        Some(Header::Understood { columns, unused }) => {
            let named = Format::ALL.into_iter().find(|f| f.columns().is_some_and(|c| c.list == columns.list));
            return Ok(Some(match named {
                Some(format) => Found::only(format),
                None => Found { columns: Some(columns), unused, ..Found::only(Format::Columns) },
            }));
        }
        None => {}
    }
    let lines = &lines[..lines.len().min(LINES_TRIED)];
    let mut fit: Vec<(Format, bool)> = Vec::new();
    for format in Format::ALL {
        if let Some(plausible) = fits(format, lines) {
            fit.push((format, plausible));
        }
    }
    let best = fit.iter().position(|(_, plausible)| *plausible).unwrap_or(0);
    let Some((format, _)) = fit.get(best).copied() else { return Ok(None) };
    let others = fit.iter().map(|(f, _)| *f).filter(|f| *f != format).collect();
    Ok(Some(Found { others, ..Found::only(format) }))
}

/// `Some` if the format parses most of the lines; the value tells whether the records are plausible for it.
fn fits(format: Format, lines: &[&[u8]]) -> Option<bool> {
    let mut parser: Box<dyn LineParser> = match format {
        Format::Blkparse => Box::new(Blkparse::new(Arrival::Queue, 0)),
        Format::Iolog2 | Format::Iolog3 => Box::new(Iolog::new(format == Format::Iolog3)),
        _ => {
            let layout = format.layout()?;
            Box::new(Table::new(format.columns()?, layout.delimiter, layout.extra, ASSUMED_BYTES))
        }
    };
    // MQSim counts whole nanoseconds, so a decimal point excludes it.
    if format == Format::Mqsim && lines.iter().any(|l| l.contains(&b'.')) {
        return None;
    }
    let (mut good, mut aligned, mut whole_seconds, mut events) = (0, 0, 0, 0);
    for line in lines {
        match parser.parse(line) {
            Line::Event(event) => {
                good += 1;
                events += 1;
                if let Event::Arrive(r) = event {
                    aligned += usize::from(r.sector % 4096 == 0);
                    whole_seconds += usize::from(r.time.0 % 1_000_000_000 == 0);
                }
            }
            Line::Ignored | Line::Skip(_) => good += 1,
            Line::Bad(_) => {}
        }
    }
    // Blkparse files without a Q or D event in the first lines are recognised by their shape.
    let enough = good > 0 && good * 2 > lines.len() && (events > 0 || format == Format::Blkparse);
    enough.then(|| match format {
        // A value that is not a multiple of 512 is in sectors.
        Format::MsrCut => parser.changed().total() == 0,
        // The Tencent cuts have only whole seconds and multiples of 2 MiB.
        Format::TencentCut => aligned == events && whole_seconds == events,
        _ => true,
    })
}

/// Delimiter for a column list, from the first line that is neither comment nor header.
pub(crate) fn delimiter(start: &[u8], all: bool, columns: &Columns, prefer: u8) -> Option<u8> {
    let lines = first_lines(start, all);
    let mut lines = lines.iter().filter(|l| !l.starts_with(b"#"));
    let first = lines.next()?;
    let line = lines.next().filter(|_| is_header(first)).unwrap_or(first);
    let want = columns.list.len();
    // A name may contain white space, so the number of fields does not decide.
    let named = columns.has(|c| *c == Column::Name) && fields(line, b' ') >= want;
    if named { Some(b' ') } else { delimiter_of(line, want, prefer) }
}
