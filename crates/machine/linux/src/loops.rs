//! A loop device over a file of our own. Both are removed when the guard is dropped, on a signal, or by the next process
//! after a crash (see [`crate::undo`]).

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::undo::{Action, Guard, own_name};
use crate::{Error, process};

/// A loop device over a new file; both are removed when this is dropped.
#[derive(Debug)]
pub struct OwnLoop {
    device: PathBuf,
    _guard: Guard,
}

impl OwnLoop {
    /// Makes a file in `dir` that only this user can read, lets `fill` write the content of the device, and attaches it.
    pub fn new(dir: &Path, fill: impl FnOnce(&mut std::fs::File) -> std::io::Result<()>) -> Result<OwnLoop, Error> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = dir.canonicalize().map_err(|e| Error::file("open", dir, e))?;
        let file = dir.join(format!("{}.img", own_name(number)?));
        // It must be new: it will be removed.
        let mut open = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&file)
            .map_err(|e| Error::file("make", &file, e))?;
        let guard = Guard::new(Action::remove_backing_file(&file), || Ok(()))?;
        fill(&mut open).map_err(|e| Error::file("write", &file, e))?;
        let mut losetup = Command::new("losetup");
        losetup.arg("--find").arg("--show").arg(&file);
        let device = guard.change(|| process::run(&mut losetup, "make a loop device over", &file))?;
        Ok(OwnLoop { device: PathBuf::from(device.trim()), _guard: guard })
    }

    /// The device, such as `/dev/loop0`.
    pub fn device(&self) -> &Path {
        &self.device
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Roots;
    use crate::backing::over;
    use crate::file::read_some;

    #[test]
    fn a_device_goes_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let made = OwnLoop::new(dir.path(), |file| file.set_len(1 << 20));
        let own = match made {
            Ok(own) => own,
            Err(e) => {
                eprintln!("skipped: {e}");
                return;
            }
        };
        let file = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
        let name = own.device().file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(over(&Roots::default(), &file), [name]);
        let device = own.device().to_owned();
        drop(own);
        assert!(!file.exists());
        let backing = Path::new("/sys/block").join(device.file_name().unwrap()).join("loop/backing_file");
        let detached = || read_some(&backing).is_none_or(|found| !found.starts_with(file.to_str().unwrap()));
        // Detached only when every process that has it open has closed it.
        let waited = (0..500).any(|_| {
            let done = detached();
            if !done {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            done
        });
        assert!(waited, "{} is still there", device.display());
        // Nothing is left of one that could not be filled.
        OwnLoop::new(dir.path(), |_| Err(std::io::Error::other("full"))).unwrap_err();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
