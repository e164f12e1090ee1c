//! Errors of reading and writing traces.

use std::path::{Path, PathBuf};

/// Why a trace could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system reported an error.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operation that failed: `open`, `read`, `write`.
        doing: &'static str,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file is empty.
    #[error("{}: the file is empty; expected a block trace", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// An invalid line or binary record.
    #[error("{}:{place}: found {value}, expected {expected}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// `line 12`, `byte 4096` or `header`.
        place: String,
        /// The text found.
        value: String,
        /// The text expected.
        expected: String,
    },
    /// Most lines do not parse.
    #[error("{}: {bad} of {seen} lines are not {format}; the first is line {line}: {value}, expected {expected}", path.display())]
    Mostly {
        /// The file.
        path: PathBuf,
        /// The format assumed.
        format: String,
        /// Lines that do not parse.
        bad: u64,
        /// Lines read until then.
        seen: u64,
        /// First bad line, from 1.
        line: u64,
        /// The text found.
        value: String,
        /// The text expected.
        expected: &'static str,
    },
    /// The file is truncated.
    #[error("{}: the file ends inside {what} (truncated?) after {records} records", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The part that is truncated.
        what: &'static str,
        /// Complete records before it.
        records: u64,
    },
    /// No known format matches.
    #[error(
        "{}: no known trace format fits; it starts with {start}; name the format with --format or its columns with --columns{}",
        path.display(),
        proposal.as_ref().map_or(String::new(), |list| format!(" {list} (guesses from the values; correct them)"))
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Its first line or bytes.
        start: String,
        /// A column list that its values suggest.
        proposal: Option<String>,
    },
    /// A tool's output that has no requests.
    #[error(
        "{}: this is {tool}: {tells}, no trace.{} A trace has a line for each request; record one with {}",
        path.display(),
        figures.as_ref().map_or(String::new(), |figures| format!(" It says {figures}.")),
        "`blktrace -d /dev/sdX -w 60 -o - | blkparse -i - > trace.txt`, `biosnoop > trace.txt` or `dumbwaiter record`"
    )]
    Summary {
        /// The file.
        path: PathBuf,
        /// The tool.
        tool: &'static str,
        /// What its output tells.
        tells: &'static str,
        /// What it says of drives: their load, and whether a scheduler can matter.
        figures: Option<String>,
    },
    /// The first line names columns without saying what they are.
    #[error("{}: the first line does not say the unit or meaning of {names}; {}", path.display(), to_type(proposal.as_deref()))]
    Header {
        /// The file.
        path: PathBuf,
        /// The names that are unclear.
        names: String,
        /// A column list with guessed units; `None` where no column is an operation or an offset.
        proposal: Option<String>,
    },
    /// The trace contains no request.
    #[error("{}: no request in it ({format}; {skipped} records skipped{why})", path.display())]
    NoRecords {
        /// The file.
        path: PathBuf,
        /// The format it was read as.
        format: String,
        /// Number of skipped records.
        skipped: u64,
        /// Reasons for skipping them.
        why: String,
    },
    /// The caller asked to stop.
    #[error("interrupted while a trace was read")]
    Interrupted,
    /// An impossible column list, option or combination of options.
    #[error("{key}: {value:?} is not possible; expected {expected}")]
    Option {
        /// The option.
        key: String,
        /// Its value.
        value: String,
        /// The accepted values.
        expected: String,
    },
}

/// Why a header cannot be used, and what to type instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unclear {
    /// Names whose unit or meaning is not known.
    pub(crate) names: Vec<String>,
    /// The column list to type, with units guessed from the values; `None` where it would lack an operation or an offset.
    pub(crate) proposal: Option<String>,
}

/// What to type instead of a header.
fn to_type(proposal: Option<&str>) -> String {
    match proposal {
        Some(list) => format!(
            "type --columns {list} (units here are guesses from the values: time_{{s,ms,us,ns}}, offset_ and \
             size_{{bytes,sectors,4k}}; correct them)"
        ),
        None => "a trace has an operation and an offset for each request, and no column here looks like both; if one does, name all \
                 columns with --columns"
            .to_owned(),
    }
}

impl Error {
    pub(crate) fn io(path: &Path, doing: &'static str, source: std::io::Error) -> Error {
        Error::Io { path: path.to_path_buf(), doing, source }
    }

    pub(crate) fn bad(path: &Path, place: String, value: impl Into<String>, expected: impl Into<String>) -> Error {
        Error::Bad { path: path.to_path_buf(), place, value: value.into(), expected: expected.into() }
    }

    pub(crate) fn header(path: &Path, unclear: &Unclear) -> Error {
        Error::Header { path: path.to_path_buf(), names: unclear.names.join(", "), proposal: unclear.proposal.clone() }
    }

    pub(crate) fn option(key: &str, value: impl Into<String>, expected: impl Into<String>) -> Error {
        Error::Option { key: key.to_string(), value: value.into(), expected: expected.into() }
    }
}

/// Bytes for a message: at most 60, quoted, with control characters escaped.
pub(crate) fn show(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(60)];
    let more = if cut.len() < bytes.len() { "…" } else { "" };
    format!("{:?}{more}", String::from_utf8_lossy(cut))
}
