//! The rows of a recording of controllers: the block layer's events, and between them what controllers saw and decided.

use std::io::Read;
use std::path::{Path, PathBuf};

use dumbwaiter_block::{Nanos, Op, TickClock};
use serde::Deserialize;

use crate::recording::{Error, Jiffies};
use crate::rows::{HEADER, SECTOR_MAX, TIME_NS_MAX, each_line, op_of, shown, value_of};

/// Longest recording that is replayed.
const SPAN_MAX: Nanos = Nanos::from_secs(86_400);

/// A row. Numbers that are not there are 0, texts are empty, and the operation is a read.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Operation.
    pub op: Op,
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
    /// The group and the limits of a change of io.max: a mark `io.max group=PATH KEY=VALUE …`.
    pub(crate) fn changed_limits(&self) -> Option<(&str, &str)> {
        let details = self.details.strip_prefix("io.max group=").filter(|_| self.name == "mark")?;
        Some(details.split_once(' ').unwrap_or((details, "")))
    }
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
    pub description: PathBuf,
    /// What it says.
    pub about: serde_json::Value,
    /// When the kernel's ticks step, where the JSON tells, and by how much they may step earlier or later.
    pub clock: Option<(TickClock, Nanos)>,
    /// Rows name the control group.
    pub grouped: bool,
    /// The rows, in the order of their times.
    pub rows: Vec<Event>,
}

impl Events {
    /// Reads a recording from its `rows`, plain or zstd, and what its `description` says. Messages call the rows `path`.
    ///
    /// # Errors
    ///
    /// The rows cannot be read, are too large, or are not those of a recording; with the line. Ticks that no kernel has.
    pub fn read(path: &Path, rows: impl Read, description: &Path, about: serde_json::Value) -> Result<Events, Error> {
        let clock = match about.get("jiffies") {
            None | Some(serde_json::Value::Null) => None,
            Some(jiffies) => {
                let jiffies = Jiffies::deserialize(jiffies)
                    .map_err(|cause| Error::Description { path: description.to_owned(), cause })?;
                Some((jiffies.clock(description)?, jiffies.uncertain()))
            }
        };
        let mut found: Vec<Event> = Vec::new();
        let mut grouped = false;
        each_line(path, rows, &mut |line, text| {
            if line == 1 {
                grouped = text == format!("{HEADER},group");
                let expected = || format!("expected the header `{HEADER}`, found `{}`", shown(text));
                return if grouped || text == HEADER { Ok(()) } else { Err(expected()) };
            }
            let event = parse(text, line, if grouped { 11 } else { 10 })?;
            if event.at < found.last().map_or(Nanos::ZERO, |last| last.at) {
                return Err("the time goes back; expected rows in the order of their times".into());
            }
            found.push(event);
            Ok(())
        })?;
        Ok(Events { path: path.to_owned(), description: description.to_owned(), about, clock, grouped, rows: found })
    }

    /// Refuses rows that span more than a day: a replay goes through all ticks or periods in between.
    ///
    /// # Errors
    ///
    /// The first row that is too late, with its line.
    pub(super) fn check_span(&self) -> Result<(), Error> {
        let late = self.rows.iter().find(|row| row.at > SPAN_MAX);
        let what = "more than a day after the first row; record for a shorter time";
        late.map_or(Ok(()), |late| Err(self.fail(late.line, what.to_owned())))
    }

    /// An error about a row.
    pub fn fail(&self, line: u64, what: String) -> Error {
        Error::Row { path: self.path.clone(), line, what }
    }

    /// An error about a key of the JSON.
    pub fn fail_setting(&self, what: String) -> Error {
        Error::Setting { path: self.description.clone(), what }
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
    // The kernel gives a flush without data a sector of all bits.
    let no_sector = fields[3] == u64::MAX.to_string();
    Ok(Event {
        line,
        at: Nanos(number(0, TIME_NS_MAX)?),
        name: fields[1].to_string(),
        req: number(2, u64::from(u32::MAX))? as u32,
        sector: if no_sector { 0 } else { number(3, SECTOR_MAX)? },
        bytes: number(4, u64::from(u32::MAX))?,
        op: op_of(fields[5]),
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
        let missing = row.number("target").unwrap_err();
        assert_eq!(missing, "wbt_timer: expected target=NUMBER, found `status=4 step=-2 inflight=6`");
        assert!(parse("5,a,b", 2, 10).unwrap_err().contains("expected 10 fields, found 3"));
        assert!(parse("5,x,,,,,,many,,0", 2, 10).unwrap_err().contains("column 8"));
        assert!(parse("5,x,,36028797018963969,,,,,,0", 2, 10).unwrap_err().contains("column 4"));
        assert_eq!(parse("5,x,,18446744073709551615,,F,,,,0", 2, 10).unwrap().sector, 0);
    }

    #[test]
    fn ticks_that_no_kernel_has_are_an_error() {
        let read = |about: &str| {
            let rows = format!("{HEADER}\n1,getrq,1,8,4096,R,,5,,0\n");
            let about = serde_json::from_str(about).unwrap();
            Events::read(Path::new("r.csv"), rows.as_bytes(), Path::new("r.json"), about).map(|read| read.clock)
        };
        let tick = |period_ns: u64| format!(r#"{{"jiffies":{{"period_ns":{period_ns},"step_at_ns":-1000}}}}"#);
        assert_eq!(read("{}").unwrap(), None);
        assert_eq!(read(&tick(4_000_000)).unwrap().map(|(clock, _)| clock.step_at), Some(Nanos(3_999_000)));
        assert!(read(&tick(5)).unwrap_err().to_string().contains("r.json: jiffies.period_ns: 5"));
        assert!(read(r#"{"jiffies":7}"#).unwrap_err().to_string().starts_with("r.json: "));
    }
}
