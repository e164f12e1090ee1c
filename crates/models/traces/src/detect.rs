//! Detects formats: binary ones by magic, text by trying every parser on the first lines.

use super::columns::Columns;
use super::error::Unclear;
use super::format::{Format, FormatRow, ROWS, Tried};
use super::header::{self, Header};
use super::known_headers;
use super::record::Event;
use super::table::{ASSUMED_BYTES, Table};
use super::text::{Line, first_lines};

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
    /// The tool or archive of a known header.
    pub(crate) source: Option<&'static str>,
}

impl Found {
    pub(crate) fn only(format: Format) -> Found {
        Found { format, columns: None, others: Vec::new(), unused: Vec::new(), source: None }
    }
}

fn found(format: Format) -> Result<Option<Found>, Unclear> {
    Ok(Some(Found::only(format)))
}

/// Detects the format from the start of a file. An error if its first line names columns that are not understood: such a
/// file is never guessed to be of another format.
pub(crate) fn detect(start: &[u8], all: bool) -> Result<Option<Found>, Unclear> {
    if let Some(row) = ROWS.iter().find(|row| (row.begins)(start)) {
        return found(row.format);
    }
    let lines = first_lines(start, all);
    if let Some(known) = known_headers::find(&lines) {
        let found = Found { columns: known.columns, source: Some(known.name), ..Found::only(known.format) };
        return Ok(Some(found));
    }
    // The header of a named format decides for it.
    let header = |row: &FormatRow| row.layout.as_ref().and_then(|layout| layout.header);
    let of_format = |row: &&FormatRow| header(row).is_some_and(|h| lines.first() == Some(&h.as_bytes()));
    if let Some(row) = ROWS.iter().find(of_format) {
        return found(row.format);
    }
    let from = lines.iter().position(|l| !l.starts_with(b"#")).unwrap_or(0);
    // A comment may be the header, if there is none behind it.
    match header::read(&lines[from..]).or_else(|| header::read(&lines)) {
        Some(Header::Unclear(unclear)) => return Err(unclear),
        Some(Header::Understood { columns, unused }) => {
            let same = |row: &&FormatRow| row.layout.as_ref().is_some_and(|l| l.list().list == columns.list);
            return Ok(Some(match ROWS.iter().find(same) {
                Some(row) => Found::only(row.format),
                None => Found { columns: Some(columns), unused, ..Found::only(Format::Columns) },
            }));
        }
        None => {}
    }
    let lines = &lines[..lines.len().min(LINES_TRIED)];
    let fit: Vec<(Format, bool)> =
        ROWS.iter().filter_map(|row| fits(row, lines).map(|plausible| (row.format, plausible))).collect();
    let best = fit.iter().position(|(_, plausible)| *plausible).unwrap_or(0);
    let Some((format, _)) = fit.get(best).copied() else { return Ok(None) };
    let others = fit.iter().map(|(f, _)| *f).filter(|f| *f != format).collect();
    Ok(Some(Found { others, ..Found::only(format) }))
}

/// `Some` if the format parses most of the lines; the value tells whether the records are plausible for it.
fn fits(row: &FormatRow, lines: &[&[u8]]) -> Option<bool> {
    let mut parser = match (row.parser, &row.layout) {
        (Some(parser), _) => parser(),
        (None, Some(layout)) => Box::new(Table::new(layout.list(), layout.delimiter, layout.extra, ASSUMED_BYTES)),
        (None, None) => return None,
    };
    let mut tried = Tried { decimals: lines.iter().any(|l| l.contains(&b'.')), ..Tried::default() };
    let mut good = 0;
    for line in lines {
        match parser.parse(line) {
            Line::Event(event) => {
                good += 1;
                tried.events += 1;
                if let Event::Arrive(r) = event {
                    tried.aligned += usize::from(r.sector % 4096 == 0);
                    tried.whole_seconds += usize::from(r.time.0 % 1_000_000_000 == 0);
                }
            }
            Line::Ignored | Line::Skip(_) => good += 1,
            Line::Bad(_) => {}
        }
    }
    tried.changed = parser.changed().total() > 0;
    if good == 0 || good * 2 <= lines.len() { None } else { (row.plausible)(&tried) }
}
