//! Files that are either complete or not there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, IntoInnerError, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, fstat, openat, readlinkat, renameat, statat,
    unlinkat,
};
use rustix::process::geteuid;

use crate::folder;
use crate::leftover::{is_at, random_name, remove_from};

/// Names tried before giving up. The second is needed only where another process took the first, still unlocked, for a
/// leftover.
const NAME_TRIES: u32 = 8;

/// A file that is written beside its final place and gets its name with [`OutputFile::commit`]; dropped before that, it
/// is removed, and an older file stays as it was.
///
/// - The unfinished file is created exclusively under an unpredictable name, in a folder that is opened once. A link
///   at the final name is replaced, never followed; another hard link to the old file keeps the old content.
/// - The mode of a regular file that is replaced is kept (without set-user-ID and alike), by root also its owner and
///   group; not where another user may have planted that file. Access control lists and extended attributes are not kept.
/// - The content is on its way to the disk before the file gets its name, so that after a power failure the old or the
///   new file is there.
/// - `/dev/stdout`, `/dev/stderr`, `/dev/fd/N`, a FIFO and a character device are written directly, for there is
///   nothing to replace. A folder and a block device are refused.
/// - An unfinished file left by a run that was killed is removed by the next run that writes to that folder, which says
///   so on stderr.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    /// `None` where the file is written directly.
    unnamed: Option<Unnamed>,
}

/// A file without its final name; removed when dropped.
#[derive(Debug)]
struct Unnamed {
    folder: OwnedFd,
    hidden: String,
    name: OsString,
    /// The file that is replaced, if its mode is to be kept.
    replaced: Option<Stat>,
    done: bool,
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        if !self.done {
            // Nothing can be done about one that cannot be removed; the next run tries again.
            let _ = unlinkat(&self.folder, &self.hidden, AtFlags::empty());
        }
    }
}

/// The place that an output path names.
enum Place {
    /// A file of ours that is open already.
    Descriptor(File),
    /// A FIFO or a character device.
    Special(OwnedFd, OsString),
    /// A name in a folder, and what is there now.
    Name(OwnedFd, OsString, Option<Stat>),
}

impl OutputFile {
    /// Starts a file that will be at `path`.
    pub fn create(path: &Path) -> io::Result<OutputFile> {
        match place(path)? {
            Place::Descriptor(file) => Ok(OutputFile { file, unnamed: None }),
            Place::Special(folder, name) => Ok(OutputFile { file: open_special(&folder, &name)?, unnamed: None }),
            Place::Name(folder, name, there) => {
                remove_from(&folder, path.parent().unwrap_or(Path::new("")));
                let inside = fstat(&folder)?;
                let replaced = there.filter(|old| {
                    FileType::from_raw_mode(old.st_mode) == FileType::RegularFile
                        && !folder::is_of_a_third(&inside, old)
                });
                // Permissions are no wider before it is complete than afterwards.
                let mode = if replaced.is_some() { 0o600 } else { 0o666 };
                let (file, hidden) = create_hidden(&folder, Mode::from_raw_mode(mode))?;
                Ok(OutputFile { file, unnamed: Some(Unnamed { folder, hidden, name, replaced, done: false }) })
            }
        }
    }

    /// Gives the file its name. It stays open for further writes.
    pub fn commit(self) -> io::Result<File> {
        let OutputFile { file, unnamed } = self;
        if let Some(mut unnamed) = unnamed {
            if let Some(old) = &unnamed.replaced {
                if geteuid().is_root() {
                    // Not on every file system.
                    let _ = fchown(&file, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)));
                }
                fchmod(&file, Mode::from_raw_mode(old.st_mode & 0o777))?;
            }
            file.sync_data()?;
            renameat(&unnamed.folder, &unnamed.hidden, &unnamed.folder, &unnamed.name)?;
            unnamed.done = true;
            // It is no leftover any more, even if another program keeps it open.
            let _ = file.unlock();
        }
        Ok(file)
    }

    /// The open file, for what [`Write`] and [`Seek`] do not offer.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Writes a whole file by way of an [`OutputFile`]: after an error, nothing half-written is left and an older file is as
