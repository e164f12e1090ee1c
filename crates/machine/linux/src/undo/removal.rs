//! Removing what we made: cgroups, trace instances, mounts, folders, loop devices. What is gone already is no error.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::file::{read, read_some, write};
use crate::{Error, Roots, backing, process};

/// First letters of the names of our folders and files; others are never removed.
const OWN_PREFIX: &str = "dumbwaiter-";

/// How often the removal of a busy folder is tried, and how long between two tries.
const BUSY_TRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(10);
/// The same for a busy mount, before it is detached.
const UNMOUNT_TRIES: u32 = 40;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(50);

/// A name for a file or folder in a place where others may write, which they cannot foresee; `number` counts those of this process.
pub(crate) fn own_name(number: u64) -> Result<String, Error> {
    let random = read(Path::new("/proc/sys/kernel/random/uuid"))?;
    Ok(format!("{OWN_PREFIX}{}-{}-{number}", std::process::id(), random.replace('-', "")))
}

/// Has it one of our names, and belongs to this user? Another user may have planted it where ours was.
fn is_own(path: &Path) -> bool {
    let user = std::fs::metadata("/proc/self").map(|process| process.uid());
    path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(OWN_PREFIX))
        && std::fs::symlink_metadata(path).is_ok_and(|m| !m.is_symlink() && user.is_ok_and(|user| user == m.uid()))
}

/// Moves the members of a cgroup to `home`, or to the root group where that is gone, and removes the cgroup.
pub(crate) fn remove_cgroup(dir: &Path, home: &Path) -> Result<(), Error> {
    if !dir.is_dir() {
        return Ok(());
    }
    // Threads where they can be moved, else processes. One that ended meanwhile cannot be moved, which is no problem.
    let file = if dir.join("tasks").exists() { "tasks" } else { "cgroup.procs" };
    let root = home.ancestors().filter(|group| group.join(file).exists()).last().unwrap_or(home);
    for member in read_some(&dir.join(file)).unwrap_or_default().lines() {
        let _ = write(&home.join(file), member).or_else(|_| write(&root.join(file), member));
    }
    remove_when_free(dir).map_err(|e| Error::file("remove the cgroup", dir, e))
}

/// Removes a tracefs instance, and with it what is enabled in it.
pub(crate) fn remove_instance(dir: &Path) -> Result<(), Error> {
    if !dir.exists() {
        return Ok(());
    }
    remove_when_free(dir).map_err(|e| Error::file("remove", dir, e))
}

pub(crate) fn remove_probe(file: &Path, event: &str) -> Result<(), Error> {
    match write(file, &format!("-:{event}")) {
        Err(Error::File { cause, .. }) if cause.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Removes a folder that may be in use for a moment still.
fn remove_when_free(dir: &Path) -> std::io::Result<()> {
    for _ in 0..BUSY_TRIES {
        match std::fs::remove_dir(dir) {
            Err(e) if e.kind() == ErrorKind::ResourceBusy => std::thread::sleep(BUSY_PAUSE),
            done => return done,
        }
    }
    std::fs::remove_dir(dir)
}

pub(crate) fn is_mounted(dir: &Path) -> bool {
    // Our names need no escapes.
    let table = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    table.lines().any(|line| line.split(' ').nth(4).is_some_and(|point| Path::new(point) == dir))
}

/// Unmounts one of our folders and removes it. A mount that stays busy is detached, and ends with its last user.
pub(crate) fn unmount(dir: &Path) -> Result<(), Error> {
    if !is_own(dir) || !dir.is_dir() {
        return Ok(());
    }
    for _ in 0..UNMOUNT_TRIES {
        if !is_mounted(dir) || process::run(Command::new("umount").arg(dir), "unmount", dir).is_ok() {
            break;
        }
        std::thread::sleep(UNMOUNT_PAUSE);
    }
    if is_mounted(dir) {
        process::run(Command::new("umount").arg("-l").arg(dir), "unmount", dir)?;
    }
    std::fs::remove_dir(dir).map_err(|e| Error::file("remove", dir, e))
}

/// Removes one of our folders with all that is in it.
pub(crate) fn remove_folder(dir: &Path) -> Result<(), Error> {
    if !is_own(dir) || !dir.is_dir() {
        return Ok(());
    }
    std::fs::remove_dir_all(dir).map_err(|e| Error::file("remove", dir, e))
}

/// Detaches the loop devices over one of our files, then removes the file.
pub(crate) fn remove_backing_file(file: &Path) -> Result<(), Error> {
    if !is_own(file) || !file.is_file() {
        return Ok(());
    }
    for name in backing::over(&Roots::default(), file) {
        let device = Path::new("/dev").join(name);
        process::run(Command::new("losetup").arg("--detach").arg(&device), "detach", &device)?;
    }
    std::fs::remove_file(file).map_err(|e| Error::file("remove", file, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(dir: &Path, path: &str, text: &str) {
        let path = dir.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn members_of_a_group_whose_home_is_gone_go_to_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        put(dir.path(), "cg/cgroup.procs", "");
        put(dir.path(), "cg/group/cgroup.procs", "42\n");
        // Unlike a cgroup, a folder of plain files cannot be removed; the moved member is seen all the same.
        remove_cgroup(&at("cg/group"), &at("cg/gone/too")).unwrap_err();
        assert_eq!(std::fs::read_to_string(at("cg/cgroup.procs")).unwrap(), "42");
        put(dir.path(), "cg/cgroup.procs", "");
        put(dir.path(), "cg/home/cgroup.procs", "");
        remove_cgroup(&at("cg/group"), &at("cg/home")).unwrap_err();
        assert_eq!(std::fs::read_to_string(at("cg/home/cgroup.procs")).unwrap(), "42");
        assert_eq!(std::fs::read_to_string(at("cg/cgroup.procs")).unwrap(), "");
    }

    #[test]
    fn what_is_not_ours_is_never_removed() {
        let parent = tempfile::tempdir().unwrap();
        put(parent.path(), "dir/file", "x");
        put(parent.path(), "dumbwaiter-real/file", "x");
        std::os::unix::fs::symlink("dumbwaiter-real", parent.path().join("dumbwaiter-link")).unwrap();
        for name in ["dir", "dumbwaiter-link"] {
            remove_folder(&parent.path().join(name)).unwrap();
            unmount(&parent.path().join(name)).unwrap();
        }
        remove_backing_file(&parent.path().join("dir/file")).unwrap();
        assert!(parent.path().join("dir/file").exists() && parent.path().join("dumbwaiter-link/file").exists());
    }
}
