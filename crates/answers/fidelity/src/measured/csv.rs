//! Tables of comma-separated values with a header, whose errors name file, line and column.

use std::path::{Path, PathBuf};

use super::MeasuredError;

/// Largest file that is read, bytes.
const FILE_MAX: u64 = 256 << 20;

/// A table in memory.
pub(super) struct Table {
    path: PathBuf,
    header: Vec<String>,
    rows: Vec<Row>,
}

/// One row, with the line on which it begins.
pub(super) struct Row {
    pub(super) line: u64,
    cells: Vec<String>,
}

impl Table {
    /// Reads a file.
    pub(super) fn open(path: &Path) -> Result<Table, MeasuredError> {
        Table::parse(path, &read_text(path)?)
    }

    /// Reads a text; errors name `path`.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Table, MeasuredError> {
        let mut records = records(path, text)?.into_iter();
        let Some((_, header)) = records.next() else {
            return Err(at(path, 1, "the table is empty; expected a line with the names of its columns"));
        };
        let header: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
        if let Some(twice) = header.iter().enumerate().find(|(i, name)| header[..*i].contains(name)) {
            return Err(at(path, 1, format!("the column `{}` is there twice; expected each once", twice.1)));
        }
        let mut rows = Vec::new();
        for (line, cells) in records {
            if cells.len() != header.len() {
                let what = format!("{} cells; expected {}, one for each column", cells.len(), header.len());
                return Err(at(path, line, what));
            }
            rows.push(Row { line, cells });
        }
        Ok(Table { path: path.to_owned(), header, rows })
    }

    /// Its file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its rows.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Has it all of these columns?
    pub(super) fn has(&self, columns: &[&str]) -> bool {
        columns.iter().all(|name| self.header.iter().any(|own| own == name))
    }

    /// The text of a cell; empty where the table has no such column.
    pub(super) fn text<'a>(&self, row: &'a Row, column: &str) -> &'a str {
        let found = self.header.iter().position(|own| own == column);
        found.and_then(|i| row.cells.get(i)).map_or("", |cell| cell.trim())
    }

    /// A number that is not negative; `None` for an empty cell or a missing column.
    pub(super) fn number(&self, row: &Row, column: &str) -> Result<Option<f64>, MeasuredError> {
        let text = self.text(row, column);
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(Some(number)),
            _ => Err(self.wrong(row, column, "a number, 0 or larger, or nothing")),
        }
    }

    /// A whole number from 1 to `most`.
    pub(super) fn count(&self, row: &Row, column: &str, most: u32) -> Result<u32, MeasuredError> {
        let number = self.text(row, column).parse::<u32>().ok().filter(|n| (1..=most).contains(n));
        number.ok_or_else(|| self.wrong(row, column, &format!("a whole number from 1 to {most}")))
    }

    /// The error of a cell.
    pub(super) fn wrong(&self, row: &Row, column: &str, expected: &str) -> MeasuredError {
        let what = format!("column `{column}`: `{}`; expected {expected}", self.text(row, column));
        at(&self.path, row.line, what)
    }
}

/// The text of a file of a bounded size.
pub(super) fn read_text(path: &Path) -> Result<String, MeasuredError> {
    let failed = |cause: std::io::Error| MeasuredError::Io { path: path.to_owned(), cause };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > FILE_MAX {
        let what = format!("{size} bytes; expected at most {FILE_MAX}");
        return Err(at(path, 1, what));
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// The error of a line.
pub(super) fn at(path: &Path, line: u64, what: impl Into<String>) -> MeasuredError {
    MeasuredError::Row { path: path.to_owned(), line, what: what.into() }
}

/// Splits a text into records with their first lines. Quotes may surround a cell; inside, two of them are one. Blank lines and lines that begin with `#` are left out.
fn records(path: &Path, text: &str) -> Result<Vec<(u64, Vec<String>)>, MeasuredError> {
    let mut out = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() || text.starts_with('#') {
            continue;
        }
        out.push((
            line,
            cells(text).ok_or_else(|| at(path, line, "a quote that is not closed; expected another `\"`"))?,
        ));
    }
    Ok(out)
}

fn cells(line: &str) -> Option<Vec<String>> {
    let (mut out, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => out.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    out.push(cell);
    (!quoted).then_some(out)
}
