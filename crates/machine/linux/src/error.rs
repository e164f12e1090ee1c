use std::path::{Path, PathBuf};

/// An error of a kernel file or a refusal, in one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the kernel cannot be read or written.
    #[error("cannot {doing} {path}: {cause}")]
    File {
        /// The operation, such as "read" or "write 5 to".
        doing: String,
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// Something is refused or missing; the text names what was found and what was expected.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// The error of doing something with a file, such as "read".
    pub fn file(doing: impl Into<String>, path: &Path, cause: std::io::Error) -> Error {
        Error::File { doing: doing.into(), path: path.into(), cause }
    }
}
