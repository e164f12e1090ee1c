//! A model of the page cache, shared by the buffered tasks of a run.
//!
//! Reads: sequential access is read ahead in windows that double from 16 to 128 KiB. Synchronous windows carry SYNC,
//! windows read ahead RAHEAD. Random reads fetch only what they need. Data is never cached for a second reader: files
//! are larger than memory, and caches are dropped before a run.
//!
//! Writes copy into dirty pages. Above 10 % of the cache's memory a flusher writes them back in the background; above
//! 20 % writers wait. Pages of a file whose oldest has been dirty for the write-back delay are written in any case. The
//! flusher visits the files in turn, up to 4 MiB of each at a time, sorted by address, and merges contiguous pages.
//! A task does not learn which of its I/Os completed: write-backs count as complete in the order of their issue.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dumbwaiter_block::{Flags, Nanos, Op};

use crate::{ApplicationOutcome, Next, Want, Workload};

/// Sectors of a page.
const PAGE_SECTORS: u64 = 8;
/// Pages of one chunk of the dirty bits: 128 MiB.
const CHUNK_PAGES: u64 = 32_768;
/// Pages of a file written before the flusher turns to the next: 4 MiB.
const TURN_PAGES: u64 = 1024;
/// Queue depth of the flusher.
pub const FLUSHER_DEPTH: u32 = 128;
/// Sleep of a writer that finds too many dirty pages, and of an idle flusher.
const RETRY_INTERVAL: Nanos = Nanos::from_ms(10);
/// First and largest read-ahead window, in sectors.
const READAHEAD_WINDOWS: (u64, u64) = (32, 256);
/// Time to copy a sector to or from the cache: 4 GB/s.
const COPY_NS_PER_SECTOR: u64 = 128;
/// Sectors copied before the copy time is charged.
const COPY_SECTORS_MAX: u64 = 128;

/// Settings of a page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSpec {
    /// Memory, bytes.
    pub bytes: u64,
    /// Whether to read ahead.
    pub readahead: bool,
    /// Age at which dirty pages are written back; 0 for at once.
    pub writeback_delay: Nanos,
}

/// A page cache; clones share it.
#[derive(Clone)]
pub struct PageCache {
    spec: CacheSpec,
    capacity: u64,
    state: Arc<Mutex<State>>,
}

/// A file that is written.
#[derive(Default)]
struct File {
    /// Where it lies; writers of the same place write one file.
    place: Option<(u64, u64)>,
    /// First and last page that were ever dirty.
    low: u64,
    high: u64,
    dirty: u64,
    since: Option<Nanos>,
    /// Page at which the flusher continues.
    cursor: u64,
    /// Pages that a pending `sync` waits for.
    sync_left: u64,
    /// Writers that have it open.
    writers: u32,
}

#[derive(Default)]
struct State {
    /// Dirty bits of each chunk of the device, allocated at its first write.
    chunks: Vec<Option<Box<[u64; CHUNK_PAGES as usize / 64]>>>,
    dirty: u64,
    files: Vec<File>,
    /// Pages of each write-back in flight, oldest first.
    under_way: VecDeque<u64>,
    writeback: u64,
    issued: u64,
    completed: u64,
    /// The flusher's current file, and the pages left of its turn.
    file: usize,
    turn: u64,
}

impl State {
    fn bit(&mut self, page: u64) -> (&mut u64, u64) {
        let (chunk, at) = ((page / CHUNK_PAGES) as usize, page % CHUNK_PAGES);
        let words = self.chunks[chunk].get_or_insert_with(|| Box::new([0; CHUNK_PAGES as usize / 64]));
        (&mut words[(at / 64) as usize], 1 << (at % 64))
    }

    /// The first dirty page in `from..to`.
    fn next_dirty(&self, from: u64, to: u64) -> Option<u64> {
        let mut page = from;
        while page < to {
            let Some(words) = &self.chunks[(page / CHUNK_PAGES) as usize] else {
                page = (page / CHUNK_PAGES + 1) * CHUNK_PAGES;
                continue;
            };
            let word = words[(page % CHUNK_PAGES / 64) as usize] >> (page % 64);
            if word != 0 {
                page += u64::from(word.trailing_zeros());
                return (page < to).then_some(page);
            }
            page = (page / 64 + 1) * 64;
        }
        None
    }

