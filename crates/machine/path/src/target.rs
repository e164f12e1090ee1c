//! A file or block device: opened with checks, and probed for what it supports.
#![allow(unsafe_code)]

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use dumbwaiter_block::SECTOR_BYTES;
use io_uring::{opcode, types};

use crate::Error;
use crate::buffer::Buffer;
use crate::completion::{CompletionMode, CompletionSupport, Sleep};
use crate::options::OpenOptions;
use crate::ring::{Ring, RingMode, why_no_ring};

/// The number of the kernel's loop driver (`LOOP_MAJOR` of `linux/major.h`).
const LOOP_MAJOR: u32 = 7;
/// The number of `cachestat`, the same everywhere.
const CACHESTAT: libc::c_long = 451;

/// Kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A block device.
    Device,
}

/// Properties of a target.
#[derive(Clone, Debug)]
pub struct Facts {
    /// File or device.
    pub kind: Kind,
    /// Whole logical blocks of it, bytes.
    pub bytes: u64,
    /// The unit of positions and lengths, bytes.
    pub logical_block: u32,
    /// Does it, or the device below the file, rotate? `false` where that is unknown.
    pub rotational: bool,
    /// Is a flush worth sending? A file's always is.
    pub write_back: bool,
    /// Does it take single writes through its cache?
    pub fua: bool,
    /// Largest request that its driver takes, bytes.
    pub max_request_bytes: u32,
    /// Requests that its kernel queue holds; `None` for a file.
    pub depth: Option<u32>,
    /// The kernel's scheduler over it, which works below ours; empty for a file.
    pub kernel_scheduler: String,
    /// Past the page cache.
    pub direct: bool,
}

/// An opened file or block device.
pub struct Target {
    path: PathBuf,
    file: File,
    facts: Facts,
    options: OpenOptions,
    notes: Vec<String>,
}

