//! Temporary folders on a device: in a file system that we mount, or in one that is mounted. Folders, mounts and the
//! programs that use them are removed when their guard is dropped, on a signal, or by the next process after a crash (see
//! [`crate::undo`]).

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::file::read_some;
use crate::undo::{Action, Guard, own_name};
use crate::{Error, Roots, process};

/// A folder that is removed with its content on drop.
#[derive(Debug)]
pub struct TemporaryFolder {
    dir: PathBuf,
    _guard: Guard,
}

impl TemporaryFolder {
    /// Mounts the file system of `kind` on `device` at a new folder that only this user can open.
    pub fn mount(device: &Path, kind: &str) -> Result<TemporaryFolder, Error> {
        TemporaryFolder::new(&std::env::temp_dir(), Action::unmount, |dir| {
            let mut command = Command::new("mount");
            command.args(["-t", kind, "-o", "noatime,nosuid,nodev,noexec"]).arg(device).arg(dir);
            process::run(&mut command, "mount", device).map(drop)
        })
    }

    /// A new folder in `dir`, which is on a file system that is mounted already.
    pub fn inside(dir: &Path) -> Result<TemporaryFolder, Error> {
        TemporaryFolder::new(dir, Action::remove_folder, |_| Ok(()))
    }

    fn new(
        parent: &Path,
        action: impl FnOnce(&Path) -> Action,
        change: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<TemporaryFolder, Error> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let parent = parent.canonicalize().map_err(|e| Error::file("open", parent, e))?;
        let dir = parent.join(own_name(number)?);
        // It must be new: what is in it will be removed.
        std::fs::DirBuilder::new().mode(0o700).create(&dir).map_err(|e| Error::file("make the folder", &dir, e))?;
        let guard = Guard::new(action(&dir), || change(&dir))?;
        Ok(TemporaryFolder { dir, _guard: guard })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Kills a process on drop, and when this process ends in any way.
#[derive(Debug)]
pub struct KillGuard {
    _guard: Guard,
}

impl KillGuard {
    /// For a running child process.
    pub fn on(pid: u32) -> Result<KillGuard, Error> {
        Ok(KillGuard { _guard: Guard::new(Action::kill(pid), || Ok(()))? })
    }
}

/// The block device of the file system that holds `dir`.
pub fn device_of(dir: &Path) -> Result<PathBuf, Error> {
    let meta = std::fs::metadata(dir).map_err(|e| Error::file("open", dir, e))?;
    if !meta.is_dir() {
        return Err(Error::Refused(format!("{} is not a folder", dir.display())));
    }
    let (major, minor) = (libc::major(meta.dev()), libc::minor(meta.dev()));
    let about = Roots::default().sys.join(format!("dev/block/{major}:{minor}/uevent"));
    let name = read_some(&about).and_then(|t| t.lines().find_map(|l| l.strip_prefix("DEVNAME=").map(str::to_owned)));
    match name {
        Some(name) => Ok(Path::new("/dev").join(name)),
        None => Err(Error::Refused(format!(
            "{} is not on a file system of one block device, such as ext4 or xfs; expected one on the drive to be measured",
            dir.display()
        ))),
    }
}

/// Makes an ext4 file system on `device`. Its content is lost. All metadata is written at once, so that the kernel has
/// nothing to initialise in the background later.
pub fn make_ext4(device: &Path) -> Result<(), Error> {
    let mut command = Command::new("mkfs.ext4");
    command.args(["-q", "-F", "-i", "1048576", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"]).arg(device);
    process::run(&mut command, "make a file system on", device).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_all_that_is_in_it() {
        let parent = tempfile::tempdir().unwrap();
        let folder = TemporaryFolder::inside(parent.path()).unwrap();
        std::fs::create_dir(folder.dir().join("db")).unwrap();
        std::fs::write(folder.dir().join("db/file"), "content").unwrap();
        let dir = folder.dir().to_owned();
        drop(folder);
        assert!(!dir.exists());
        assert!(TemporaryFolder::inside(&parent.path().join("nowhere")).is_err());
    }

    #[test]
    fn a_file_system_is_mounted_and_gone_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let Some(disk) = dumbwaiter_testkit::LoopDevice::new(folder.path(), 16 << 20) else { return };
        if let Err(e) = make_ext4(disk.path()) {
            eprintln!("skipped: {e}");
            return;
        }
        let folder = TemporaryFolder::mount(disk.path(), "ext4").unwrap();
        std::fs::write(folder.dir().join("file"), "content").unwrap();
        assert_eq!(device_of(folder.dir()).unwrap(), disk.path());
        let dir = folder.dir().to_owned();
        drop(folder);
        assert!(
            !dir.exists() && !std::fs::read_to_string("/proc/self/mountinfo").unwrap().contains(dir.to_str().unwrap())
        );
        assert!(device_of(Path::new("/proc")).unwrap_err().to_string().contains("/proc is not on a file system"));
    }

    #[test]
    fn a_program_ends_with_its_guard() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        drop(KillGuard::on(child.id()).unwrap());
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(libc::SIGKILL));
    }
}
