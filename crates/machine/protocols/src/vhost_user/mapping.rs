//! A file mapped into memory and shared with other processes: every access is checked against its length, and no reference to it
//! ever exists, because others write to it at any time.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::vhost_user::truncation;

/// The most of this process's addresses that all mappings may take, bytes: half of those of x86-64. One front end must not use up what others need.
const MAPPED_BYTES_MAX: u64 = 1 << 46;
/// Bytes that are mapped.
static MAPPED_BYTES: AtomicU64 = AtomicU64::new(0);

/// File systems in memory (`statfs(2)`): tmpfs, which memfd is, ramfs and hugetlbfs. Touching the memory of another may wait for a disk, or for
/// a program of the front end's.
const TMPFS_MAGIC: u32 = 0x0102_1994;
const RAMFS_MAGIC: u32 = 0x8584_58f6;
const HUGETLBFS_MAGIC: u32 = 0x9584_58f6;

/// A shared mapping.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// Bytes that are mapped: whole pages, which may be huge ones.
    span: usize,
    /// Its place in the table of mappings that may lose their file.
    watched: Option<usize>,
    _share: AddressShare,
}

/// Part of the addresses that mappings may take.
#[derive(Debug)]
struct AddressShare(u64);

impl AddressShare {
    fn take(bytes: u64) -> io::Result<AddressShare> {
        let fits = |mapped: u64| mapped.checked_add(bytes).filter(|all| *all <= MAPPED_BYTES_MAX);
        match MAPPED_BYTES.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits) {
            Ok(_) => Ok(AddressShare(bytes)),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                "the machines would map more memory than allowed together",
            )),
        }
    }
}

impl Drop for AddressShare {
    fn drop(&mut self) {
        MAPPED_BYTES.fetch_sub(self.0, Ordering::AcqRel);
    }
}

