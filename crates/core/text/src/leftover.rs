//! Unfinished files of runs that were killed: how they are named, recognised and removed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::folder;
use crate::terminal::say;

const PREFIX: &str = ".dumbwaiter-";
const SUFFIX: &str = ".part";
const RANDOM_BYTES: usize = 16;

/// An unpredictable name.
pub(crate) fn random_name() -> io::Result<String> {
    let mut bytes = [0u8; RANDOM_BYTES];
    // So few bytes are never cut short.
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    Ok(format!("{PREFIX}{digits}{SUFFIX}"))
}

fn is_ours(name: &str) -> bool {
    let digits = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    digits.is_some_and(|d| d.len() == 2 * RANDOM_BYTES && d.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Removes the unfinished files that runs of this user left in a folder when they were killed, and says each on stderr.
/// A file that is being written is locked by its writer, and stays.
pub fn remove_leftovers(dir: &Path) -> io::Result<()> {
    remove_from(&folder::open(dir, None)?, dir);
    Ok(())
}

/// A folder that cannot be listed keeps what is in it.
pub(crate) fn remove_from(folder: &OwnedFd, shown: &Path) {
    let listed = openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    for entry in listed.and_then(Dir::new).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().to_str() else { continue };
        if is_ours(name) && remove_one(folder, name) {
            let shown = if shown.as_os_str().is_empty() { Path::new(".") } else { shown };
            say(&format!("removed {}, which a run that was killed left unfinished", shown.join(name).display()));
        }
    }
}

fn remove_one(folder: &OwnedFd, name: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = openat(folder, name, flags, Mode::empty()).map(File::from) else { return false };
    let own = fstat(&file).is_ok_and(|found| {
        FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_uid == geteuid().as_raw()
    });
    own && file.try_lock().is_ok() && is_at(folder, name, &file) && unlinkat(folder, name, AtFlags::empty()).is_ok()
}

/// Is `file` what has this name in the folder?
pub(crate) fn is_at(folder: impl AsFd, name: &str, file: &File) -> bool {
    let named = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    matches!((named, fstat(file)), (Ok(a), Ok(b)) if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
}
