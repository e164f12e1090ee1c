//! Is what is read what was written? Data that accounts for itself, and a journal that outlives the program.
//!
//! Every logical block that is written carries its number, the generation of its write (a count over the run), the stamp of
//! the run and a checksum. For each block is known the oldest generation that it may hold: that of the last
//! acknowledged write, or, where writes of one block overlapped in time, the first of those. A block that is read while a
//! write of it is under way is not judged.
//!
//! These generations stand in a table of 8 bytes a block, which can be a file ([`crate::options::Verify::journal`]): it is
//! allocated whole, for a write to a mapped hole of a full file system is a SIGBUS, and mapped, so that every entry
//! survives the program's death (`kill -9`), not the machine's. [`check`] then reads every block of the table again. A
//! write that was never acknowledged may be there or not.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::arena::Arena;
use crate::{Error, Target};

const MAGIC: u64 = 0x4457_424c_4f43_4b31;
const JOURNAL_MAGIC: u64 = 0x4457_4a4f_5552_4e31;
/// Before the table: magic, block bytes, stamp, blocks.
const HEADER_BYTES: usize = 4096;
/// Blocks whose state is allocated together.
const PAGE: usize = 4096;
/// Bytes read at once by a pass over everything.
const PASS_BYTES: usize = 1 << 20;

/// What checking found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Blocks read and judged.
    pub checked: u64,
    /// Blocks that were read while a write of them was under way, and those that a final pass that was ended from outside
    /// did not come to: not judged.
    pub unsettled: u64,
    /// Blocks that hold older data than an acknowledged write, or none of ours.
    pub lost: u64,
    /// Blocks whose data is not what their checksum says.
    pub torn: u64,
    /// Blocks with the data of another block.
    pub misplaced: u64,
    /// Blocks that could not be read.
    pub unreadable: u64,
    /// The first thing found wrong.
    pub first: Option<String>,
}

impl std::fmt::Display for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} blocks checked, {} lost, {} torn, {} misplaced, {} unreadable, {} not judged",
            self.checked, self.lost, self.torn, self.misplaced, self.unreadable, self.unsettled
        )?;
        self.first.as_ref().map_or(Ok(()), |first| write!(f, "; the first: {first}"))
    }
}

impl Verified {
    /// Is all well?
    pub fn clean(&self) -> bool {
        self.lost + self.torn + self.misplaced + self.unreadable == 0
    }

    fn wrong(&mut self, what: String) {
        if self.first.is_none() {
            self.first = Some(what);
        }
    }

    fn judge(&mut self, data: &[u8], block: u64, stamp: u64, floor: u64) {
        self.checked += 1;
        let word = |i: usize| word_of(data, i);
        let at = block * data.len() as u64;
        if word(0) != MAGIC || word(3) != stamp {
            self.lost += 1;
            self.wrong(format!("block at byte {at}: not what this run wrote, though the write was acknowledged"));
        } else if word(4) != checksum(data) {
            self.torn += 1;
            self.wrong(format!("block at byte {at}: torn, its checksum is wrong"));
        } else if word(1) != block {
            self.misplaced += 1;
            self.wrong(format!(
                "block at byte {at}: holds the data of the block at byte {}",
                word(1) * data.len() as u64
            ));
        } else if word(2) < floor {
            self.lost += 1;
            self.wrong(format!("block at byte {at}: holds write {}, though write {floor} was acknowledged", word(2)));
        }
    }
}

fn word_of(data: &[u8], i: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&data[i * 8..i * 8 + 8]);
    u64::from_le_bytes(bytes)
}

/// Of everything but the checksum itself, word 4.
fn checksum(data: &[u8]) -> u64 {
    let mut hash = 0x9e37_79b9_7f4a_7c15u64;
    for i in (0..data.len() / 8).filter(|i| *i != 4) {
        hash = (hash ^ word_of(data, i)).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(29);
    }
    hash
}

/// Fills a block with what accounts for itself.
fn stamp_block(data: &mut [u8], block: u64, generation: u64, stamp: u64) {
    let mut state = stamp ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ generation.rotate_left(32) | 1;
    for chunk in data.as_chunks_mut::<8>().0 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *chunk = state.to_le_bytes();
    }
    for (i, word) in [MAGIC, block, generation, stamp].into_iter().enumerate() {
        data[i * 8..i * 8 + 8].copy_from_slice(&word.to_le_bytes());
    }
    let sum = checksum(data);
    data[32..40].copy_from_slice(&sum.to_le_bytes());
}