    fn write(&mut self, file: usize, want: &Want, now: Nanos) {
        let (first, last) = (want.sector / PAGE_SECTORS, (want.sector + u64::from(want.sectors) - 1) / PAGE_SECTORS);
        for page in first..=last {
            let (word, bit) = self.bit(page);
            if *word & bit == 0 {
                *word |= bit;
                self.dirty += 1;
                self.files[file].dirty += 1;
            }
        }
        let f = &mut self.files[file];
        f.low = if f.high == 0 && f.since.is_none() && f.cursor == 0 { first } else { f.low.min(first) };
        f.high = f.high.max(last);
        f.since.get_or_insert(now);
    }

    /// Takes the next run of dirty pages, as (first, count), of the file whose turn it is, and marks them clean.
    fn take_dirty_run(&mut self) -> Option<(u64, u64)> {
        let (low, high, cursor) = {
            let f = &self.files[self.file];
            (f.low, f.high + 1, f.cursor.max(f.low))
        };
        let first = self.next_dirty(cursor, high).or_else(|| self.next_dirty(low, cursor.min(high)))?;
        let most = self.turn.min(high - first);
        let mut count = 0;
        while count < most {
            let (word, bit) = self.bit(first + count);
            if *word & bit == 0 {
                break;
            }
            *word &= !bit;
            count += 1;
        }
        self.dirty -= count;
        self.writeback += count;
        self.turn -= count;
        let f = &mut self.files[self.file];
        f.dirty = f.dirty.saturating_sub(count);
        f.sync_left = f.sync_left.saturating_sub(count);
        f.cursor = first + count;
        Some((first, count))
    }
}