impl Target {
    /// Opens `path`, for reading only unless writes are allowed (then a device in use is refused), and finds out what it is.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Target, Error> {
        let refuse = |reason: String| Error::Open { path: path.to_owned(), reason };
        let meta = std::fs::metadata(path).map_err(|e| refuse(why_not_opened(&e, options)))?;
        let kind = kind_of(&meta).map_err(refuse)?;
        if options.allow_writes && kind == Kind::Device && read_only(&meta) {
            return Err(refuse("is a read-only device; leave out the permission to write".into()));
        }
        let (file, direct) = open_file(path, kind, options).map_err(|e| refuse(why_not_opened(&e, options)))?;
        let mut notes = Vec::new();
        if options.direct && !direct {
            notes.push(
                "the file system does not do direct I/O: through the page cache, so figures are those of memory".into(),
            );
        }
        let whole = size_of(&file).map_err(|e| refuse(format!("its size cannot be read: {e}")))?;
        let facts = facts_of(&file, &meta, kind, direct, whole, options);
        let block = facts.logical_block;
        if facts.bytes == 0 {
            return Err(refuse(format!("has {whole} bytes; expected at least one block of {block}")));
        }
        if facts.bytes != whole {
            notes.push(format!(
                "its last {} bytes are less than a block of {block} and are not used",
                whole - facts.bytes
            ));
        }
        // Says now, not in mid-run, that there is no ring.
        Ring::new(8, RingMode::Interrupt, false).map_err(|e| Error::NoRing(why_no_ring(&e)))?;
        Ok(Target { path: path.to_owned(), file, facts, options: *options, notes })
    }

    /// A pipe or socket in place of a device: its I/O takes as long as a test wants.
    #[cfg(test)]
    pub(crate) fn of_stream(stream: impl Into<std::os::fd::OwnedFd>, bytes: u64) -> Target {
        let facts = Facts {
            kind: Kind::File,
            bytes,
            logical_block: 512,
            rotational: false,
            write_back: true,
            fua: true,
            max_request_bytes: 64 << 10,
            depth: None,
            kernel_scheduler: String::new(),
            direct: false,
        };
        let options = OpenOptions { allow_writes: true, ..OpenOptions::default() };
        Target { path: "stream".into(), file: File::from(stream.into()), facts, options, notes: Vec::new() }
    }

    /// A target whose device is a [`VirtualDevice`](crate::VirtualDevice) with these properties, by a name for people.
    pub fn virtual_device(name: &str, facts: Facts) -> Result<Target, Error> {
        let path = PathBuf::from(name);
        let refuse = |e: io::Error| Error::Open { path: path.clone(), reason: format!("/dev/null: {e}") };
        // The ring wants a file; nothing is ever sent to it.
        let file = File::open("/dev/null").map_err(refuse)?;
        Ring::new(8, RingMode::Interrupt, false).map_err(|e| Error::NoRing(why_no_ring(&e)))?;
        let options = OpenOptions { allow_writes: true, ..OpenOptions::default() };
        Ok(Target { path, file, facts, options, notes: Vec::new() })
    }

    /// Its properties.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Notes for people: features that are missing.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// A note for measurements of a file with holes: reading them does not reach the device.
    pub fn note_on_holes(&self) -> Option<String> {
        let whole = self.facts.bytes;
        // SAFETY: a plain call on an open descriptor.
        let hole = unsafe { libc::lseek(self.file.as_raw_fd(), 0, libc::SEEK_HOLE) };
        if self.facts.kind != Kind::File || hole < 0 || hole as u64 >= whole {
            return None;
        }
        let allocated = self.file.metadata().map_or(0, |meta| meta.blocks() * 512);
        Some(format!(
            "has holes ({} % of it is allocated): reads of holes touch no medium, and are faster than any device; fill it first",
            (allocated * 100 / whole).min(99)
        ))
    }

    /// Is this part of a file in the page cache, all of it? `false` where the kernel cannot tell (before Linux 6.5), and with direct I/O.
    pub fn is_in_memory(&self, offset: u64, bytes: u64) -> bool {
        /// `struct cachestat_range`.
        #[repr(C)]
        struct Range {
            offset: u64,
            bytes: u64,
        }
        if self.facts.direct || bytes == 0 {
            return false;
        }
        let range = Range { offset, bytes };
        // `struct cachestat`: pages in memory, dirty, under writeback, evicted, recently evicted.
        let mut pages = [0u64; 5];
        let fd = self.file.as_raw_fd();
        // SAFETY: both structures live over the call.
        let asked = unsafe { libc::syscall(CACHESTAT, fd, &raw const range, pages.as_mut_ptr(), 0) };
        // SAFETY: a plain call.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        asked == 0 && pages[0] == (offset + bytes).div_ceil(page) - offset / page
    }

    /// How it was opened.
    pub fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// As it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size in sectors.
    pub fn sectors(&self) -> u64 {
        self.facts.bytes / SECTOR_BYTES
    }

    /// The open file or device.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Is it a loop device? A thread of this machine serves it, not hardware.
    pub(crate) fn is_loop(&self) -> bool {
        let number = self.file.metadata().map_or(0, |meta| meta.rdev());
        self.facts.kind == Kind::Device && libc::major(number) == LOOP_MAJOR
    }

    /// Has the device disappeared since it was opened? Its I/O then fails or transfers nothing.
    pub fn is_gone(&self) -> bool {
        let number = self.file.metadata().map(|meta| meta.rdev());
        self.facts.kind == Kind::Device
            && (size_of(&self.file).is_ok_and(|bytes| bytes == 0)
                || number.is_ok_and(|number| !sysfs_of(number).exists()))
    }

    /// Is this completion mode possible here? Reads one block to know it. Answers with how completions will be found: where
    /// the kernel has no hybrid polling, the disk sleeps itself.
    pub fn check(&self, mode: CompletionMode) -> Result<CompletionSupport, Error> {
        let support = |ring, sleep| Ok(CompletionSupport { ring, sleep });
        match mode {
            CompletionMode::Interrupt => support(RingMode::Interrupt, None),
            CompletionMode::Poll if self.reads_with(RingMode::Iopoll).is_ok() => support(RingMode::Iopoll, None),
            CompletionMode::Poll => {
                let why = if self.facts.kind == Kind::Device { NO_POLLED_QUEUES } else { NO_POLLED_FILES };
                let (path, completion) = (self.path.clone(), mode.to_string());
                Err(Error::Completion { path, completion, reason: why.to_owned() })
            }
            CompletionMode::Hybrid(Sleep::Auto) if self.reads_with(RingMode::HybridIopoll).is_ok() => {
                support(RingMode::HybridIopoll, None)
            }
            CompletionMode::Hybrid(sleep) => {
                let polled = self.reads_with(RingMode::Iopoll).is_ok();
                support(if polled { RingMode::Iopoll } else { RingMode::Interrupt }, Some(sleep))
            }
        }
    }

    /// Reads the first block through a ring of this mode.
    fn reads_with(&self, mode: RingMode) -> io::Result<()> {
        let mut buffer = Buffer::new(self.facts.logical_block as usize);
        let mut ring = Ring::new(8, mode, false)?;
        ring.register_file(self.file.as_raw_fd())?;
        let entry = opcode::Read::new(types::Fixed(0), buffer.as_mut_ptr(), self.facts.logical_block).build();
        // SAFETY: the buffer lives until the completion is here, or is leaked.
        unsafe { ring.push(&entry)? };
        let mut result = None;
        while result.is_none() {
            if let Err(e) = ring.enter(1, None, 0) {
                std::mem::forget(buffer);
                return Err(e);
            }
            ring.reap(|_, res, _| result = Some(res));
        }
        match result {
            Some(res) if res < 0 => Err(io::Error::from_raw_os_error(-res)),
            _ => Ok(()),
        }
    }
}