// SAFETY: the mapping belongs to this struct; accesses are atomic or bytewise and volatile.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of a file.
    pub(crate) fn new(file: impl AsFd, len: usize) -> io::Result<Mapping> {
        let stat = rustix::fs::fstat(&file)?;
        if stat.st_size < 0 || (stat.st_size as u64) < len as u64 || len == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file is shorter than the region"));
        }
        let system = rustix::fs::fstatfs(&file)?.f_type as u32;
        let span = match system {
            TMPFS_MAGIC | RAMFS_MAGIC => len,
            HUGETLBFS_MAGIC => len.checked_next_multiple_of(stat.st_blksize.max(1) as usize).unwrap_or(usize::MAX),
            _ => {
                let why = "expected memory: a memfd, or a file on tmpfs or hugetlbfs";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
        };
        let share = AddressShare::take(span as u64)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { mmap(std::ptr::null_mut(), span, protection, flags, &file, 0) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| io::Error::other("a mapping at address 0"))?;
        let sealed =
            rustix::fs::fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(rustix::fs::SealFlags::SHRINK));
        // A page that was never touched is missing where the system has no huge page left for it, whatever the seals say.
        let stays = sealed && system != HUGETLBFS_MAGIC;
        let mut mapping = Mapping { start, len, span, watched: None, _share: share };
        if !stays {
            let place = truncation::watch(start.as_ptr() as usize, span);
            mapping.watched =
                Some(place.ok_or_else(|| io::Error::other("too many mappings of files that can shrink"))?);
        }
        Ok(mapping)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Memory of its file is missing: what is there now is zeroes of our own.
    pub(crate) fn is_truncated(&self) -> bool {
        self.watched.is_some_and(truncation::is_truncated)
    }

    /// The address of `len` bytes from `at` on, if they lie within it.
    #[inline]
    pub(crate) fn pointer(&self, at: u64, len: u64) -> Option<*mut u8> {
        let end = at.checked_add(len)?;
        // SAFETY: within the mapping.
        (end <= self.len as u64).then(|| unsafe { self.start.as_ptr().add(at as usize) })
    }

    /// As [`Mapping::pointer`], if the address is a multiple of `T`'s size.
    #[inline]
    fn aligned<T>(&self, at: u64) -> Option<*mut T> {
        let pointer = self.pointer(at, size_of::<T>() as u64)?.cast::<T>();
        (pointer as usize).is_multiple_of(size_of::<T>()).then_some(pointer)
    }

    /// Two bytes; 0 outside or unaligned.
    #[inline]
    pub(crate) fn load16(&self, at: u64) -> u16 {
        // SAFETY: within the mapping and aligned; all processes may change it, so it is atomic.
        self.aligned(at).map_or(0, |p| unsafe { AtomicU16::from_ptr(p) }.load(Ordering::Acquire))
    }

    /// Four bytes; 0 outside or unaligned.
    #[inline]
    pub(crate) fn load32(&self, at: u64) -> u32 {
        // SAFETY: as above.
        self.aligned(at).map_or(0, |p| unsafe { AtomicU32::from_ptr(p) }.load(Ordering::Acquire))
    }

    /// Eight bytes; 0 outside or unaligned.
    #[inline]
    pub(crate) fn load64(&self, at: u64) -> u64 {
        // SAFETY: as above.
        self.aligned(at).map_or(0, |p| unsafe { AtomicU64::from_ptr(p) }.load(Ordering::Acquire))
    }

    /// Eight bytes, and the eight bytes behind them; 0 outside or unaligned.
    #[inline]
    pub(crate) fn load_pair(&self, at: u64) -> (u64, u64) {
        let first = self.pointer(at, 16).map(|p| p.cast::<u64>()).filter(|p| (*p as usize).is_multiple_of(8));
        let Some(first) = first else { return (0, 0) };
        // SAFETY: both lie within the mapping and are aligned.
        let load = |p: *mut u64| unsafe { AtomicU64::from_ptr(p) }.load(Ordering::Acquire);
        // SAFETY: as above.
        (load(first), load(unsafe { first.add(1) }))
    }

    /// Stores two bytes; nothing outside or unaligned. What was stored before is seen before it.
    #[inline]
    pub(crate) fn store16(&self, at: u64, value: u16) {
        if let Some(p) = self.aligned(at) {
            // SAFETY: as above.
            unsafe { AtomicU16::from_ptr(p) }.store(value, Ordering::Release);
        }
    }

    /// Stores four bytes, likewise.
    #[inline]
    pub(crate) fn store32(&self, at: u64, value: u32) {
        if let Some(p) = self.aligned(at) {
            // SAFETY: as above.
            unsafe { AtomicU32::from_ptr(p) }.store(value, Ordering::Release);
        }
    }

    /// Stores eight bytes, likewise.
    #[inline]
    pub(crate) fn store64(&self, at: u64, value: u64) {
        if let Some(p) = self.aligned(at) {
            // SAFETY: as above.
            unsafe { AtomicU64::from_ptr(p) }.store(value, Ordering::Release);
        }
    }

    /// Copies out of it, each byte read once. `false` outside.
    #[inline]
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let Some(from) = self.pointer(at, into.len() as u64) else { return false };
        copy(from, into.as_mut_ptr(), into.len());
        true
    }

    /// Copies into it. `false` outside.
    #[inline]
    pub(crate) fn write(&self, at: u64, from: &[u8]) -> bool {
        let Some(to) = self.pointer(at, from.len() as u64) else { return false };
        copy(from.as_ptr(), to, from.len());
        true
    }
}

/// Copies bytes of which one side may change meanwhile: volatile, in words where both sides are aligned.
#[inline]
fn copy(from: *const u8, to: *mut u8, len: usize) {
    let mut at = 0;
    if (from as usize | to as usize).is_multiple_of(8) {
        while at + 8 <= len {
            // SAFETY: the callers have checked both sides for `len` bytes, and both are aligned here.
            unsafe { to.add(at).cast::<u64>().write_volatile(from.add(at).cast::<u64>().read_volatile()) };
            at += 8;
        }
    }
    while at < len {
        // SAFETY: as above.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
        at += 1;
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some(place) = self.watched {
            truncation::forget(place);
        }
        // SAFETY: the mapping is ours, and its owner has ended all I/O that names it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.span) };
    }
}
