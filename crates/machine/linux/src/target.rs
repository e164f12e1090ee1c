//! Facts of a path: a file, a disk or a partition; its sizes and limits; its users; and whether it may be written.

use std::fmt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use dumbwaiter_block::hint::{nearest, suggest};

use crate::disk::{folders, number};
use crate::file::read_some;
use crate::queue::Queue;
use crate::{Error, Roots, backing};

/// Kind of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A whole block device.
    Disk,
    /// A partition of one.
    Partition,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::File => "regular file",
            Kind::Disk => "block device",
            Kind::Partition => "partition",
        })
    }
}

/// Whether reads can be polled for (`IORING_SETUP_IOPOLL`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Polling {
    /// The queue polls (`queue/io_poll` is 1).
    pub available: bool,
    /// Why, or what is needed, in one line.
    pub about: String,
}

/// The device in `/dev` that a bare name such as `sda` means.
fn in_dev(path: &Path) -> Option<PathBuf> {
    let name = path.strip_prefix("/dev").unwrap_or(path).to_str().filter(|name| !name.contains('/'))?;
    let disks = std::fs::read_dir("/sys/class/block").ok()?.flatten();
    let mut disks: Vec<String> = disks.filter_map(|disk| disk.file_name().into_string().ok()).collect();
    disks.sort_unstable();
    let found = nearest(name, disks.iter().map(String::as_str))?;
    Some(Path::new("/dev").join(found))
}

/// Facts about a path.
#[derive(Clone, Debug)]
pub struct PathFacts {
    /// The path as given.
    pub path: PathBuf,
    /// File, disk or partition.
    pub kind: Kind,
    /// Device number of a disk or partition.
    pub dev: Option<(u32, u32)>,
    /// Folder in sysfs of the whole disk; `None` for a file.
    pub disk: Option<PathBuf>,
    /// First sector (512 bytes) on the disk: 0 but for a partition.
    pub start: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Is it a rotating disk? `None` for a file.
    pub rotational: Option<bool>,
    /// The device's name for itself, where it has one.
    pub model: Option<String>,
    /// The revision of its firmware, where it reports one.
    pub firmware: Option<String>,
    /// Is it marked read-only? (The mark of the device or file, not its mode.)
    pub read_only: bool,
    /// Its users, one line each.
    pub uses: Vec<String>,
    /// Whether reads can be polled for.
    pub polling: Polling,
}

impl PathFacts {
    /// Collects the facts about `path`. A block device is opened for a moment, without reading, to see whether it is held
    /// exclusively.
    pub fn of(path: &Path) -> Result<PathFacts, Error> {
        let roots = Roots::default();
        let meta = std::fs::metadata(path).map_err(|e| match in_dev(path) {
            Some(device) => Error::Refused(format!("{}: no such file{}", path.display(), suggest(device.to_str()))),
            None => Error::file("open", path, e),
        })?;
        let kind = meta.file_type();
        if kind.is_file() {
            return Ok(PathFacts::file(path, &meta, &roots));
        }
        if !kind.is_block_device() {
            let text = format!("{} is neither a regular file nor a block device", path.display());
            return Err(Error::Refused(text));
        }
        let mut target = PathFacts::device(path, number(meta.rdev()), &roots)?;
        // The kernel lets one holder have a device for itself: filesystems, swap, dm and md are holders.
        let open = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL | libc::O_NONBLOCK).open(path);
        if open.is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY)) && target.uses.is_empty() {
            target.uses.push("held exclusively by the kernel or a program".into());
        }
        Ok(target)
    }

    fn file(path: &Path, meta: &std::fs::Metadata, roots: &Roots) -> PathFacts {
        let own = path.canonicalize().unwrap_or_else(|_| path.into());
        let mut uses = swaps(roots, &|p| backing::same(p, &own));
        uses.extend(backed(roots, &own));
        PathFacts {
            path: path.into(),
            kind: Kind::File,
            dev: None,
            disk: None,
            start: 0,
            bytes: meta.len(),
            rotational: None,
            model: None,
            firmware: None,
            read_only: meta.permissions().readonly(),
            uses,
            polling: Polling {
                available: false,
                about: "polling depends on the device of this file; give the device to check it".into(),
            },
        }
    }

    /// Facts about a device from sysfs and procfs.
    fn device(path: &Path, dev: (u32, u32), roots: &Roots) -> Result<PathFacts, Error> {
        let (own, disk) = folders(dev, roots)?;
        let partition = own != disk;
        let numeric = |dir: &Path, name: &str| read_some(&dir.join(name)).and_then(|t| t.parse::<u64>().ok());
        let limit = |name: &str| numeric(&disk, &format!("queue/{name}"));
        let model = ["device/model", "device/name"].iter().find_map(|f| read_some(&disk.join(f)));
        let firmware = ["device/firmware_rev", "device/rev"].iter().find_map(|f| read_some(&disk.join(f)));
        Ok(PathFacts {
            path: path.into(),
            kind: if partition { Kind::Partition } else { Kind::Disk },
            dev: Some(dev),
            start: if partition { numeric(&own, "start").unwrap_or(0) } else { 0 },
            bytes: numeric(&own, "size").unwrap_or(0).saturating_mul(dumbwaiter_block::SECTOR_BYTES),
            rotational: limit("rotational").map(|r| r == 1),
            model: model.map(|m| m.trim().to_owned()).filter(|m| !m.is_empty()),
            firmware: firmware.map(|f| f.trim().to_owned()).filter(|f| !f.is_empty()),
            read_only: numeric(&own, "ro") == Some(1) || numeric(&disk, "ro") == Some(1),
            uses: uses(path, dev, &own, &disk, roots),
            polling: polling(&disk, roots),
            disk: Some(disk),
        })
    }

    /// The queue of the disk; `None` for a file.
    pub fn queue(&self) -> Option<Queue> {
        self.disk.as_deref().map(Queue::at)
    }

    /// May this be written? `allowed`: the user said that writing is wanted. `destroys`: the path whose loss the user
    /// has accepted (`--destroy PATH`), letter for letter the path of the target.
    ///
    /// Writing needs `allowed`; a device or file in use needs `destroys` as well.
    pub fn check_writes(&self, allowed: bool, destroys: Option<&Path>) -> Result<(), Error> {
        let path = self.path.display();
        if let Some(named) = destroys
            && named.as_os_str() != self.path.as_os_str()
        {
            let named = named.display();
            return Err(Error::Refused(format!("--destroy names {named}, but the target is {path}")));
        }
        if !allowed {
            return Err(Error::Refused(format!("{path} would be written: refused without --destroy {path}")));
        }
        if self.read_only {
            return Err(Error::Refused(format!("{path} is read-only")));
        }
        if self.uses.is_empty() || destroys.is_some() {
            return Ok(());
        }
        let uses = self.uses.join("; ");
        let way = format!("writing would destroy it; only --destroy {path} allows that");
        Err(Error::Refused(format!("{path} is in use ({uses}): {way}")))
    }
}

