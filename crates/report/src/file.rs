//! Files that are either complete or not there.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Why results could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("cannot write {path}: {source}", path = path.display())]
    Write {
        /// The file or folder that was to be written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The operating system refused to read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not a document of results.
    #[error("{path} is not a result of `compare --json`: {source}", path = path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        source: serde_json::Error,
    },
    /// The document was written by another version of the format.
    #[error("{path} has schema {found}, but this version reads schema {expected}", path = path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u64,
        /// The one that is understood.
        expected: u64,
    },
}

/// Writes a file beside its final place and renames it there once it is complete and on its way to
/// the disk, so that a failure leaves nothing half-written and an older file as it was.
pub fn write_atomically(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), Error> {
    let failed = |source| Error::Write { path: path.to_path_buf(), source };
    // Through a symbolic link to the file it names.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    match fs::metadata(&target) {
        Ok(found) if found.is_dir() => return Err(failed(io::Error::from(io::ErrorKind::IsADirectory))),
        // A pipe or a device is written as it is: renaming a file over it would destroy it.
        Ok(found) if !found.is_file() => {
            return File::options()
                .write(true)
                .open(&target)
                .and_then(|file| {
                    let mut out = BufWriter::new(file);
                    fill(&mut out)?;
                    out.flush()
                })
                .map_err(failed);
        }
        _ => {}
    }
    let name = target.file_name().ok_or_else(|| failed(io::Error::from(io::ErrorKind::IsADirectory)))?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.part", std::process::id()));
    let beside = target.with_file_name(beside);
    let written = File::create(&beside).and_then(|file| {
        let mut out = BufWriter::new(file);
        fill(&mut out)?;
        out.flush()?;
        out.get_ref().sync_data()?;
        fs::rename(&beside, &target)
    });
    written.map_err(|source| {
        // Best effort: the first error is the one to tell.
        let _ = fs::remove_file(&beside);
        failed(source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_leaves_the_old_file_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        write_atomically(&path, |out| out.write_all(b"old")).unwrap();
        let full = write_atomically(&path, |out| {
            out.write_all(b"new")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        let message = full.unwrap_err().to_string();
        assert!(message.contains("r.json") && message.contains("storage"), "{message}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn devices_and_links_stay_what_they_are() {
        use std::os::unix::fs::FileTypeExt;
        let full = Path::new("/dev/full");
        assert!(write_atomically(full, |out| out.write_all(b"x")).unwrap_err().to_string().contains("/dev/full"));
        assert!(fs::metadata(full).unwrap().file_type().is_char_device());
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_atomically(&link, |out| out.write_all(b"new")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    #[test]
    fn a_missing_folder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("no/such/r.json");
        let message = write_atomically(&path, |_| Ok(())).unwrap_err().to_string();
        assert!(message.starts_with("cannot write") && message.contains("no/such/r.json"), "{message}");
        assert!(write_atomically(dir.path(), |_| Ok(())).is_err());
    }
}
