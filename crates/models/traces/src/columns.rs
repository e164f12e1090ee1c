//! Column lists: meaning and unit of each field of a delimited line. The named text formats are column lists too.

use super::error::Error;
use super::record::Known;

/// Meaning and unit of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Arrival, in units of this many ns.
    Time(u64),
    /// Time from this arrival to the next, in units of this many ns.
    Gap(u64),
    /// Operation.
    Op(OpStyle),
    /// First byte, in units of this many bytes.
    Offset(u64),
    /// Length, in units of this many bytes.
    Size(u64),
    /// Device, volume or disk: number or name.
    Device,
    /// Host; with the device it names a device.
    Host,
    /// Major device number.
    Major,
    /// Minor device number.
    Minor,
    /// Process: number or name.
    Task,
    /// Name that may contain the delimiter; ignored.
    Name,
    /// `S` or 1: synchronous; `A` or 0: asynchronous.
    Sync,
    /// From arrival to completion, in units of this many ns.
    Latency(u64),
    /// From arrival to dispatch to the device, in units of this many ns.
    Wait(u64),
    /// Completion, in units of this many ns: without an arrival, it is the completion less the latency.
    Completed(u64),
    /// From dispatch to completion, in units of this many ns.
    Service(u64),
    /// The event that the line tells: queued, inserted, issued, completed.
    Event,
    /// I/O tag: its code or its name; empty or `-` if unknown to the trace.
    Tag,
    /// Ignored.
    Skip,
}

/// Notation of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpStyle {
    /// `R`, `W`, `D` …; words and any case are accepted.
    Letter,
    /// `r`, `w` …; words and any case are accepted.
    Lower,
    /// `Read`, `Write` …; letters and any case are accepted.
    Word,
    /// 1 = read, 0 = write.
    ReadIsOne,
    /// 0 = read, 1 = write.
    WriteIsOne,
    /// Hexadecimal flags whose lowest bit means read.
    HexFlags,
}

/// An ordered list of columns, such as `time_ms,op,offset_bytes,size_bytes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    pub(crate) list: Vec<Column>,
    text: String,
}

/// Names that [`Columns::parse`] accepts, for messages.
pub const COLUMN_NAMES: &str = "time_{s,ms,us,ns,100ns}, gap_{s,ms,us,ns}, op, op_read1 (1 = read), op_write1 (1 = write), op_hex (bit 0 = read), \
     offset_{bytes,sectors,256,kib,4k}, size_{bytes,sectors,256,kib,4k}, device, host, major, minor, task, name, sync, io_tag, \
     latency_{s,ms,us,ns,100ns}, wait_{s,ms,us,ns,100ns}, service_{s,ms,us,ns,100ns} (dispatch to completion), completed_{s,ms,us,ns,100ns} (instead of an \
     arrival), event (Q, I, D, C or issue, complete), _ (skip)";

impl Columns {
    /// Parses a comma-separated list of column names (see [`COLUMN_NAMES`]). `op` and an offset are required; each
    /// meaning may occur once.
    pub fn parse(text: &str) -> Result<Columns, Error> {
        let mut list = Vec::new();
        for name in text.split(',') {
            let name = name.trim();
            let column = column(&name.to_ascii_lowercase())
                .ok_or_else(|| Error::option("columns", name, format!("one of {COLUMN_NAMES}")))?;
            let twice = |c: &Column| std::mem::discriminant(c) == std::mem::discriminant(&column);
            if column != Column::Skip && list.iter().any(twice) {
                return Err(Error::option("columns", name, "each meaning at most once"));
            }
            list.push(column);
        }
        let columns = Columns { list, text: text.to_string() };
        for (needed, there) in [
            ("op", columns.has(|c| matches!(c, Column::Op(_)))),
            ("an offset", columns.has(|c| matches!(c, Column::Offset(_)))),
        ] {
            if !there {
                return Err(Error::option("columns", text, format!("a list with {needed} in it")));
            }
        }
        if columns.has(|c| matches!(c, Column::Time(_))) && columns.has(|c| matches!(c, Column::Gap(_))) {
            return Err(Error::option("columns", text, "a time or a gap, not both"));
        }
        Ok(columns)
    }

    /// The list as given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether lines are in the order of completions, and requests thus not in that of their arrivals.
    pub(crate) fn completions_only(&self) -> bool {
        self.has(|c| matches!(c, Column::Completed(_))) && !self.has(|c| matches!(c, Column::Time(_) | Column::Gap(_)))
    }

    pub(crate) fn has(&self, which: impl Fn(&Column) -> bool) -> bool {
        self.list.iter().any(which)
    }

    /// The fields of the records of a trace with these columns.
    pub(crate) fn known(&self) -> Known {
        Known {
            times: self.has(|c| matches!(c, Column::Time(_) | Column::Gap(_) | Column::Completed(_))),
            sizes: self.has(|c| matches!(c, Column::Size(_))),
            devices: self.has(|c| matches!(c, Column::Device | Column::Host | Column::Major | Column::Minor)),
            tasks: self.has(|c| matches!(c, Column::Task)),
        }
    }
}

