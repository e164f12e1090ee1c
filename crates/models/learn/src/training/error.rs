//! Errors of data and training.

use std::io;
use std::path::PathBuf;

use crate::ModelError;
use thiserror::Error;

/// An error of data or training.
#[derive(Debug, Error)]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A data file has a line that cannot be read.
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1; the header is line 1.
        line: usize,
        /// The defect.
        problem: String,
    },
    /// The folder holds no data.
    #[error("{}: {problem}", path.display())]
    Data {
        /// The folder.
        path: PathBuf,
        /// The missing part.
        problem: String,
    },
    /// A model was refused.
    #[error("{name}: {error}")]
    Model {
        /// The model.
        name: String,
        /// Why.
        #[source]
        error: ModelError,
    },
    /// The device model for the times cannot be used.
    #[error("{name}: {problem}")]
    Device {
        /// The device model.
        name: String,
        /// Why not.
        problem: String,
    },
    /// An invalid request.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        |error| Error::File { path, error }
    }
}