/// it was.
pub fn write(path: &Path, fill: impl FnOnce(&mut BufWriter<OutputFile>) -> io::Result<()>) -> io::Result<()> {
    let _writing = crate::Writing::begin();
    let mut out = BufWriter::new(OutputFile::create(path)?);
    fill(&mut out)?;
    out.into_inner().map_err(IntoInnerError::into_error)?.commit().map(drop)
}

/// Can a file be written at `path`? To be asked before long work. More careful than [`OutputFile::create`]: a symbolic
/// link is refused, for it would be replaced.
pub fn check(path: &Path) -> io::Result<()> {
    let Place::Name(folder, name, there) = place(path)? else { return Ok(()) };
    if there.is_some_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink) {
        let target = readlinkat(&folder, &name, Vec::new())?;
        let target = String::from_utf8_lossy(target.as_bytes()).into_owned();
        return Err(io::Error::other(format!("it is a symbolic link to {target}; expected the name of a file")));
    }
    OutputFile::create(path).map(drop)
}

/// Makes a folder, and those above it, where they are missing.
pub fn create_folder(path: &Path) -> io::Result<()> {
    folder::open(path, Some(folder::OPEN_TO_ALL)).map(drop)
}

/// As [`create_folder`]; what is made is for its owner alone.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    folder::open(path, Some(0o700)).map(drop)
}

fn place(path: &Path) -> io::Result<Place> {
    if let Some(file) = descriptor(path)? {
        return Ok(Place::Descriptor(file));
    }
    let (folder, name) = folder::of_file(path)?;
    let found = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(rustix::io::Errno::NOENT) => None,
        found => Some(found?),
    };
    let name = name.to_owned();
    let Some(there) = found else { return Ok(Place::Name(folder, name, None)) };
    match FileType::from_raw_mode(there.st_mode) {
        FileType::RegularFile | FileType::Symlink => Ok(Place::Name(folder, name, Some(there))),
        FileType::Directory => Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")),
        FileType::BlockDevice => Err(io::Error::other("it is a block device; expected the name of a file")),
        _ if folder::is_planted(&fstat(&folder)?, &there) => {
            let text = "it is a special file that belongs to another user; expected the name of a file, or a folder of your own";
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        }
        _ => Ok(Place::Special(folder, name)),
    }
}

/// The kernel's names of this process's own descriptors: `/dev/stdout`, `/dev/fd/3` and alike.
fn descriptor(path: &Path) -> io::Result<Option<File>> {
    let numbered = ["/dev/fd", "/proc/self/fd"].iter().find_map(|dir| path.strip_prefix(dir).ok());
    let number = numbered.and_then(|rest| rest.to_str()?.parse::<u32>().ok());
    let standard = |own: &dyn AsFd| own.as_fd().try_clone_to_owned().map(|fd| Some(File::from(fd)));
    match (path.to_str(), number) {
        (Some("/dev/stdout"), _) | (_, Some(1)) => standard(&io::stdout()),
        (Some("/dev/stderr"), _) | (_, Some(2)) => standard(&io::stderr()),
        // Such as bash's `>(program)`. These names are the kernel's: no user can plant one.
        (_, Some(n)) => File::options().write(true).open(PathBuf::from(format!("/proc/self/fd/{n}"))).map(Some),
        _ => Ok(None),
    }
}

/// Waits for a FIFO's reader.
fn open_special(folder: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(folder, name, flags, Mode::empty())?);
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::Fifo | FileType::CharacterDevice => Ok(file),
        _ => Err(io::Error::other("it became another file while it was opened")),
    }
}

/// A new file, locked for as long as it is open: that tells it from a leftover.
fn create_hidden(folder: &OwnedFd, mode: Mode) -> io::Result<(File, String)> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..NAME_TRIES {
        let hidden = random_name()?;
        let file = match openat(folder, &hidden, flags, mode) {
            Err(rustix::io::Errno::EXIST) => continue,
            made => File::from(made?),
        };
        // A file system without locks has no cleaning either.
        let taken = matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock));
        if !taken && is_at(folder, &hidden, &file) {
            return Ok((file, hidden));
        }
    }
    Err(io::Error::other("another process removes every new file in this folder"))
}
