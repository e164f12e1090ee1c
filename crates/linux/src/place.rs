//! Room for files on a device: a file system of our own, or a folder in one that is there. Both, and the programs that use
//! them, are gone when their guard is dropped, on a signal, or with the next process after a crash (see [`crate::undo`]).
#![allow(unsafe_code)]

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::file::{read, read_some};
use crate::undo::{self, Action, Guard};
use crate::{Error, Roots};

/// First letters of the names of our folders and files; others are never removed.
pub(crate) const OURS: &str = "dumbwaiter-";

/// A folder for files, which goes with all that is in it.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
    _guard: Guard,
}

impl Place {
    /// Mounts the file system of `kind` on `device` at a new folder that only this user sees.
    pub fn mount(device: &Path, kind: &str) -> Result<Place, Error> {
        Place::new(
            &std::env::temp_dir(),
            |dir| Action::Mount { dir },
            |dir| {
                let mut command = Command::new("mount");
                command.args(["-t", kind, "-o", "noatime,nosuid,nodev,noexec"]).arg(device).arg(dir);
                done(&mut command, "mount", device).map(drop)
            },
        )
    }

    /// A new folder in `dir`, which is on a file system that is mounted already.
    pub fn inside(dir: &Path) -> Result<Place, Error> {
        Place::new(dir, |dir| Action::Folder { dir }, |_| Ok(()))
    }

    fn new(
        parent: &Path,
        action: impl FnOnce(PathBuf) -> Action,
        change: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Place, Error> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let parent = parent.canonicalize().map_err(|e| Error::file("open", parent, e))?;
        let dir = parent.join(format!("{OURS}{}-{number}", std::process::id()));
        // It must be new: what is in it will be removed.
        std::fs::DirBuilder::new().mode(0o700).create(&dir).map_err(|e| Error::file("make the folder", &dir, e))?;
        let guard = Guard::of(action(dir.clone()), || change(&dir))?;
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
    /// Of a child of ours that runs.
    pub fn on(pid: u32) -> Result<Leash, Error> {
        let action = Action::Program { pid, started: undo::started(pid).unwrap_or_default() };
        Ok(Leash { _guard: Guard::of(action, || Ok(()))? })
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

/// Makes an ext4 file system on `device`. What was on it is lost. All is written at once, so that nothing is left to be
/// done in the background later.
pub fn make_ext4(device: &Path) -> Result<(), Error> {
    let mut command = Command::new("mkfs.ext4");
    command.args(["-q", "-F", "-i", "1048576", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"]).arg(device);
    done(&mut command, "make a file system on", device).map(drop)
}

/// Runs a program to its end; answers what it printed.
pub(crate) fn done(command: &mut Command, doing: &str, what: &Path) -> Result<String, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| Error::Refused(format!("cannot run {program}: {e}")))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let said = said.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or("no reason given").to_owned();
    Err(Error::Refused(format!("cannot {doing} {}: {said}", what.display())))
}

fn is_mounted(dir: &Path) -> bool {
    // Our names need no escapes.
    let table = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    table.lines().any(|line| line.split(' ').nth(4).is_some_and(|point| Path::new(point) == dir))
}

pub(crate) fn ours(path: &Path) -> bool {
    path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(OURS))
        && std::fs::symlink_metadata(path).is_ok_and(|m| !m.is_symlink())
}

/// Unmounts and removes the folder. What is busy for long is detached: it goes with its last user.
pub(crate) fn unmount(dir: &Path) -> Result<(), Error> {
    if !ours(dir) || !dir.is_dir() {
        return Ok(());
    }
    for _ in 0..40 {
        if !is_mounted(dir) || done(Command::new("umount").arg(dir), "unmount", dir).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    if is_mounted(dir) {
        done(Command::new("umount").arg("-l").arg(dir), "unmount", dir)?;
    }
    std::fs::remove_dir(dir).map_err(|e| Error::file("remove", dir, e))
}

/// Removes one of our folders with all that is in it.
pub(crate) fn remove(dir: &Path) -> Result<(), Error> {
    if !ours(dir) || !dir.is_dir() {
        return Ok(());
    }
    std::fs::remove_dir_all(dir).map_err(|e| Error::file("remove", dir, e))
}

/// Asks a child of ours to end (SIGTERM).
pub fn terminate(pid: u32) {
    // SAFETY: two integers, no memory.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGTERM) };
}

/// The program is asked to end (SIGTERM) when the thread that starts it is gone, however that ends.
pub fn end_with_us(command: &mut Command) -> &mut Command {
    let ask = || {
        // SAFETY: integers, no memory.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
        Ok(())
    };
    // SAFETY: what runs between fork and exec is one system call, which touches no memory.
    unsafe { command.pre_exec(ask) }
}

pub(crate) fn kill(pid: u32) {
    // SAFETY: two integers, no memory.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_all_that_is_in_it_and_others_stay() {
        let parent = tempfile::tempdir().unwrap();
        let place = Place::inside(parent.path()).unwrap();
        std::fs::create_dir(place.dir().join("db")).unwrap();
        std::fs::write(place.dir().join("db/file"), "content").unwrap();
        let dir = place.dir().to_owned();
        drop(place);
        assert!(!dir.exists());
        let other = parent.path().join("other");
        std::fs::create_dir(&other).unwrap();
        remove(&other).unwrap();
        unmount(&other).unwrap();
        assert!(other.exists());
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
        assert!(!dir.exists() && !is_mounted(&dir));
        assert!(device_of(Path::new("/proc")).unwrap_err().to_string().contains("/proc is not on a file system"));
    }

    #[test]
    fn a_program_ends_with_its_leash() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        drop(Leash::on(child.id()).unwrap());
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(libc::SIGKILL));
    }

    /// Not a test: the process that the test below starts and kills.
    #[test]
    #[ignore = "started by another test"]
    fn a_parent() {
        let mut child = end_with_us(Command::new("sleep").arg("600")).spawn().unwrap();
        println!("\nchild {}", child.id());
        child.wait().unwrap();
    }

    #[test]
    fn a_program_ends_with_us_however_that_is() {
        use std::io::{BufRead, BufReader};
        let mut parent = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "place::tests::a_parent"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines().map_while(Result::ok);
        let child: u32 = lines.find_map(|line| line.strip_prefix("child ")?.parse().ok()).unwrap();
        assert!(undo::started(child).is_some());
        parent.kill().unwrap();
        parent.wait().unwrap();
        let gone = |_| {
            std::thread::sleep(Duration::from_millis(10));
            undo::started(child).is_none()
        };
        assert!((0..1000).any(gone));
    }
}
