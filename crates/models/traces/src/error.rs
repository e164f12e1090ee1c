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
    #[error("{}: no known trace format fits; it starts with {start}; name the format with --format or its columns with --columns", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Its first line or bytes.
        start: String,
    },
    /// The first line names columns without saying what they are.
    #[error(
        "{}: the first line does not say the unit or meaning of {names}; {} --columns {proposal} {}",
        path.display(),
        if *complete { "type" } else { "name every column, an operation and an offset among them, as in" },
        "(units here are guesses from the values: time_{s,ms,us,ns}, offset_ and size_{bytes,sectors,4k}; correct them)"
    )]
    Header {
        /// The file.
        path: PathBuf,
        /// The names that are unclear.
        names: String,
        /// A column list with guessed units.
        proposal: String,
        /// Whether the list can be used as it is.
        complete: bool,
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
    /// The column list to type, with units guessed from the values.
    pub(crate) proposal: String,
    /// Whether the proposal has all that a trace needs.
    pub(crate) complete: bool,
}

impl Error {
    pub(crate) fn io(path: &Path, doing: &'static str, source: std::io::Error) -> Error {
        Error::Io { path: path.to_path_buf(), doing, source }
    }

    pub(crate) fn bad(path: &Path, place: String, value: impl Into<String>, expected: impl Into<String>) -> Error {
        Error::Bad { path: path.to_path_buf(), place, value: value.into(), expected: expected.into() }
    }

    pub(crate) fn header(path: &Path, unclear: &Unclear) -> Error {
        Error::Header {
            path: path.to_path_buf(),
            names: unclear.names.join(", "),
            proposal: unclear.proposal.clone(),
            complete: unclear.complete,
        }
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
