//! Why a server does not start, or a change is refused.

use std::io;
use std::path::PathBuf;

/// Why a server cannot start, go on, or make a change. Each says in one line what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings do not fit together.
    #[error("{0}")]
    Settings(String),
    /// The configuration file cannot be used.
    #[error("{}: {reason}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The fault and its place.
        reason: String,
    },
    /// An export cannot be served as it is set.
    #[error("export `{export}`: {what}")]
    Export {
        /// Its name.
        export: String,
        /// The fault.
        what: String,
    },
    /// There is no such export.
    #[error("there is no export `{0}`; `dumbwaiter ctl list` shows the exports")]
    NoExport(String),
    /// A target cannot be opened, or the disk on it not go on.
    #[error(transparent)]
    Disk(#[from] dumbwaiter_path::Error),
    /// A block device of this machine cannot be served.
    #[error(transparent)]
    Ublk(#[from] dumbwaiter_protocols::ublk::Error),
    /// A device model cannot be used.
    #[error("{0}")]
    Model(String),
    /// A scheduler cannot be used.
    #[error("{0}")]
    Scheduler(String),
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// Which, and on what.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The server is shutting down, or one of its threads has ended.
    #[error("the server is shutting down")]
    Gone,
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }
}
