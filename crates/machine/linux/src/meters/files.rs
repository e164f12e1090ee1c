//! Reading the small files of `/proc` and `/sys`, and the error of doing so.

use std::path::Path;

/// Why a meter does not work, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MeterError(pub(crate) String);

impl MeterError {
    /// `doing` a file failed for `cause`; names the missing right.
    pub(crate) fn file(doing: &str, path: &Path, cause: &std::io::Error) -> MeterError {
        let hint = match cause.kind() {
            std::io::ErrorKind::PermissionDenied => " (root is needed)",
            _ => "",
        };
        MeterError(format!("cannot {doing} {}: {cause}{hint}", path.display()))
    }
}

/// The text of a file, without surrounding blanks.
pub(crate) fn read(path: &Path) -> Result<String, MeterError> {
    let text = std::fs::read_to_string(path).map_err(|e| MeterError::file("read", path, &e))?;
    Ok(text.trim().to_owned())
}

/// The number in a file.
pub(crate) fn read_number(path: &Path) -> Result<u64, MeterError> {
    let text = read(path)?;
    text.parse().map_err(|_| MeterError(format!("{}: expected a number, found \"{text}\"", path.display())))
}

/// Entries of `dir`, by name; empty if it cannot be read.
pub(crate) fn folders(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut all: Vec<_> = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|f| f.path()).collect();
    all.sort();
    all
}
