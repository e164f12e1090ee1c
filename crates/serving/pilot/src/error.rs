//! Why a pilot does not start.

use std::path::PathBuf;

/// Why a pilot does not start, or a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration, or a table of scores, cannot be used.
    #[error("{}: {reason}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The defect, and the expected form.
        reason: String,
    },
    /// A file, a socket or a thread.
    #[error("{what}: {source}")]
    Io {
        /// The operation that failed.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The kernel.
    #[error(transparent)]
    Linux(#[from] dumbwaiter_linux::Error),
    /// A trace.
    #[error(transparent)]
    Trace(#[from] dumbwaiter_traces::Error),
    /// A model.
    #[error("shipped:classifier: {0}")]
    Model(#[from] dumbwaiter_learn::ModelError),
    /// A running pilot answered with an error.
    #[error("{0}")]
    Refused(String),
}
