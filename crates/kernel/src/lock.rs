//! Locks among processes: a file with the holder's number that is locked for as long as the value lives, or its process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// `None` where somebody has it, this process included.
    pub(crate) fn take(path: &Path) -> std::io::Result<Option<Lock>> {
        loop {
            let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
            let mut file = open?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) => return Err(e),
            }
            // Whoever had it may have removed the file after we opened it: then this is nobody's lock.
            let own = file.metadata()?;
            if std::fs::metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == (own.dev(), own.ino())) {
                file.set_len(0)?;
                write!(file, "{}", std::process::id())?;
                return Ok(Some(Lock { path: path.into(), _file: file }));
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before it is unlocked.
        let _ = std::fs::remove_file(&self.path);
    }
}