/// The oldest generation that each block may hold; 0 where nothing is known.
struct Floors {
    map: *mut u8,
    len: usize,
    blocks: u64,
}

// SAFETY: the mapping belongs to this value; entries are atomic.
unsafe impl Send for Floors {}

impl Floors {
    fn map(blocks: u64, file: Option<&File>, write: bool) -> std::io::Result<Floors> {
        let len = HEADER_BYTES + blocks as usize * 8;
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

    fn word(&self, i: usize) -> &AtomicU64 {
        debug_assert!((i + 1) * 8 <= self.len);
        // SAFETY: within the mapping, aligned, and only ever used as atomics.
        unsafe { &*self.map.cast::<AtomicU64>().add(i) }
    }

    fn floor(&self, block: u64) -> &AtomicU64 {
        self.word(HEADER_BYTES / 8 + block as usize)
    }
}

impl Drop for Floors {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody holds a reference into it.
        unsafe { libc::munmap(self.map.cast(), self.len) };
    }
}

#[derive(Clone, Copy, Default)]
struct State {
    /// Oldest generation of the writes that overlap now, 0 if one of them leaves unknown data.
    oldest: u64,
    /// When a write of it last began or ended.
    touched: u64,
    under_way: u32,
}

/// Watches a run.
pub(crate) struct Verifier {
    block_bytes: u64,
    stamp: u64,
    generation: u64,
    clock: u64,
    floors: Floors,
    states: Vec<Option<Box<[State]>>>,
    pub(crate) found: Verified,
}

/// Refuses a journal that cannot be made, or would be made of the target itself.
pub(crate) fn check_journal_path(path: &Path, target: &std::fs::Metadata) -> Result<(), Error> {
    let refuse = |reason: &str| Err(Error::Journal { path: path.to_owned(), reason: reason.into() });
    if let Ok(there) = std::fs::metadata(path) {
        if (there.dev(), there.ino()) == (target.dev(), target.ino()) {
            return refuse("is the target itself; the journal needs a file of its own");
        }
        if !there.is_file() {
            return refuse("is no regular file; expected the name of a file for the journal");
        }
    }
    let made = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    made.map(|_| ()).map_err(|e| journal_error(path, &e))
}

fn journal_error(path: &Path, e: &std::io::Error) -> Error {
    Error::Journal { path: path.to_owned(), reason: e.to_string() }
}

