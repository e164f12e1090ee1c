//! What can be wrong with a trace.

use std::path::{Path, PathBuf};

/// Why a trace cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io {
        /// File.
        path: PathBuf,
        /// What was tried: `open`, `read`, `write`.
        doing: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Nothing in the file.
    #[error("{}: the file is empty; expected a block trace", path.display())]
    Empty {
        /// File.
        path: PathBuf,
    },
    /// A line or a binary record that cannot be.
    #[error("{}:{place}: found {value}, expected {expected}", path.display())]
    Bad {
        /// File.
        path: PathBuf,
        /// `line 12`, `byte 4096` or `header`.
        place: String,
        /// What stands there.
        value: String,
        /// What should stand there.
        expected: String,
    },
    /// Most lines do not parse.
    #[error("{}: {bad} of {seen} lines are not {format}; the first is line {line}: {value}, expected {expected}", path.display())]
    Mostly {
        /// File.
        path: PathBuf,
        /// Format tried.
        format: String,
        /// Lines that do not parse.
        bad: u64,
        /// Lines read up to the decision.
        seen: u64,
        /// First bad line, from 1.
        line: u64,
        /// What stands there.
        value: String,
        /// What should stand there.
        expected: &'static str,
    },
    /// The file ends inside something.
    #[error("{}: the file ends inside {what} (truncated?) after {records} records", path.display())]
    Truncated {
        /// File.
        path: PathBuf,
        /// What is cut.
        what: &'static str,
        /// Whole records before it.
        records: u64,
    },
    /// No format fits.
    #[error("{}: no known trace format fits; it starts with {start}; name the format with --format or its columns with --columns", path.display())]
    Unknown {
        /// File.
        path: PathBuf,
        /// Its first line or bytes.
        start: String,
    },
    /// Not a single request in it.
    #[error("{}: no request in it ({format}; {skipped} records skipped{why})", path.display())]
    NoRecords {
        /// File.
        path: PathBuf,
        /// Format it was read as.
        format: String,
        /// Records that were skipped.
        skipped: u64,
        /// Why they were skipped, in brackets-free words.
        why: String,
    },
    /// A column list, an option or a combination of them that cannot be.
    #[error("{key}: {value:?} is not possible; expected {expected}")]
    Option {
        /// Which option.
        key: String,
        /// Its value.
        value: String,
        /// What can be.
        expected: String,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, doing: &'static str, source: std::io::Error) -> Error {
        Error::Io { path: path.to_path_buf(), doing, source }
    }

    pub(crate) fn bad(path: &Path, place: String, value: impl Into<String>, expected: impl Into<String>) -> Error {
        Error::Bad { path: path.to_path_buf(), place, value: value.into(), expected: expected.into() }
    }

    pub(crate) fn option(key: &str, value: impl Into<String>, expected: impl Into<String>) -> Error {
        Error::Option { key: key.to_string(), value: value.into(), expected: expected.into() }
    }
}

/// Bytes as they can be shown in a message: at most 60 of them, quoted, control characters escaped.
pub(crate) fn show(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(60)];
    let more = if cut.len() < bytes.len() { "…" } else { "" };
    format!("{:?}{more}", String::from_utf8_lossy(cut))
}
