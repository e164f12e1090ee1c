//! The text of a configuration file.

use std::io::Read;
use std::path::Path;

/// Bytes of the largest configuration.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// The text of a configuration file of at most 16 MiB.
///
/// # Errors
/// In words, without the path: it cannot be read, is no UTF-8, or is larger.
pub fn config_text(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
    file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        return Err(format!("larger than {} MiB; expected a configuration in TOML", TEXT_BYTES_MAX >> 20));
    }
    String::from_utf8(bytes).map_err(|error| {
        let (at, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let line = 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count();
        format!("line {line}: byte {:#04x} is not UTF-8; expected a configuration in TOML", bytes[at])
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
        assert_eq!(config_text(&path).unwrap_err(), "line 2: byte 0xff is not UTF-8; expected a configuration in TOML");
        assert!(config_text(Path::new("/dev/zero")).unwrap_err().starts_with("larger than 16 MiB"));
        assert!(config_text(folder.path()).unwrap_err().contains("directory"));
    }
}
