//! Opening the folder of an output once, so that what happens to its path later changes nothing.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, readlinkat, unlinkat};
use rustix::process::geteuid;

/// Links that are followed in one path, as many as the kernel follows.
const MAX_LINKS: u32 = 40;
const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Mode of new folders, less the umask.
pub(crate) const OPEN_TO_ALL: u32 = 0o777;

/// Opens a folder. Links on the way are followed only where no other user can have planted them, whatever the system's
/// `fs.protected_symlinks` is. `make`: folders that are missing are made, with this mode.
pub(crate) fn open(path: &Path, make: Option<u32>) -> io::Result<OwnedFd> {
    walk(path, make).map(|(folder, _)| folder)
}

/// Also: may another user change where the path leads, by moving one of its folders?
fn walk(path: &Path, make: Option<u32>) -> io::Result<(OwnedFd, bool)> {
    let start = |path: &Path| openat(CWD, if path.is_absolute() { "/" } else { "." }, PATH_ONLY, Mode::empty());
    let mut at = start(path)?;
    let mut left = parts(path);
    let (mut links, mut changeable) = (0, false);
    while let Some(part) = left.pop() {
        let next = match openat(&at, &part, PATH_ONLY, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) if make.is_some() => {
                mkdirat(&at, &part, Mode::from_raw_mode(make.unwrap_or_default()))?;
                openat(&at, &part, PATH_ONLY, Mode::empty())?
            }
            other => other?,
        };
        let (folder, found) = (fstat(&at)?, fstat(&next)?);
        changeable |= is_changeable(&folder, &found);
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => at = next,
            FileType::Symlink => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                let target = readlinkat(&next, "", Vec::new())?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if is_planted(&folder, &found) {
                    return Err(planted_link(&part, &target, found.st_uid));
                }
                if target.is_absolute() {
                    at = start(&target)?;
                }
                left.extend(parts(&target));
            }
            _ => return Err(io::ErrorKind::NotADirectory.into()),
        }
    }
    changeable |= is_open_to_others(&fstat(&at)?);
    Ok((at, changeable))
}

fn planted_link(part: &OsStr, target: &Path, owner: u32) -> io::Error {
    let text = format!(
        "{} is a link to {} that belongs to another user (uid {owner}), who can lead it elsewhere; give the path that it \
         leads to, or a folder of your own",
        part.display(),
        target.display()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// A name in a folder that was opened once, for what is no file with content: a socket, a lock.
#[derive(Debug)]
pub struct Entry {
    folder: OwnedFd,
    name: OsString,
    path: PathBuf,
    changeable: bool,
}

impl Entry {
    /// The place that `path` names. The folder must be there; a link on the way that another user may have planted is an error.
    pub fn find(path: &Path) -> io::Result<Entry> {
        let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
        let (folder, changeable) = walk(path.parent().unwrap_or(Path::new("")), None)?;
        Ok(Entry { folder, name, path: path.to_owned(), changeable })
    }

    /// A path for system calls that leads here whatever others do: the one that was given where nobody else can change where it
    /// leads, else one by the open folder.
    pub fn path(&self) -> PathBuf {
        if !self.changeable {
            return self.path.clone();
        }
        let number = std::os::fd::AsRawFd::as_raw_fd(&self.folder);
        Path::new("/proc/self/fd").join(number.to_string()).join(&self.name)
    }

    /// What is here, if anything is; a link is not followed.
    pub fn kind(&self) -> io::Result<Option<FileType>> {
        match rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => Ok(None),
            found => Ok(Some(FileType::from_raw_mode(found?.st_mode))),
        }
    }

    /// Opens the file that is here for writing, without a change to it. A link is not followed, and a FIFO not waited for.
    pub fn open(&self) -> io::Result<std::fs::File> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(openat(&self.folder, &self.name, flags, Mode::empty())?.into())
    }

    /// Removes the file that is here; a link itself, not what it leads to.
    pub fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }
}

/// Removes a file as [`Entry::remove`] does.
pub fn remove(path: &Path) -> io::Result<()> {
    Entry::find(path)?.remove()
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
    let folder = open(parent, None).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => io::Error::new(e.kind(), format!("there is no folder {}", parent.display())),
        kind => io::Error::new(kind, format!("folder {}: {e}", parent.display())),
    })?;
    Ok((folder, name))
}

/// May `found` in `folder` have been placed there by another user, to make us write to it or through it? Only where
/// others may write to the folder. Unlike the kernel's `fs.protected_symlinks`, a folder's owner is another user too.
pub(crate) fn is_planted(folder: &Stat, found: &Stat) -> bool {
    is_open_to_others(folder) && !is_trusted(found.st_uid)
}

/// May a third user have placed `found` in `folder`: neither root, nor we, nor the folder's owner, whose file it then is?
pub(crate) fn is_of_a_third(folder: &Stat, found: &Stat) -> bool {
    is_planted(folder, found) && found.st_uid != folder.st_uid
}

/// May another user make a file in the folder?
fn is_open_to_others(folder: &Stat) -> bool {
    folder.st_mode & 0o022 != 0 || !is_trusted(folder.st_uid)
}

/// May another user put something else in the place of `found`? In a sticky folder such as `/tmp` only its owner and that of the
/// folder.
fn is_changeable(folder: &Stat, found: &Stat) -> bool {
    let kept = folder.st_mode & 0o1000 != 0 && is_trusted(folder.st_uid) && is_trusted(found.st_uid);
    is_open_to_others(folder) && !kept
}

fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}
