//! Reading text files with bounds.

use std::path::Path;

use dumbwaiter_text::TextError;

use crate::Error;

/// Largest result.
pub const TEXT_BYTES_MAX: u64 = 64 << 20;
/// Largest scenario or job file: a parsed one needs seventy times its size in memory, and the most tenants and tasks that a scenario may
/// have need less than this.
const SCENARIO_BYTES_MAX: u64 = 3 << 20;
/// Longest line of a scenario or job file.
const LINE_BYTES_MAX: usize = 1 << 20;

/// The text of a scenario or job file: at most 3 MiB, in lines of at most 1 MiB.
///
/// # Errors
/// A file that cannot be read, is no UTF-8, or is larger.
pub fn read_text(path: &Path) -> Result<String, Error> {
    let name = path.display().to_string();
    let text = dumbwaiter_text::read_text(path, SCENARIO_BYTES_MAX).map_err(|error| match error {
        TextError::Io(source) => Error::Io { path: name.clone(), source },
        TextError::Larger(_) => too_large(&name),
        TextError::NotUtf8 { line, byte } => {
            Error::invalid(format!("{name}:{line}"), format!("byte {byte:#04x} is not UTF-8; expected text"))
        }
    })?;
    check_text(&text, &name)?;
    Ok(text)
}

/// Refuses text that is larger than [`read_text`] allows; errors name `path`.
pub(crate) fn check_text(text: &str, path: &str) -> Result<(), Error> {
    if text.len() as u64 > SCENARIO_BYTES_MAX {
        return Err(too_large(path));
    }
    match text.lines().position(|line| line.len() > LINE_BYTES_MAX) {
        Some(line) => Err(Error::invalid(format!("{path}:{}", line + 1), "the line has more than 1 MiB")),
        None => Ok(()),
    }
}

fn too_large(path: &str) -> Error {
    Error::invalid(path, format!("has more than {} MiB, the largest scenario", SCENARIO_BYTES_MAX >> 20))
}