const NO_POLLED_QUEUES: &str = "it has no queues to poll; give the driver some (`nvme.poll_queues=2` or `virtio_blk.poll_queues=2` on the kernel's command line, or as the module is loaded; null_blk: `poll_queues`; others have none); `interrupt` and `hybrid` work";
const NO_POLLED_FILES: &str = "polling needs direct I/O, on a block device or a file system that supports it (ext4, xfs); `interrupt` and `hybrid` work";

fn kind_of(meta: &Metadata) -> Result<Kind, String> {
    match meta.file_type() {
        t if t.is_file() => Ok(Kind::File),
        t if t.is_block_device() => Ok(Kind::Device),
        t if t.is_dir() => Err("is a folder; expected a file or a block device".into()),
        _ => Err("is neither a file nor a block device".into()),
    }
}

/// Properties of an open target of `whole` bytes; its `bytes` may be 0.
fn facts_of(file: &File, meta: &Metadata, kind: Kind, direct: bool, whole: u64, options: &OpenOptions) -> Facts {
    let queue = queue_of(meta, kind);
    let device = kind == Kind::Device;
    let text = |name: &str| sysfs(queue.as_deref(), name).unwrap_or_default();
    let number = |name: &str| text(name).parse::<u64>().ok();
    let logical_block = match kind {
        Kind::Device => number("queue/logical_block_size").unwrap_or(SECTOR_BYTES),
        Kind::File if direct => direct_alignment(file).unwrap_or(SECTOR_BYTES),
        Kind::File => SECTOR_BYTES,
    }
    .max(SECTOR_BYTES)
    .next_power_of_two();
    let most = u64::from(options.max_request_bytes);
    let driver_max = number("queue/max_sectors_kb").filter(|_| device).map_or(most, |kb| kb.saturating_mul(1024));
    Facts {
        kind,
        bytes: whole / logical_block * logical_block,
        logical_block: logical_block as u32,
        rotational: number("queue/rotational") == Some(1),
        write_back: !device || text("queue/write_cache") == "write back",
        fua: !device || number("queue/fua") == Some(1),
        max_request_bytes: driver_max.min(most).max(logical_block) as u32,
        depth: number("queue/nr_requests").filter(|_| device).map(|n| n as u32),
        kernel_scheduler: if device { chosen(&text("queue/scheduler")) } else { String::new() },
        direct,
    }
}

