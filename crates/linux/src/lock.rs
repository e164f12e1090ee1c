//! Locks among processes: a file that is locked for as long as the value lives, or its process. Who holds it for long signs
//! it with the number of the process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// `None` where somebody has it, this process included.
    pub(crate) fn take(path: &Path) -> std::io::Result<Option<Lock>> {
        loop {
            let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
            let file = open?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) => return Err(e),
            }
            // Whoever had it may have removed the file after we opened it: then this is nobody's lock.
            let own = file.metadata()?;
            if std::fs::metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == (own.dev(), own.ino())) {
                file.set_len(0)?;
                return Ok(Some(Lock { path: path.into(), file }));
            }
        }
    }

    pub(crate) fn sign(&mut self) -> std::io::Result<()> {
        write!(self.file, "{}", std::process::id())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before it is unlocked.
        let _ = std::fs::remove_file(&self.path);
    }
}