impl PageCache {
    /// An empty cache for a device of `capacity_sectors`.
    pub fn new(spec: CacheSpec, capacity_sectors: u64) -> PageCache {
        let chunks = (0..=capacity_sectors / PAGE_SECTORS / CHUNK_PAGES).map(|_| None).collect();
        let under_way = VecDeque::with_capacity(FLUSHER_DEPTH as usize);
        let state = State { chunks, under_way, ..State::default() };
        PageCache { spec, capacity: capacity_sectors, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of pages in `percent` of the memory.
    fn pages(&self, percent: u64) -> u64 {
        self.spec.bytes / 100 * percent / 4096
    }

    /// Opens a new file for one writer.
    pub(crate) fn open(&self) -> usize {
        let mut state = self.state();
        state.files.push(File { writers: 1, ..File::default() });
        state.files.len() - 1
    }

    /// Opens the file of `place`, its first byte and length, for one more writer.
    fn open_at(&self, place: (u64, u64)) -> usize {
        let mut state = self.state();
        if let Some(known) = state.files.iter().position(|f| f.place == Some(place)) {
            state.files[known].writers += 1;
            return known;
        }
        state.files.push(File { place: Some(place), writers: 1, ..File::default() });
        state.files.len() - 1
    }

    /// One writer closes a file.
    pub(crate) fn close(&self, file: usize) {
        let file = &mut self.state().files[file];
        file.writers = file.writers.saturating_sub(1);
    }

    /// Copies into the cache; false if too many pages are dirty.
    pub(crate) fn write(&self, file: usize, want: &Want, now: Nanos) -> bool {
        let mut state = self.state();
        if state.dirty + state.writeback >= self.pages(20).max(1) {
            return false;
        }
        state.write(file, want, now);
        true
    }

    /// Starts a sync: all pages that are dirty now are to be written.
    pub(crate) fn sync(&self) {
        for file in &mut self.state().files {
            file.sync_left = file.dirty;
        }
    }

    /// Whether the last [`PageCache::sync`] is complete. Once all its write-backs are issued, `last` holds the number
    /// of the last one.
    pub(crate) fn synced(&self, last: &mut Option<u64>) -> bool {
        let state = self.state();
        if last.is_none() && state.files.iter().all(|f| f.sync_left == 0) {
            *last = Some(state.issued);
        }
        last.is_some_and(|last| state.completed >= last)
    }

    /// Wraps the workload of a buffered task, so that its I/O goes through the cache. Tasks of the same `place` (first byte
    /// and length) write one file, whose dirty pages are written back in one order.
    pub fn buffered(&self, inner: Box<dyn Workload>, place: (u64, u64)) -> Box<dyn Workload> {
        let file = self.open_at(place);
        Box::new(Buffered {
            inner,
            file,
            closed: false,
            cache: self.clone(),
            pending: None,
            copied: 0,
            outstanding: 0,
            whole: (0, 0),
            issued: (0, 0),
            expected: u64::MAX,
            marker: u64::MAX,
            window: READAHEAD_WINDOWS.0,
            flushing: Flushing::No,
        })
    }

    /// The flusher, a task with queue depth [`FLUSHER_DEPTH`]. It ends when all writers have ended and all pages are
    /// clean.
    pub fn flusher(&self) -> Box<dyn Workload> {
        Box::new(Flusher(self.clone()))
    }
}

struct Flusher(PageCache);

impl Workload for Flusher {
    fn next(&mut self, now: Nanos) -> Next {
        let cache = &self.0;
        let mut guard = cache.state();
        let state = &mut *guard;
        let over = state.dirty > cache.pages(10);
        let count = state.files.len();
        // The current file until its turn ends, then each other file once, then the current one again.
        for _ in 0..=count {
            let Some(f) = state.files.get(state.file) else { break };
            let expired = f.since.is_some_and(|since| now.since(since) >= cache.spec.writeback_delay);
            let sync = f.sync_left > 0;
            if state.turn > 0
                && f.dirty > 0
                && (over || expired || sync)
                && let Some((page, pages)) = state.take_dirty_run()
            {
                state.under_way.push_back(pages);
                state.issued += 1;
                let (sector, sectors) =
                    (page * PAGE_SECTORS, (pages * PAGE_SECTORS).min(cache.capacity - page * PAGE_SECTORS) as u32);
                let flags = if sync { Flags::NONE } else { Flags::BACKGROUND };
                return Next::Issue(Want { op: Op::Write, sector, sectors, flags, ioprio: None, stream: 0, task: 0 });
            }
            let f = &mut state.files[state.file];
            if f.dirty == 0 || (expired && state.turn > 0) {
                // The file has no dirty page left: any remaining count belongs to an overlapping file.
                (f.since, f.sync_left) = (None, 0);
            }
            state.file = (state.file + 1) % count;
            state.turn = TURN_PAGES;
        }
        let over = state.dirty == 0 && state.writeback == 0 && state.files.iter().all(|f| f.writers == 0);
        if over { Next::Done } else { Next::Wait(now + RETRY_INTERVAL) }
    }

    fn completed(&mut self, _now: Nanos, _task: u16, _lat: Nanos) {
        let mut state = self.0.state();
        let pages = state.under_way.pop_front().unwrap_or(0);
        state.writeback -= pages;
        state.completed += 1;
    }
}

/// Progress of a synchronous flush (`fsync`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flushing {
    No,
    /// Write-back in progress; see [`PageCache::synced`].
    Pages(Option<u64>),
    /// Flush of the device cache in progress.
    Device,
}

struct Buffered {
    inner: Box<dyn Workload>,
    cache: PageCache,
    file: usize,
    closed: bool,
    /// The I/O that the task is executing.
    pending: Option<Want>,
    /// Sectors copied since the copy time was last charged.
    copied: u64,
    outstanding: u32,
    /// Sectors cached, and sectors cached or in flight.
    whole: (u64, u64),
    issued: (u64, u64),
    /// Next sector of a sequential reader, and the sector that triggers the next window.
    expected: u64,
    marker: u64,
    window: u64,
    flushing: Flushing,
}

impl Buffered {
    fn close(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            self.cache.close(self.file);
        }
    }

    fn read(&mut self, sector: u64, sectors: u64, flags: Flags) -> Next {
        self.outstanding += 1;
        let sectors = sectors as u32;
        Next::Issue(Want { op: Op::Read, sector, sectors, flags, ioprio: None, stream: 0, task: 0 })
    }

