//! Writes files, and their errors.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use dumbwaiter_text::OutputFile;

/// Why results could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    Write {
        /// The file or folder that was to be written.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file could not be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a document of results.
    #[error("{path} is not a result of `compare --json`: {source}", path = path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The error and its position.
        source: serde_json::Error,
    },
    /// The document was written by another version of the format.
    #[error("{path} has schema {found}, but this version reads schema {expected}", path = path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Schema of the file.
        found: u64,
        /// Schema that this version reads.
        expected: u64,
    },
}

/// Writes a file completely or not at all, and never through a link.
pub(crate) fn write_file(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<OutputFile>) -> io::Result<()>,
) -> Result<(), Error> {
    dumbwaiter_text::write(path, fill).map_err(|source| Error::Write { path: path.to_path_buf(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn an_error_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("no/such/r.json");
        let message = write_file(&path, |_| Ok(())).unwrap_err().to_string();
        assert!(message.starts_with("cannot write") && message.contains("no/such/r.json"), "{message}");
        let message = write_file(Path::new("/dev/full"), |out| out.write_all(b"x")).unwrap_err().to_string();
        assert!(message.contains("/dev/full"), "{message}");
    }
}