impl std::fmt::Display for Columns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether two names of columns mean the same of a request, in whatever unit.
pub(crate) fn same_meaning(one: &str, other: &str) -> bool {
    let timed = |c: &Column| matches!(c, Column::Time(_) | Column::Gap(_));
    match (column(one), column(other)) {
        (Some(Column::Skip), _) | (_, Some(Column::Skip)) => false,
        (Some(one), Some(other)) => {
            std::mem::discriminant(&one) == std::mem::discriminant(&other) || timed(&one) && timed(&other)
        }
        _ => false,
    }
}

/// The column of this name.
pub(crate) fn named(name: &str) -> Option<Column> {
    column(&name.to_ascii_lowercase())
}

/// Whether this is the name of a column.
pub(crate) fn known(name: &str) -> bool {
    column(&name.to_ascii_lowercase()).is_some()
}

fn time_unit(unit: &str) -> Option<u64> {
    Some(match unit {
        "s" | "sec" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" => 1000,
        "100ns" => 100,
        "ns" => 1,
        _ => return None,
    })
}

fn length_unit(unit: &str) -> Option<u64> {
    Some(match unit {
        "bytes" | "byte" | "b" => 1,
        "sectors" | "sector" | "512" => 512,
        "kib" | "k" | "1k" => 1024,
        other => match other.strip_suffix('k') {
            Some(k) => k.parse::<u64>().ok()?.checked_mul(1024)?,
            None => other.parse().ok()?,
        },
    })
    .filter(|n: &u64| (1..=1 << 30).contains(n))
}

fn column(name: &str) -> Option<Column> {
    Some(match name {
        "_" | "-" | "skip" => Column::Skip,
        "op" | "opcode" | "type" | "rw" => Column::Op(OpStyle::Letter),
        "op_lower" => Column::Op(OpStyle::Lower),
        "op_word" => Column::Op(OpStyle::Word),
        "op_read1" => Column::Op(OpStyle::ReadIsOne),
        "op_write1" => Column::Op(OpStyle::WriteIsOne),
        "op_hex" => Column::Op(OpStyle::HexFlags),
        "device" | "disk" | "volume" | "asu" | "device_id" => Column::Device,
        "host" | "hostname" => Column::Host,
        "major" => Column::Major,
        "minor" => Column::Minor,
        "task" | "pid" | "process" => Column::Task,
        "name" | "comm" => Column::Name,
        "sync" => Column::Sync,
        "io_tag" => Column::Tag,
        "event" => Column::Event,
        "lbn" | "lba" | "sector" => Column::Offset(512),
        "sector256" => Column::Offset(256),
        "bytes" => Column::Size(1),
        "sectors" | "nsectors" => Column::Size(512),
        _ => {
            let (stem, unit) = name.split_once('_')?;
            match stem {
                "time" | "timestamp" | "enqueue" => Column::Time(time_unit(unit)?),
                "gap" => Column::Gap(time_unit(unit)?),
                "latency" | "response" | "stop" => Column::Latency(time_unit(unit)?),
                "completed" | "completion" => Column::Completed(time_unit(unit)?),
                "service" => Column::Service(time_unit(unit)?),
                "wait" | "start" => Column::Wait(time_unit(unit)?),
                "offset" => Column::Offset(length_unit(unit)?),
                "size" | "len" | "length" => Column::Size(length_unit(unit)?),
                _ => return None,
            }
        }
    })
}

/// Layout of a delimited format.
pub(crate) struct Layout {
    /// Column list in the syntax of [`Columns::parse`].
    pub(crate) columns: &'static str,
    /// Field delimiter; a space stands for any white space.
    pub(crate) delimiter: u8,
    /// Whether further fields may follow.
    pub(crate) extra: bool,
    /// Fewest decimals of written times; `None` for whole numbers.
    pub(crate) decimals: Option<usize>,
    /// Header line of written files.
    pub(crate) header: Option<&'static str>,
}

impl Layout {
    pub(crate) fn list(&self) -> Columns {
        Columns::parse(self.columns).expect("the layouts are parsed by a test")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_parsed() {
        let c = Columns::parse("time_ms, op,offset_4k,size_8k,_,latency_100ns,pid").unwrap();
        assert_eq!(
            c.list,
            [
                Column::Time(1_000_000),
                Column::Op(OpStyle::Letter),
                Column::Offset(4096),
                Column::Size(8192),
                Column::Skip,
                Column::Latency(100),
                Column::Task
            ]
        );
    }

    #[test]
    fn errors_of_bad_lists_name_the_reason() {
        for (text, part) in [
            ("time_ms,offset_bytes", "op"),
            ("op,size_bytes", "offset"),
            ("op,offset_bytes,offset_sectors", "at most once"),
            ("time_fortnights,op,offset_bytes", "time_fortnights"),
            ("op,offset_0", "offset_0"),
            ("", "one of"),
            ("time_ms,gap_ms,op,lbn", "not both"),
        ] {
            let e = Columns::parse(text).unwrap_err().to_string();
            assert!(e.contains(part), "{text}: {e}");
        }
    }
}
