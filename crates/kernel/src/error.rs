use std::path::{Path, PathBuf};

/// What can go wrong with the kernel's files, in one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the kernel cannot be read or written.
    #[error("cannot {doing} {path}: {cause}")]
    File {
        /// "read", "write 5 to" and alike.
        doing: String,
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Something is refused or not there; the text says what was found and what was expected.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    pub(crate) fn file(doing: impl Into<String>, path: &Path, cause: std::io::Error) -> Error {
        Error::File { doing: doing.into(), path: path.into(), cause }
    }
}

/// Reads a small file of the kernel, without the line end.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.trim_end().to_owned()),
        Err(cause) => Err(Error::file("read", path, cause)),
    }
}

/// The same where absence is an answer.
pub(crate) fn read_some(path: &Path) -> Option<String> {
    read(path).ok()
}

/// Writes to a file of the kernel, which must exist.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Error> {
    use std::io::Write;
    let open = std::fs::OpenOptions::new().write(true).open(path);
    // One write call: files of the kernel take a value whole.
    open.and_then(|mut f| f.write_all(text.as_bytes()))
        .map_err(|cause| Error::file(format!("write \"{text}\" to"), path, cause))
}
