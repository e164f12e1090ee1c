//! Errors of recordings.

use std::path::PathBuf;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("{path}: {cause}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The JSON beside the rows is not as expected.
    #[error("{path}: not the description of a dispatch recording: {cause}")]
    Description {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        cause: serde_json::Error,
    },
    /// A value of the JSON beside the rows is out of its range.
    #[error("{path}: {what}")]
    Setting {
        /// The file.
        path: PathBuf,
        /// Key, value and what was expected.
        what: String,
    },
    /// A row is not as expected.
    #[error("{path}, line {line}: {what}")]
    Row {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The value found and the one expected.
        what: String,
    },
}
