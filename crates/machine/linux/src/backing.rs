//! Which loop devices a file backs, whatever name it goes by.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::Roots;
use crate::file::read_some;

/// The file of a path: the number of a device, or the inode of a file. Two names of one file have the same.
#[derive(PartialEq, Eq)]
enum Identity {
    Device(u64),
    File(u64, u64),
}

fn identity(path: &Path) -> Option<Identity> {
    let meta = std::fs::metadata(path).ok()?;
    let device = meta.file_type().is_block_device();
    Some(if device { Identity::Device(meta.rdev()) } else { Identity::File(meta.dev(), meta.ino()) })
}

/// Do two paths lead to the same file or device? Where that cannot be looked up, the paths are compared.
pub(crate) fn same(a: &Path, b: &Path) -> bool {
    match (identity(a), identity(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// Names of the loop devices that have `backing` as their file, sorted.
pub(crate) fn over(roots: &Roots, backing: &Path) -> Vec<String> {
    let backs = |disk: &Path, name: &str| {
        let Some(backing_file) = read_some(&disk.join("loop/backing_file")) else { return false };
        // The name that it was attached by is gone; the file may have others.
        match backing_file.strip_suffix(" (deleted)") {
            Some(_) if !Path::new(&backing_file).exists() => {
                reported(&Path::new("/dev").join(name)) == identity(backing)
            }
            _ => same(Path::new(&backing_file), backing),
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

/// The file below a loop device as the kernel reports it, also where the file has no name any more.
fn reported(device: &Path) -> Option<Identity> {
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
    (done == 0).then_some(Identity::File(info.device, info.inode))
}