/// An empty table in a file, with room for all of it.
fn make_journal(path: &Path, bytes: u64) -> Result<File, Error> {
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
    let file = opened.map_err(|e| journal_error(path, &e))?;
    allocate(&file, bytes).map_err(|e| {
        // Whatever of it found room.
        let _ = file.set_len(0);
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
    let zeros = vec![0; PASS_BYTES];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(PASS_BYTES as u64);
        file.write_all(&zeros[..now as usize])?;
        left -= now;
    }
    // Some file systems find out only now that they have no room.
    file.sync_data()
}

impl Verifier {
    /// For a run of `stamp`, which no other run has, over `blocks` of `block_bytes`.
    pub(crate) fn new(block_bytes: u64, blocks: u64, journal: Option<&Path>, stamp: u64) -> Result<Verifier, Error> {
        let nowhere = Path::new("table of written blocks");
        let floors = match journal {
            None => Floors::map(blocks, None, true).map_err(|e| journal_error(nowhere, &e))?,
            Some(path) => {
                let file = make_journal(path, HEADER_BYTES as u64 + blocks * 8)?;
                Floors::map(blocks, Some(&file), true).map_err(|e| journal_error(path, &e))?
            }
        };
        for (i, word) in [block_bytes, stamp, blocks, JOURNAL_MAGIC].into_iter().enumerate() {
            floors.word(i).store(word, Ordering::Release);
        }
        let pages = (blocks as usize).div_ceil(PAGE);
        Ok(Verifier {
            block_bytes,
            stamp,
            generation: 0,
            clock: 0,
            floors,
            states: (0..pages).map(|_| None).collect(),
            found: Verified::default(),
        })
    }

    fn state(&mut self, block: u64) -> &mut State {
        let page = &mut self.states[block as usize / PAGE];
        let page = page.get_or_insert_with(|| vec![State::default(); PAGE].into_boxed_slice());
        &mut page[block as usize % PAGE]
    }

    fn blocks(&self, at: u64, bytes: u64) -> std::ops::Range<u64> {
        at / self.block_bytes..(at + bytes).div_ceil(self.block_bytes)
    }

    /// A time that [`Verifier::read`] is told again.
    pub(crate) fn now(&self) -> u64 {
        self.clock
    }

    /// A write goes out: fills its data.
    pub(crate) fn write_begins(&mut self, at: u64, data: &mut [u8]) {
        self.generation += 1;
        let generation = self.generation;
        let (stamp, block_bytes) = (self.stamp, self.block_bytes as usize);
        for (chunk, block) in data.chunks_mut(block_bytes).zip(at / self.block_bytes..) {
            stamp_block(chunk, block, generation, stamp);
            self.begins(block, generation);
        }
    }

    /// Something goes out that leaves unknown data.
    pub(crate) fn erase_begins(&mut self, at: u64, bytes: u64) {
        for block in self.blocks(at, bytes) {
            self.floors.floor(block).store(0, Ordering::Relaxed);
            self.begins(block, 0);
        }
    }

    fn begins(&mut self, block: u64, generation: u64) {
        self.clock += 1;
        let clock = self.clock;
        let state = self.state(block);
        state.oldest = if state.under_way == 0 { generation } else { state.oldest.min(generation) };
        state.under_way += 1;
        state.touched = clock;
    }

    /// It is acknowledged, or failed: then nobody knows what is there.
    pub(crate) fn change_ends(&mut self, at: u64, bytes: u64, failed: bool) {
        for block in self.blocks(at, bytes) {
            self.clock += 1;
            let clock = self.clock;
            let state = self.state(block);
            if failed {
                state.oldest = 0;
            }
            state.touched = clock;
            state.under_way -= 1;
            if state.under_way == 0 {
                let floor = state.oldest;
                self.floors.floor(block).store(floor, Ordering::Release);
            }
        }
    }

    /// A read that began at `since` brought this.
    pub(crate) fn read(&mut self, at: u64, data: &[u8], since: u64) {
        for (chunk, block) in data.chunks(self.block_bytes as usize).zip(at / self.block_bytes..) {
            let floor = self.floors.floor(block).load(Ordering::Relaxed);
            let Some(page) = &self.states[block as usize / PAGE] else { continue };
            let state = page[block as usize % PAGE];
            if state.under_way > 0 || state.touched > since {
                self.found.unsettled += 1;
            } else if floor > 0 {
                self.found.judge(chunk, block, self.stamp, floor);
            }
        }
    }

    /// Reads everything that was written once more, until `cancel` is set.
    pub(crate) fn final_pass(&mut self, target: &Target, cancel: &AtomicBool) -> Result<(), Error> {
        let mut found = std::mem::take(&mut self.found);
        // Most of a large target has never been touched.
        let touched = self.states.iter().zip(0u64..).filter(|(state, _)| state.is_some());
        let pages = touched.map(|(_, page)| page * PAGE as u64..((page + 1) * PAGE as u64).min(self.floors.blocks));
        let done = pass(target, &self.floors, pages, (self.block_bytes, self.stamp), cancel, &mut found);
        self.found = found;
        done
    }
}

/// Reads and judges the blocks of the table that lie in `ranges`. Where it is cancelled, the others are counted as not judged.
fn pass(
    target: &Target,
    floors: &Floors,
    ranges: impl Iterator<Item = Range<u64>>,
    (block, stamp): (u64, u64),
    cancel: &AtomicBool,
    found: &mut Verified,
) -> Result<(), Error> {
    let ring = |source| Error::Ring { what: "no memory to read back", source };
    let mut arena = Arena::new(1, PASS_BYTES).map_err(ring)?;
    let slot = arena.take(PASS_BYTES).unwrap_or(0);
    let most = (PASS_BYTES as u64 / block).max(1);
    let known = |b: &u64| floors.floor(*b).load(Ordering::Acquire) > 0;
    for Range { start: mut next, end } in ranges {
        while next < end {
            if !known(&next) {
                next += 1;
                continue;
            }
            let to = next + (next..(next + most).min(end)).take_while(known).count() as u64;
            let bytes = (to - next) * block;
            if cancel.load(Ordering::Relaxed) {
                found.unsettled += to - next;
                next = to;
                continue;
            }
            let data = arena.bytes(slot, bytes as usize);
            match target.file().read_exact_at(data, next * block) {
                Ok(()) => {
                    for (chunk, b) in data.chunks(block as usize).zip(next..) {
                        found.judge(chunk, b, stamp, floors.floor(b).load(Ordering::Acquire));
                    }
                }
                Err(e) => {
                    found.unreadable += to - next;
                    found.wrong(format!("{bytes} bytes at byte {} cannot be read: {e}", next * block));
                }
            }
            next = to;
        }
    }
    Ok(())
}

/// After a run, finished or killed: does every block still hold at least the last write that the journal says was acknowledged?
pub fn check(target: &Target, journal: &Path) -> Result<Verified, Error> {
    let refuse = |reason: String| Error::Journal { path: journal.to_owned(), reason };
    let file = File::open(journal).map_err(|e| journal_error(journal, &e))?;
    let len = file.metadata().map_err(|e| journal_error(journal, &e))?.len();
    let mut header = [0; 32];
    file.read_exact_at(&mut header, 0).map_err(|_| refuse("is no journal of writes: too short".into()))?;
    let [block, stamp, blocks, magic] = [0, 1, 2, 3].map(|i| word_of(&header, i));
    if magic != JOURNAL_MAGIC || !block.is_power_of_two() || len != HEADER_BYTES as u64 + blocks.saturating_mul(8) {
        return Err(refuse("is no journal of writes, or was cut off".into()));
    }
    if blocks.saturating_mul(block) > target.facts().bytes
        || block < 512
        || block % u64::from(target.facts().logical_block) != 0
    {
        return Err(refuse(format!(
            "belongs to a target of {} bytes in blocks of {block}, and {} has {} in blocks of {}",
            blocks.saturating_mul(block),
            target.path().display(),
            target.facts().bytes,
            target.facts().logical_block
        )));
    }
    let floors = Floors::map(blocks, Some(&file), false).map_err(|e| journal_error(journal, &e))?;
    let mut found = Verified::default();
    let all = std::iter::once(0..blocks);
    pass(target, &floors, all, (block, stamp), &AtomicBool::new(false), &mut found)?;
    Ok(found)
}

/// A number that no other run of this program has.
pub(crate) fn fresh_stamp(seed: u64) -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    seed.rotate_left(40) ^ since.as_nanos() as u64 ^ (u64::from(std::process::id()) << 48)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCKS: u64 = 12;

    /// What a test does next: begin something, or let something that is under way end.
    #[derive(Clone, Debug)]
    enum Step {
        Write { at: u64, blocks: u64, early: bool },
        Erase { at: u64, blocks: u64 },
        Read { at: u64, blocks: u64 },
        End { which: usize, failed: bool },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let extent = || (0..BLOCKS).prop_flat_map(|at| (Just(at), 1..=BLOCKS - at));
        let step = prop_oneof![
            4 => (extent(), any::<bool>()).prop_map(|((at, blocks), early)| Step::Write { at, blocks, early }),
            1 => extent().prop_map(|(at, blocks)| Step::Erase { at, blocks }),
            3 => extent().prop_map(|(at, blocks)| Step::Read { at, blocks }),
            7 => (0usize..8, prop::bool::weighted(0.05)).prop_map(|(which, failed)| Step::End { which, failed }),
        ];
        prop::collection::vec(step, 1..120)
    }

    struct UnderWay {
        at: usize,
        len: usize,
        /// Of a write not yet on the medium, or of a read.
        data: Option<Vec<u8>>,
        read_since: Option<u64>,
    }

    /// A device that obeys, whatever the order: no alarm, not for reads, not at the end, and not for whoever comes after a crash.
    fn obey(steps: &[Step]) -> (Verifier, Vec<u8>) {
        let mut v = Verifier::new(512, BLOCKS, None, 77).unwrap();
        let mut medium = vec![0xee; (BLOCKS * 512) as usize];
        let mut under_way: Vec<UnderWay> = Vec::new();
        let end = |v: &mut Verifier, medium: &mut Vec<u8>, io: UnderWay, failed: bool| {
            let range = io.at..io.at + io.len;
            match (io.read_since, io.data) {
                (Some(_), _) if failed => {}
                (Some(since), _) => v.read(io.at as u64, &medium[range], since),
                (None, data) => {
                    if let Some(data) = data.filter(|_| !failed) {
                        medium[range].copy_from_slice(&data);
                    }
                    v.change_ends(io.at as u64, io.len as u64, failed);
                }
            }
        };
        for step in steps {
            match step.clone() {
                Step::Write { at, blocks, early } => {
                    let (at, len) = ((at * 512) as usize, (blocks * 512) as usize);
                    let mut data = vec![0; len];
                    v.write_begins(at as u64, &mut data);
                    if early {
                        medium[at..at + len].copy_from_slice(&data);
                    }
                    under_way.push(UnderWay { at, len, data: (!early).then_some(data), read_since: None });
                }
                Step::Erase { at, blocks } => {
                    let (at, len) = ((at * 512) as usize, (blocks * 512) as usize);
                    v.erase_begins(at as u64, len as u64);
                    under_way.push(UnderWay { at, len, data: Some(vec![0; len]), read_since: None });
                }
                Step::Read { at, blocks } => {
                    let (at, len) = ((at * 512) as usize, (blocks * 512) as usize);
                    under_way.push(UnderWay { at, len, data: None, read_since: Some(v.now()) });
                }
                Step::End { which, failed } if !under_way.is_empty() => {
                    let io = under_way.remove(which % under_way.len());
                    end(&mut v, &mut medium, io, failed);
                }
                Step::End { .. } => {}
            }
            assert!(after_crash(&v, &medium).clean(), "{:?}", after_crash(&v, &medium));
        }
        for io in under_way {
            end(&mut v, &mut medium, io, false);
        }
        (v, medium)
    }

    fn after_crash(v: &Verifier, medium: &[u8]) -> Verified {
        let mut found = Verified::default();
        for (block, data) in medium.chunks(512).enumerate() {
            let floor = v.floors.floor(block as u64).load(Ordering::Relaxed);
            if floor > 0 {
                found.judge(data, block as u64, 77, floor);
            }
        }
        found
    }

    proptest! {
        #[test]
        fn an_obedient_device_is_never_blamed(steps in steps()) {
            let (v, medium) = obey(&steps);
            prop_assert!(v.found.clean(), "{:?}", v.found);
            prop_assert!(after_crash(&v, &medium).clean());
        }

        #[test]
        fn a_device_that_forgets_is_found_out(steps in steps(), block in 0..BLOCKS) {
            let (v, mut medium) = obey(&steps);
            if v.floors.floor(block).load(Ordering::Relaxed) > 0 {
                let at = block as usize * 512;
                medium[at..at + 512].fill(0xee);
                prop_assert_eq!(after_crash(&v, &medium).lost, 1);
            }
        }
    }

    #[test]
    fn each_kind_of_damage_is_told_apart() {
        let mut good = vec![0; 512];
        stamp_block(&mut good, 7, 3, 99);
        let judge = |data: &[u8], block, floor| {
            let mut found = Verified::default();
            found.judge(data, block, 99, floor);
            assert_eq!(found.checked, 1);
            [found.lost, found.torn, found.misplaced]
        };
        assert_eq!(judge(&good, 7, 3), [0, 0, 0]);
        assert_eq!(judge(&good, 7, 2), [0, 0, 0], "a newer write that was not acknowledged may be there");
        assert_eq!(judge(&good, 7, 4), [1, 0, 0]);
        assert_eq!(judge(&good, 8, 3), [0, 0, 1]);
        assert_eq!(judge(&[0; 512], 7, 3), [1, 0, 0]);
        for byte in [8, 100, 511] {
            let mut torn = good.clone();
            torn[byte] ^= 1;
            assert_eq!(judge(&torn, 7, 3), [0, 1, 0], "byte {byte}");
        }
    }
}
