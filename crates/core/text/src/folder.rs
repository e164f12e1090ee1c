//! Opening the folder of an output once, so that what happens to its path later changes nothing.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, readlinkat};
use rustix::process::geteuid;

/// Links that are followed in one path, as many as the kernel follows.
const MAX_LINKS: u32 = 40;
const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a folder. Links on the way are followed only where no other user can have planted them, whatever the system's
/// `fs.protected_symlinks` is. `make`: folders that are missing are made.
pub(crate) fn open(path: &Path, make: bool) -> io::Result<OwnedFd> {
    let start = |path: &Path| openat(CWD, if path.is_absolute() { "/" } else { "." }, PATH_ONLY, Mode::empty());
    let mut at = start(path)?;
    let mut left = parts(path);
    let mut links = 0;
    while let Some(part) = left.pop() {
        let next = match openat(&at, &part, PATH_ONLY, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) if make => {
                mkdirat(&at, &part, Mode::from_raw_mode(0o777))?;
                openat(&at, &part, PATH_ONLY, Mode::empty())?
            }
            other => other?,
        };
        let found = fstat(&next)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => at = next,
            FileType::Symlink => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                if is_planted(&fstat(&at)?, &found) {
                    let text = format!("{} is a link that belongs to another user", part.display());
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
                }
                let target = readlinkat(&next, "", Vec::new())?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    at = start(&target)?;
                }
                left.extend(parts(&target));
            }
            _ => return Err(io::ErrorKind::NotADirectory.into()),
        }
    }
    Ok(at)
}

/// The components below the start, the first one last.
fn parts(path: &Path) -> Vec<OsString> {
    let below = path.components().filter(|c| matches!(c, Component::Normal(_) | Component::ParentDir));
    below.rev().map(|c| c.as_os_str().to_owned()).collect()
}

/// Opens the folder that a file is in or is to be in; the name of the file.
pub(crate) fn of_file(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let parent = path.parent().unwrap_or(Path::new(""));
    let folder = open(parent, false).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => io::Error::new(e.kind(), format!("there is no folder {}", parent.display())),
        kind => io::Error::new(kind, format!("folder {}: {e}", parent.display())),
    })?;
    Ok((folder, name))
}

/// May `found` in `folder` have been placed there by another user, to make us write to it or through it? Only where
/// others may write to the folder. (The kernel's `fs.protected_symlinks` and `fs.protected_fifos` ask the same.)
pub(crate) fn is_planted(folder: &Stat, found: &Stat) -> bool {
    let trusted = [0, geteuid().as_raw(), folder.st_uid];
    folder.st_mode & 0o022 != 0 && !trusted.contains(&found.st_uid)
}