fn open_file(path: &Path, kind: Kind, options: &OpenOptions) -> io::Result<(File, bool)> {
    let open = |direct: bool| {
        let mut flags = libc::O_CLOEXEC;
        if direct {
            flags |= libc::O_DIRECT;
        }
        if options.allow_writes && options.exclusive && kind == Kind::Device {
            // The kernel refuses a device that is mounted or part of another.
            flags |= libc::O_EXCL;
        }
        std::fs::OpenOptions::new().read(true).write(options.allow_writes).custom_flags(flags).open(path)
    };
    match open(options.direct) {
        Ok(file) => Ok((file, options.direct)),
        Err(e) if options.direct && e.raw_os_error() == Some(libc::EINVAL) => Ok((open(false)?, false)),
        Err(e) => Err(e),
    }
}

fn why_not_opened(error: &io::Error, options: &OpenOptions) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT) => "there is no such file or device".into(),
        Some(libc::EACCES) => {
            "no permission; run as root, or as a member of the group that owns it (for devices often `disk`)".into()
        }
        // Not by its mode: nobody is let in.
        Some(libc::EPERM) => {
            "forbidden, even for root: by the device rules of a container or control group, by a security module, or for a file by its attribute `i` or `a` (see lsattr)".into()
        }
        Some(libc::EBUSY) => "is in use (mounted, swap, or part of an array or volume): nothing writes to it".into(),
        Some(libc::EROFS) if options.allow_writes => "is read-only; leave out the permission to write".into(),
        Some(libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM) => "there is no device behind it, or no medium in it".into(),
        _ => error.to_string(),
    }
}

fn size_of(mut file: &File) -> io::Result<u64> {
    use std::io::{Seek, SeekFrom};
    file.seek(SeekFrom::End(0))
}

/// The sysfs folder of the device, or of the one that a file lies on. A partition's queue is its parent's.
fn queue_of(meta: &Metadata, kind: Kind) -> Option<PathBuf> {
    let device = if kind == Kind::Device { meta.rdev() } else { meta.dev() };
    let folder = std::fs::canonicalize(sysfs_of(device)).ok()?;
    if folder.join("queue").is_dir() {
        return Some(folder);
    }
    folder.parent().filter(|parent| parent.join("queue").is_dir()).map(Path::to_owned)
}

/// The kernel lets a read-only device be opened for writing, and fails each write.
fn read_only(meta: &Metadata) -> bool {
    std::fs::read_to_string(sysfs_of(meta.rdev()).join("ro")).is_ok_and(|text| text.trim() == "1")
}

/// Where sysfs has a device of this number.
fn sysfs_of(number: u64) -> PathBuf {
    format!("/sys/dev/block/{}:{}", libc::major(number), libc::minor(number)).into()
}

fn sysfs(folder: Option<&Path>, name: &str) -> Option<String> {
    Some(std::fs::read_to_string(folder?.join(name)).ok()?.trim().to_owned())
}

/// The name in brackets.
fn chosen(list: &str) -> String {
    let inside = list.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(list, |(name, _)| name).to_owned()
}

/// Alignment of direct I/O that the file system requires (Linux 6.1).
fn direct_alignment(file: &File) -> Option<u64> {
    // SAFETY: a plain structure for the kernel to fill in.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, the path is empty and ended, and `stat` lives over the call.
    let done = unsafe {
        libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN, &raw mut stat)
    };
    let known = done == 0 && stat.stx_mask & libc::STATX_DIOALIGN != 0 && stat.stx_dio_offset_align > 0;
    known.then_some(u64::from(stat.stx_dio_offset_align))
}
