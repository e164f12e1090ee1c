//! Which loop devices a file backs, whatever name it goes by.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::Roots;
use crate::file::read_some;

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
