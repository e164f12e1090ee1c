//! The rows of a recording of controllers: the block layer's events, and between them what controllers saw and decided.

use std::path::{Path, PathBuf};

use dumbwaiter_block::Nanos;

use crate::recording::{Error, Files, HEADER, TIME_NS_MAX, each_line, read_description, shown, value_of};

/// A row. Numbers that are not there are 0, and texts empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Line of the file.
    pub line: u64,
    /// Time since the first row.
    pub at: Nanos,
    /// Name of the event, such as `getrq` or `wbt_timer`.
    pub name: String,
    /// The request.
    pub req: u32,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// `R`, `W`, `D`, `F` or empty.
    pub op: String,
    /// Letters of flags, or details as `key=value`.
    pub details: String,
    /// The process.
    pub pid: i32,
    /// CPU of the event.
    pub cpu: u16,
    /// The control group's path; empty for the root and where it is not known.
    pub group: String,
}

impl Event {
    /// The text of a key among the details.
    pub fn text(&self, key: &str) -> Option<&str> {
        value_of(&self.details, key)
    }

    /// The number of a key among the details.
    ///
    /// # Errors
    ///
    /// The key is missing or its value is no number.
    pub fn number(&self, key: &str) -> Result<i64, String> {
        let found = self.text(key).and_then(|text| text.parse().ok());
        found.ok_or_else(|| format!("{}: expected {key}=NUMBER, found `{}`", self.name, shown(&self.details)))
    }
}

/// A recording of controllers with all its rows.
#[derive(Clone, Debug)]
pub struct Events {
    /// The rows' file.
    pub path: PathBuf,
    /// The JSON beside it.
    pub about: serde_json::Value,
    /// The rows, in the order of their times.
    pub rows: Vec<Event>,
}

impl Events {
    /// Reads the rows of `path` and the JSON beside it; or of its JSON, the rows beside that.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is too large, or is not a recording; with the line.
    pub fn open(path: &Path) -> Result<Events, Error> {
        let Files { rows: path, description } = Files::of(path);
        let about = serde_json::from_slice(&read_description(&description)?)
            .map_err(|cause| Error::Description { path: description, cause })?;
        let file = std::fs::File::open(&path).map_err(|cause| Error::Io { path: path.clone(), cause })?;
        let mut rows: Vec<Event> = Vec::new();
        let mut grouped = false;
        each_line(&path, file, &mut |line, text| {
            if line == 1 {
                grouped = text == format!("{HEADER},group");
                let expected = || format!("expected the header `{HEADER}`, found `{}`", shown(text));
                return if grouped || text == HEADER { Ok(()) } else { Err(expected()) };
            }
            let event = parse(text, line, if grouped { 11 } else { 10 })?;
            if event.at < rows.last().map_or(Nanos::ZERO, |last| last.at) {
                return Err("the time goes back; expected rows in the order of their times".into());
            }
            rows.push(event);
            Ok(())
        })?;
        Ok(Events { path, about, rows })
    }

    /// An error about a row.
    pub fn fail(&self, line: u64, what: String) -> Error {
        Error::Row { path: self.path.clone(), line, what }
    }
}

fn parse(text: &str, line: u64, columns: usize) -> Result<Event, String> {
    let fields: Vec<&str> = text.split(',').collect();
    if fields.len() != columns {
        return Err(format!("expected {columns} fields, found {} in `{}`", fields.len(), shown(text)));
    }
    let number = |i: usize, most: u64| -> Result<u64, String> {
        let found = if fields[i].is_empty() { Some(0) } else { fields[i].parse().ok() };
        let fail = || format!("column {}: expected a number up to {most}, found `{}`", i + 1, shown(fields[i]));
        found.filter(|n| *n <= most).ok_or_else(fail)
    };
    let pid = if fields[7].is_empty() { Ok(0) } else { fields[7].parse() };
    Ok(Event {
        line,
        at: Nanos(number(0, TIME_NS_MAX)?),
        name: fields[1].to_string(),
        req: number(2, u64::from(u32::MAX))? as u32,
        // A flush without data has none: all bits are set.
        sector: number(3, u64::MAX)?.wrapping_add(1).saturating_sub(1),
        bytes: number(4, u64::from(u32::MAX))?,
        op: fields[5].to_string(),
        details: fields[6].to_string(),
        pid: pid.map_err(|_| format!("column 8: expected a process number, found `{}`", shown(fields[7])))?,
        cpu: number(9, u64::from(u16::MAX))? as u16,
        group: fields.get(10).unwrap_or(&"").to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_read_by_their_keys() {
        let row = parse("5,wbt_timer,,,,,status=4 step=-2 inflight=6,,,0", 2, 10).unwrap();
        assert_eq!((row.at, row.name.as_str(), row.number("step")), (Nanos(5), "wbt_timer", Ok(-2)));
        assert_eq!(
            row.number("target").unwrap_err(),
            "wbt_timer: expected target=NUMBER, found `status=4 step=-2 inflight=6`"
        );
        assert!(parse("5,a,b", 2, 10).unwrap_err().contains("expected 10 fields, found 3"));
        assert!(parse("5,x,,,,,,many,,0", 2, 10).unwrap_err().contains("column 8"));
    }
}
