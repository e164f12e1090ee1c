//! Locks between processes: a file that is locked for as long as the value lives, or its process. A long-time holder
//! writes its process number into it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Takes the lock; `None` where it is held, by this process or another.
    pub(crate) fn take(path: &Path) -> std::io::Result<Option<Lock>> {
        loop {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
            let file = options.open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) => return Err(e),
            }
            // The last holder may have removed the file after we opened it: then this locks nothing.
            let own = file.metadata()?;
            if std::fs::metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == (own.dev(), own.ino())) {
                file.set_len(0)?;
                return Ok(Some(Lock { path: path.into(), file }));
            }
        }
    }

    /// Writes this process's number into the file.
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