    /// Completes the I/O of the task. It continues at once, or after the copy time.
    fn satisfied(&mut self, want: &Want, now: Nanos) -> Option<Next> {
        self.inner.completed(now, 0, Nanos::ZERO);
        self.copied += u64::from(want.sectors);
        (self.copied >= COPY_SECTORS_MAX)
            .then(|| Next::Wait(now + Nanos(std::mem::take(&mut self.copied) * COPY_NS_PER_SECTOR)))
    }

    /// Next step of a read; `None` if its data is cached.
    fn step_read(&mut self, want: &Want) -> Option<Next> {
        let (start, end) = (want.sector, want.sector + u64::from(want.sectors));
        let inside = |(from, to): (u64, u64)| from <= start && end <= to;
        let room = self.cache.capacity;
        if inside(self.issued) && self.cache.spec.readahead && end > self.marker && self.outstanding == 0 {
            // The trigger is reached: read the next window ahead.
            self.window = (self.window * 2).min(READAHEAD_WINDOWS.1);
            let from = self.issued.1;
            let to = (from + self.window).min(room);
            self.marker = from;
            if to > from {
                self.issued.1 = to;
                return Some(self.read(from, to - from, Flags::RAHEAD));
            }
        }
        if inside(self.whole) {
            self.expected = end;
            return None;
        }
        if self.outstanding > 0 {
            return Some(Next::Blocked);
        }
        let sequential = self.cache.spec.readahead && (start == self.expected || self.expected == u64::MAX);
        let to = if sequential {
            self.window =
                READAHEAD_WINDOWS.0.max((end - start).next_power_of_two()).min(READAHEAD_WINDOWS.1.max(end - start));
            self.marker = end;
            (start + self.window).max(end).min(room)
        } else {
            self.marker = u64::MAX;
            end
        };
        // Even a random read may begin a sequence.
        (self.whole, self.issued, self.expected) = ((start, start), (start, to), end);
        Some(self.read(start, to - start, Flags::SYNC))
    }
}

impl Workload for Buffered {
    fn next(&mut self, now: Nanos) -> Next {
        loop {
            let want = match self.pending.take() {
                Some(want) => want,
                None => match self.inner.next(now) {
                    Next::Issue(want) => want,
                    Next::Done => {
                        self.close();
                        return Next::Done;
                    }
                    other => return other,
                },
            };
            let step = match want.op {
                Op::Read => self.step_read(&want),
                Op::Write => (!self.cache.write(self.file, &want, now)).then_some(Next::Wait(now + RETRY_INTERVAL)),
                Op::Flush => match self.flushing {
                    Flushing::No => {
                        self.cache.sync();
                        self.flushing = Flushing::Pages(None);
                        Some(Next::Wait(now + Nanos::from_ms(1)))
                    }
                    Flushing::Pages(mut last) => {
                        if self.cache.synced(&mut last) {
                            self.flushing = Flushing::Device;
                            self.outstanding += 1;
                            self.pending = Some(want);
                            return Next::Issue(want);
                        }
                        self.flushing = Flushing::Pages(last);
                        Some(Next::Wait(now + Nanos::from_ms(1)))
                    }
                    Flushing::Device if self.outstanding > 0 => Some(Next::Blocked),
                    Flushing::Device => {
                        self.flushing = Flushing::No;
                        None
                    }
                },
                // Discards bypass the cache, one at a time.
                _ if self.outstanding > 0 => Some(Next::Blocked),
                _ => {
                    self.outstanding += 1;
                    self.inner.completed(now, 0, Nanos::ZERO);
                    return Next::Issue(want);
                }
            };
            match step {
                Some(next) => {
                    self.pending = Some(want);
                    return next;
                }
                None => {
                    if let Some(next) = self.satisfied(&want, now) {
                        return next;
                    }
                }
            }
        }
    }

    fn completed(&mut self, _now: Nanos, _task: u16, _lat: Nanos) {
        self.outstanding -= 1;
        if self.outstanding == 0 {
            self.whole = self.issued;
        }
    }

    fn stopped(&mut self) {
        self.inner.stopped();
        self.close();
    }

    fn outcome(&self, now: Nanos) -> Option<ApplicationOutcome> {
        self.inner.outcome(now)
    }
}

#[cfg(test)]
mod tests;
