//! Reading text files with bounds.

use std::io::Read;
use std::path::Path;

use crate::Error;

/// Largest scenario, job file or result.
pub const TEXT_BYTES_MAX: u64 = 64 << 20;
/// Longest line of a scenario or job file.
const LINE_BYTES_MAX: usize = 1 << 20;

/// The text of a scenario or job file: at most 64 MiB, in lines of at most 1 MiB.
///
/// # Errors
/// A file that cannot be read, is no UTF-8, or is larger.
pub fn read_text(path: &Path) -> Result<String, Error> {
    let name = || path.display().to_string();
    let failed = |source| Error::Io { path: name(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let (at, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let line = 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count();
        Error::invalid(format!("{}:{line}", name()), format!("byte {:#04x} is not UTF-8; expected text", bytes[at]))
    })?;
    check_text(&text, &name())?;
    Ok(text)
}

/// Refuses text that is larger than [`read_text`] allows; errors name `path`.
pub(crate) fn check_text(text: &str, path: &str) -> Result<(), Error> {
    if text.len() as u64 > TEXT_BYTES_MAX {
        return Err(Error::invalid(path, format!("has more than {} MiB, the largest scenario", TEXT_BYTES_MAX >> 20)));
    }
    match text.lines().position(|line| line.len() > LINE_BYTES_MAX) {
        Some(line) => Err(Error::invalid(format!("{path}:{}", line + 1), "the line has more than 1 MiB")),
        None => Ok(()),
    }
}
