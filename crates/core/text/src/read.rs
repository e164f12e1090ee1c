//! Text files of people, with a bound.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;

/// Bytes of the largest configuration: a parsed one needs seventy times its size in memory.
const CONFIG_BYTES_MAX: u64 = 3 << 20;

/// Why a file is no text that can be used.
#[derive(Debug)]
pub enum TextError {
    /// It cannot be read.
    Io(io::Error),
    /// It has more than this many bytes.
    Larger(u64),
    /// It has a byte that is not UTF-8.
    NotUtf8 {
        /// In this line, from 1 on.
        line: usize,
        /// The byte.
        byte: u8,
    },
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextError::Io(error) => error.fmt(f),
            TextError::Larger(most) => write!(f, "larger than {} MiB", most >> 20),
            TextError::NotUtf8 { line, byte } => write!(f, "line {line}: byte {byte:#04x} is not UTF-8"),
        }
    }
}

/// The text of a file of at most `most` bytes.
///
/// # Errors
/// It cannot be read, is no UTF-8, or is larger.
pub fn read_text(path: &Path, most: u64) -> Result<String, TextError> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(TextError::Io)?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(TextError::Io)?;
    if bytes.len() as u64 > most {
        return Err(TextError::Larger(most));
    }
    String::from_utf8(bytes).map_err(|error| {
        let (at, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        TextError::NotUtf8 { line: 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count(), byte: bytes[at] }
    })
}

/// The text of a configuration of at most 3 MiB.
///
/// # Errors
/// In words, without the path.
pub fn read_config(path: &Path) -> Result<String, String> {
    read_text(path, CONFIG_BYTES_MAX).map_err(|error| match error {
        TextError::Io(error) => error.to_string(),
        error => format!("{error}; expected a configuration in TOML"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.toml");
        std::fs::write(&path, b"a = 1\nb = \"\xff\"\n").unwrap();
        assert_eq!(read_config(&path).unwrap_err(), "line 2: byte 0xff is not UTF-8; expected a configuration in TOML");
        assert!(read_config(Path::new("/dev/zero")).unwrap_err().starts_with("larger than 3 MiB"));
        assert!(read_config(folder.path()).unwrap_err().contains("directory"));
    }
}
