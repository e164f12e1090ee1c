//! The table of acknowledged writes, and the file that it can be.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use dumbwaiter_text::OutputFile;

use super::findings::word_of;
use crate::drive::{Error, Target};

const JOURNAL_MAGIC: u64 = 0x4457_4a4f_5552_4e31;
/// Before the table: block bytes, stamp, blocks, magic.
const HEADER_BYTES: usize = 4096;
/// Written at once where a file cannot be allocated.
const ZERO_BYTES: usize = 1 << 20;

/// The oldest generation that each block may hold; 0 where nothing is known.
pub(super) struct Floors {
    map: *mut u8,
    len: usize,
    blocks: u64,
}

// SAFETY: the mapping belongs to this value; entries are atomic.
unsafe impl Send for Floors {}

impl Floors {
    fn map(blocks: u64, file: Option<&File>, write: bool) -> std::io::Result<Floors> {
        let len = usize::try_from(journal_bytes(blocks).ok_or(std::io::ErrorKind::FileTooLarge)?);
        let len = len.map_err(|_| std::io::ErrorKind::FileTooLarge)?;
        let (flags, fd) = match file {
            Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1),
        };
        let access = if write { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping, of a file that is at least so long, or of nothing.
        let map = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd, 0) };
        if map == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Floors { map: map.cast(), len, blocks })
    }

    /// A table for `blocks` of `block_bytes` and the run of `stamp`, in `journal` if there is one.
    pub(super) fn new(block_bytes: u64, blocks: u64, stamp: u64, journal: Option<&Path>) -> Result<Floors, Error> {
        let Some(path) = journal else {
            let floors = Floors::map(blocks, None, true);
            let floors = floors.map_err(|e| journal_error(Path::new("table of written blocks"), &e))?;
            floors.write_header(block_bytes, stamp);
            return Ok(floors);
        };
        let file = make_journal(path, journal_bytes(blocks).unwrap_or(u64::MAX))?;
        let floors = Floors::map(blocks, Some(file.file()), true).map_err(|e| journal_error(path, &e))?;
        floors.write_header(block_bytes, stamp);
        // From here on, a check finds a journal even if this process is killed.
        file.commit().map_err(|e| journal_error(path, &e))?;
        Ok(floors)
    }

    fn write_header(&self, block_bytes: u64, stamp: u64) {
        for (i, word) in [block_bytes, stamp, self.blocks, JOURNAL_MAGIC].into_iter().enumerate() {
            self.word(i).store(word, Ordering::Release);
        }
    }

    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    fn word(&self, i: usize) -> &AtomicU64 {
        debug_assert!((i + 1) * 8 <= self.len);
        // SAFETY: within the mapping, aligned, and only ever used as atomics.
        unsafe { &*self.map.cast::<AtomicU64>().add(i) }
    }

    pub(super) fn floor(&self, block: u64) -> &AtomicU64 {
        self.word(HEADER_BYTES / 8 + block as usize)
    }
}

impl Drop for Floors {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no reference into it exists.
        unsafe { libc::munmap(self.map.cast(), self.len) };
    }
}

/// Largest logical block of a device: Linux has none over 64 KiB.
const BLOCK_BYTES_MAX: u64 = 64 << 10;

/// Length of a journal; `None` if there is no such file.
fn journal_bytes(blocks: u64) -> Option<u64> {
    blocks.checked_mul(8)?.checked_add(HEADER_BYTES as u64)
}

/// The start of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalHeader {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Number of the run that wrote it.
    pub stamp: u64,
    /// Blocks of the target, each with a word in the journal.
    pub blocks: u64,
}

impl JournalHeader {
    /// Reads the header of a journal of `file_bytes`.
    ///
    /// # Errors
    /// The header's defect.
    pub fn read(header: &[u8; 32], file_bytes: u64) -> Result<JournalHeader, String> {
        let [block_bytes, stamp, blocks, magic] = [0, 1, 2, 3].map(|i| word_of(header, i));
        if magic != JOURNAL_MAGIC || !block_bytes.is_power_of_two() || journal_bytes(blocks) != Some(file_bytes) {
            return Err("is not a journal of writes, or was cut off".into());
        }
        if !(512..=BLOCK_BYTES_MAX).contains(&block_bytes) {
            return Err(format!("has blocks of {block_bytes} bytes; expected 512 to {BLOCK_BYTES_MAX}"));
        }
        if blocks == 0 {
            return Err("is a journal of 0 blocks: there is nothing to check".into());
        }
        Ok(JournalHeader { block_bytes, stamp, blocks })
    }
}

/// Opens the journal of an earlier run on `target`: its table, the bytes of a block and the stamp of the run.
pub(super) fn open(journal: &Path, target: &Target) -> Result<(Floors, u64, u64), Error> {
    let refuse = |reason: String| Error::Journal { path: journal.to_owned(), reason };
    let file = File::open(journal).map_err(|e| journal_error(journal, &e))?;
    let len = file.metadata().map_err(|e| journal_error(journal, &e))?.len();
    let mut header = [0; 32];
    file.read_exact_at(&mut header, 0).map_err(|_| refuse("is not a journal of writes: too short".into()))?;
    let JournalHeader { block_bytes: block, stamp, blocks } = JournalHeader::read(&header, len).map_err(refuse)?;
    let facts = target.facts();
    let fits = blocks.checked_mul(block).is_some_and(|bytes| bytes <= facts.bytes);
    if !fits || block % u64::from(facts.logical_block) != 0 {
        return Err(refuse(format!(
            "belongs to a target of {} bytes in blocks of {block}, and {} has {} in blocks of {}",
            blocks.saturating_mul(block),
            target.path().display(),
            facts.bytes,
            facts.logical_block
        )));
    }
    let floors = Floors::map(blocks, Some(&file), false).map_err(|e| journal_error(journal, &e))?;
    Ok((floors, block, stamp))
}

fn journal_error(path: &Path, e: &std::io::Error) -> Error {
    Error::Journal { path: path.to_owned(), reason: e.to_string() }
}

/// A file of zeros for the table, with room for all of it, still without its name.
fn make_journal(path: &Path, bytes: u64) -> Result<OutputFile, Error> {
    let file = OutputFile::create(path).map_err(|e| journal_error(path, &e))?;
    // The one of an earlier run, which has been checked: there may not be room for both.
    if std::fs::symlink_metadata(path).is_ok_and(|old| old.is_file()) {
        dumbwaiter_text::remove(path).map_err(|e| journal_error(path, &e))?;
    }
    allocate(file.file(), bytes).map_err(|e| {
        let reason = format!("the journal needs {bytes} bytes (8 for each block of the target): {e}");
        Error::Journal { path: path.to_owned(), reason }
    })?;
    Ok(file)
}

fn allocate(mut file: &File, bytes: u64) -> std::io::Result<()> {
    let len = libc::off_t::try_from(bytes).map_err(|_| std::io::ErrorKind::FileTooLarge)?;
    loop {
        // SAFETY: a plain call on an open descriptor.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len) } == 0 {
            return Ok(());
        }
        let e = std::io::Error::last_os_error();
        match e.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => break,
            _ => return Err(e),
        }
    }
    let zeros = vec![0; ZERO_BYTES];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(ZERO_BYTES as u64);
        file.write_all(&zeros[..now as usize])?;
        left -= now;
    }
    // Some file systems find out only now that they have no room.
    file.sync_data()
}
