//! Loop devices: who backs which, whatever name it goes by; and one over a file of our own, both gone when the guard is
//! dropped, on a signal, or with the next process after a crash (see [`crate::undo`]).
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::file::read_some;
use crate::place::{OURS, done, ours};
use crate::undo::{Action, Guard};
use crate::{Error, Roots};

/// A loop device over a new file; both go with this value.
#[derive(Debug)]
pub struct OwnLoop {
    device: PathBuf,
    _guard: Guard,
}

impl OwnLoop {
    /// Makes a file in `dir`, which only this user sees, lets `fill` write what is to be on the device, and attaches it.
    pub fn new(dir: &Path, fill: impl FnOnce(&mut std::fs::File) -> std::io::Result<()>) -> Result<OwnLoop, Error> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = dir.canonicalize().map_err(|e| Error::file("open", dir, e))?;
        let file = dir.join(format!("{OURS}{}-{number}.img", std::process::id()));
        // It must be new: it will be removed.
        let mut open = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&file)
            .map_err(|e| Error::file("make", &file, e))?;
        let guard = Guard::of(Action::Loop { file: file.clone() }, || Ok(()))?;
        fill(&mut open).map_err(|e| Error::file("write", &file, e))?;
        let mut losetup = Command::new("losetup");
        losetup.arg("--find").arg("--show").arg(&file);
        let device = guard.change(|| done(&mut losetup, "make a loop device over", &file))?;
        Ok(OwnLoop { device: PathBuf::from(device.trim()), _guard: guard })
    }

    /// The device, such as `/dev/loop0`.
    pub fn device(&self) -> &Path {
        &self.device
    }
}

/// Detaches what is over one of our files, then removes that.
pub(crate) fn remove(file: &Path) -> Result<(), Error> {
    if !ours(file) || !file.is_file() {
        return Ok(());
    }
    for name in over(&Roots::default(), file) {
        let device = Path::new("/dev").join(name);
        done(Command::new("losetup").arg("--detach").arg(&device), "detach", &device)?;
    }
    std::fs::remove_file(file).map_err(|e| Error::file("remove", file, e))
}

/// What a path leads to: the number of a device, or where a file is. Two names of one thing have the same.
#[derive(PartialEq, Eq)]
enum Thing {
    Device(u64),
    File(u64, u64),
}

fn thing(path: &Path) -> Option<Thing> {
    let meta = std::fs::metadata(path).ok()?;
    let device = meta.file_type().is_block_device();
    Some(if device { Thing::Device(meta.rdev()) } else { Thing::File(meta.dev(), meta.ino()) })
}

/// Do two names mean one thing? Where that cannot be looked up, the names decide.
pub(crate) fn same(a: &Path, b: &Path) -> bool {
    match (thing(a), thing(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// Names of the loop devices that have `backing` as their file, sorted.
pub(crate) fn over(roots: &Roots, backing: &Path) -> Vec<String> {
    let backs = |disk: &Path, name: &str| {
        let Some(told) = read_some(&disk.join("loop/backing_file")) else { return false };
        // The name that it was attached by is gone, others may be left.
        match told.strip_suffix(" (deleted)") {
            Some(_) if !Path::new(&told).exists() => asked(&Path::new("/dev").join(name)) == thing(backing),
            _ => same(Path::new(&told), backing),
        }
    };
    let all = std::fs::read_dir(roots.sys.join("block")).into_iter().flatten().flatten();
    let mut found: Vec<String> = all
        .filter_map(|d| Some((d.path(), d.file_name().into_string().ok()?)))
        .filter(|(disk, name)| backs(disk, name))
        .map(|(_, name)| name)
        .collect();
    found.sort();
    found
}

/// The file below a loop device as the kernel tells it, which needs no name of the file.
fn asked(device: &Path) -> Option<Thing> {
    const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
    /// `struct loop_info64`: device and inode come first, the rest is not looked at.
    #[repr(C)]
    struct Info {
        device: u64,
        inode: u64,
        rest: [u64; 27],
    }
    let open = std::fs::File::open(device).ok()?;
    let mut info = Info { device: 0, inode: 0, rest: [0; 27] };
    // SAFETY: the kernel fills a structure of 232 bytes, which this one is.
    let done = unsafe { libc::ioctl(open.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) };
    (done == 0).then_some(Thing::File(info.device, info.inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_goes_with_its_file_and_other_files_stay() {
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
        let detached = || read_some(&backing).is_none_or(|told| !told.starts_with(file.to_str().unwrap()));
        // It is only when whoever looks at it in this moment has closed it.
        let waited = (0..500).any(|_| {
            let done = detached();
            if !done {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            done
        });
        assert!(waited, "{} is still there", device.display());
        let other = dir.path().join("other");
        std::fs::write(&other, "x").unwrap();
        remove(&other).unwrap();
        assert!(other.exists());
        // Nothing is left of one that could not be filled.
        OwnLoop::new(dir.path(), |_| Err(std::io::Error::other("full"))).unwrap_err();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
