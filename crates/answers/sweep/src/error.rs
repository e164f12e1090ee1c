//! Why a sweep is refused, or ended early.

use std::path::PathBuf;

/// Why a sweep is refused, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The sweep's file or a value in it is not what is expected; the text names it and says what is.
    #[error("{0}")]
    Input(String),
    /// The base scenario cannot be read.
    #[error(transparent)]
    Base(#[from] dumbwaiter_experiment::ReadError),
    /// The control ended it while traces or parts were read.
    #[error("interrupted")]
    Interrupted,
    /// The folder has something else in it.
    #[error("{folder}: {reason}")]
    Folder {
        /// The folder.
        folder: String,
        /// The problem, and the remedy.
        reason: String,
    },
    /// A part of the data set is damaged.
    #[error(
        "{path}: not a complete part of a sweep ({reason}): truncated or changed. Delete it, and its cells will run again"
    )]
    Part {
        /// The part.
        path: String,
        /// The reader's error.
        reason: String,
    },
    /// A cell failed, and the sweep was to stop at the first that does.
    #[error("cell {cell}: {reason}")]
    Cell {
        /// Its values.
        cell: String,
        /// Why it failed.
        reason: String,
    },
}

impl Error {
    pub(crate) fn input(text: impl Into<String>) -> Error {
        Error::Input(text.into())
    }
}