/// A path of a kernel table, with `\040` and the like for blanks.
fn unescaped(field: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, more)) = rest.split_first() {
        let digits = more.get(..3).filter(|d| first == b'\\' && d.iter().all(|c| (b'0'..b'8').contains(c)));
        let code = digits.map(|d| d.iter().fold(0u32, |n, c| n * 8 + u32::from(c - b'0')));
        match code.and_then(|c| u8::try_from(c).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[3..];
            }
            None => {
                bytes.push(first);
                rest = more;
            }
        }
    }
    PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes))
}

/// Users of a device: mounts, swap and holders of it, of its partitions, and of the disk that it is part of.
fn uses(path: &Path, dev: (u32, u32), own: &Path, disk: &Path, roots: &Roots) -> Vec<String> {
    let mut folders = vec![own.to_owned()];
    if own == disk {
        let inside = std::fs::read_dir(disk).into_iter().flatten().flatten().map(|f| f.path());
        folders.extend(inside.filter(|p| p.join("partition").exists()));
    } else {
        // A user of the whole disk uses the partition.
        folders.push(disk.to_owned());
    }
    folders.sort();
    let name = |dir: &Path| dir.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let numbers: Vec<String> = folders.iter().filter_map(|f| read_some(&f.join("dev"))).collect();
    // Does a path lead to one of these devices? Its number decides, under any name.
    let same = |p: &Path| {
        let meta = std::fs::metadata(p).ok().filter(|m| m.file_type().is_block_device());
        match meta.map(|m| number(m.rdev())) {
            Some(found) => found == dev || numbers.contains(&format!("{}:{}", found.0, found.1)),
            None => p == path || folders.iter().any(|f| p == Path::new("/dev").join(name(f))),
        }
    };
    let mut found = Vec::new();
    for line in read_some(&roots.proc.join("self/mountinfo")).unwrap_or_default().lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let source = fields.iter().position(|f| *f == "-").and_then(|dash| fields.get(dash + 2));
        if let (Some(number), Some(point)) = (fields.get(2), fields.get(4))
            && (numbers.iter().any(|n| n == number) || source.is_some_and(|s| same(&unescaped(s))))
        {
            found.push(format!("mounted at {}", unescaped(point).display()));
        }
    }
    found.extend(swaps(roots, &same));
    for folder in &folders {
        for holder in std::fs::read_dir(folder.join("holders")).into_iter().flatten().flatten() {
            found.push(format!("{} is part of {}", name(folder), holder.file_name().to_string_lossy()));
        }
        found.extend(backed(roots, &Path::new("/dev").join(name(folder))));
    }
    found.dedup();
    found
}

fn swaps(roots: &Roots, same: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let text = read_some(&roots.proc.join("swaps")).unwrap_or_default();
    let paths = text.lines().skip(1).filter_map(|l| l.split_whitespace().next()).map(unescaped);
    paths.filter(|p| same(p)).map(|p| format!("swap space {}", p.display())).collect()
}

/// Loop devices that have `backing` as their file.
fn backed(roots: &Roots, backing: &Path) -> impl Iterator<Item = String> {
    backing::over(roots, backing).into_iter().map(|name| format!("backs {name}"))
}

/// Drivers whose number of poll queues is a module parameter: the first letters of the disk's name, and the module.
const POLL_QUEUES: [(&str, &str); 3] = [("nvme", "nvme"), ("vd", "virtio_blk"), ("nullb", "null_blk")];

fn polling(disk: &Path, roots: &Roots) -> Polling {
    let name = disk.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let available = read_some(&disk.join("queue/io_poll")).as_deref() == Some("1");
    let module = POLL_QUEUES.iter().find(|(first, _)| name.starts_with(first)).map(|(_, module)| *module);
    let count = module.and_then(|m| read_some(&roots.sys.join(format!("module/{m}/parameters/poll_queues"))));
    let about = match (available, module) {
        (true, Some(m)) => format!("{m}.poll_queues={}", count.as_deref().unwrap_or("?")),
        (true, None) => "queue/io_poll is 1".into(),
        (false, Some(m)) => {
            let now = count.as_deref().unwrap_or("unknown");
            format!("needs {m}.poll_queues=N, 1 or more, on the kernel's command line or as {m} is loaded (now {now})")
        }
        (false, None) => "queue/io_poll is 0, and this driver is not known to have poll queues".into(),
    };
    Polling { available, about }
}

#[cfg(test)]
mod tests;
