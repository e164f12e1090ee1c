//! Room for files on a device: a file system of our own, or a folder in one that is there. Both, and the programs that use
//! them, are gone when their guard is dropped, on a signal, or with the next process after a crash (see [`crate::undo`]).

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::file::read_some;
use crate::undo::{Action, Guard, OWN_PREFIX};
use crate::{Error, Roots, process};

/// A folder for files, which is removed with its content when this is dropped.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
    _guard: Guard,
}

impl Place {
    /// Mounts the file system of `kind` on `device` at a new folder that only this user can open.
    pub fn mount(device: &Path, kind: &str) -> Result<Place, Error> {
        Place::new(&std::env::temp_dir(), Action::unmount, |dir| {
            let mut command = Command::new("mount");
            command.args(["-t", kind, "-o", "noatime,nosuid,nodev,noexec"]).arg(device).arg(dir);
            process::run(&mut command, "mount", device).map(drop)
        })
    }

    /// A new folder in `dir`, which is on a file system that is mounted already.
    pub fn inside(dir: &Path) -> Result<Place, Error> {
        Place::new(dir, Action::remove_folder, |_| Ok(()))
    }

    fn new(
        parent: &Path,
        action: impl FnOnce(&Path) -> Action,
        change: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Place, Error> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let parent = parent.canonicalize().map_err(|e| Error::file("open", parent, e))?;
        let dir = parent.join(format!("{OWN_PREFIX}{}-{number}", std::process::id()));
        // It must be new: what is in it will be removed.
        std::fs::DirBuilder::new().mode(0o700).create(&dir).map_err(|e| Error::file("make the folder", &dir, e))?;
        let guard = Guard::new(action(&dir), || change(&dir))?;
        Ok(Place { dir, _guard: guard })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// A program that is killed with the guard, or when we end in any way.
#[derive(Debug)]
pub struct Leash {
    _guard: Guard,
}

impl Leash {
    /// For a running child of ours.
    pub fn on(pid: u32) -> Result<Leash, Error> {
        Ok(Leash { _guard: Guard::new(Action::kill(pid), || Ok(()))? })
    }
}

/// The block device that the file system of `dir` is on.
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
        let place = Place::inside(parent.path()).unwrap();
        std::fs::create_dir(place.dir().join("db")).unwrap();
        std::fs::write(place.dir().join("db/file"), "content").unwrap();
        let dir = place.dir().to_owned();
        drop(place);
        assert!(!dir.exists());
        assert!(Place::inside(&parent.path().join("nowhere")).is_err());
    }

    #[test]
    fn a_file_system_is_mounted_and_gone_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let Some(disk) = dumbwaiter_testkit::LoopDevice::new(folder.path(), 16 << 20) else { return };
        if let Err(e) = make_ext4(disk.path()) {
            eprintln!("skipped: {e}");
            return;
        }
        let place = Place::mount(disk.path(), "ext4").unwrap();
        std::fs::write(place.dir().join("file"), "content").unwrap();
        assert_eq!(device_of(place.dir()).unwrap(), disk.path());
        let dir = place.dir().to_owned();
        drop(place);
        assert!(
            !dir.exists() && !std::fs::read_to_string("/proc/self/mountinfo").unwrap().contains(dir.to_str().unwrap())
        );
        assert!(device_of(Path::new("/proc")).unwrap_err().to_string().contains("/proc is not on a file system"));
    }

    #[test]
    fn a_program_ends_with_its_leash() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        drop(Leash::on(child.id()).unwrap());
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(libc::SIGKILL));
    }
}
