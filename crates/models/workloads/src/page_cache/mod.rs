//! A model of the page cache of Linux (6.12 and 6.18), shared by the buffered tasks of a run.
//!
//! Reads: what is in memory costs no I/O; what is not is read with windows ahead. All of it carries RAHEAD, as in
//! Linux, and what a task waits for SYNC too. Clean pages leave when memory is full, the least recently used first.
//!
//! Writes copy into dirty pages; [`Dirty`] pauses the writers as soon as there are many. The flusher writes pages back in the
//! background above a threshold, and those of files that have been dirty for long. `fsync` is done by the task that calls it.
//!
//! A file has no name: it is a region of the device, whose pages have the numbers that they have on the device. A task does not
//! learn which of its I/Os completed: they count as complete in the order of their issue.

mod buffered;
mod flusher;
mod limits;
mod lru;
mod read_ahead;
mod throttle;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dumbwaiter_block::{Flags, Nanos, Op};

use crate::{Want, Workload};

pub use limits::{Amount, Thresholds};
pub use read_ahead::Advice;
pub use throttle::{Dirty, Writer};

/// Bytes and sectors of a page.
const PAGE_BYTES: u64 = 4096;
const PAGE_SECTORS: u64 = 8;
/// Pages of one I/O at most: 256 segments, 1 MiB.
const IO_PAGES: u64 = 256;
/// Most I/Os of a task of the cache under way. What limits them is that it sleeps: for tags, and where controllers let it.
pub const DEPTH: u32 = 4096;
/// Time after which a task looks again for what another one waits for too.
const RETRY_INTERVAL: Nanos = Nanos::from_us(100);

/// Settings of a page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSpec {
    /// Memory that can hold pages of files, all of which may be dirty as far as `dirty` lets them; bytes.
    pub bytes: u64,
    /// Largest read-ahead window, bytes; 0: none.
    pub read_ahead: u64,
    /// Dirty data at which writers stop.
    pub dirty: Amount,
    /// Dirty data above which the flusher writes.
    pub background: Amount,
    /// Age at which a file's dirty pages are written.
    pub expire: Nanos,
    /// Time between looks for such files; 0: there are none.
    pub interval: Nanos,
    /// Ticks of the kernel's clock per second.
    pub hz: u32,
}

impl CacheSpec {
    /// Linux's defaults for this much memory.
    pub fn new(bytes: u64) -> CacheSpec {
        CacheSpec {
            bytes,
            read_ahead: 128 << 10,
            dirty: Amount::Percent(20),
            background: Amount::Percent(10),
            expire: Nanos::from_secs(30),
            interval: Nanos::from_secs(5),
            hz: 250,
        }
    }
}

/// A page cache; clones share it.
#[derive(Clone)]
pub struct PageCache {
    spec: CacheSpec,
    /// Whose files this clone opens and writes back.
    owner: u32,
    /// Size of the device, sectors.
    capacity: u64,
    state: Arc<Mutex<State>>,
}

/// A file that is written.
#[derive(Default)]
struct File {
    /// Where it lies; writers of the same place write one file.
    place: Option<(u64, u64)>,
    /// Whose flusher writes it back: that of the first who opened it.
    owner: u32,
    /// First page that was ever dirty, and the page after the last.
    low: u64,
    end: u64,
    dirty: u64,
    /// Since when it has dirty pages.
    since: Option<Nanos>,
    /// Page at which the flusher continues.
    cursor: u64,
    /// Pages that a pending `sync` waits for.
    sync_left: u64,
    /// Pages that went to the device, and of those, pages written.
    sent: u64,
    done: u64,
    /// Writers that have it open.
    writers: u32,
}

struct State {
    pages: lru::Pages,
    dirty: Dirty,
    files: Vec<File>,
    /// Pages that went to the device, and of those, pages written.
    sent: u64,
    done: u64,
    /// When each flusher looks for old files next, while there is any dirty one: by owner.
    periodic_at: Vec<Option<Nanos>>,
}

impl State {
    /// A page of a file becomes dirty, if it is not.
    fn write(&mut self, file: usize, page: u64, writer: &mut Writer, now: Nanos, interval: Nanos) {
        if !self.pages.write(page) {
            return;
        }
        self.dirty.dirtied(writer, 1);
        let file = &mut self.files[file];
        file.low = if file.end == 0 { page } else { file.low.min(page) };
        file.end = file.end.max(page + 1);
        file.dirty += 1;
        file.since.get_or_insert(now);
        if interval > Nanos::ZERO {
            let owner = file.owner as usize;
            self.periodic_at[owner].get_or_insert(now + interval);
        }
    }

    /// Takes a run of a file's dirty pages in `from..to`, at most `most`, to write them: its first page and length.
    fn take_run(&mut self, file: usize, from: u64, to: u64, most: u64) -> Option<(u64, u64)> {
        let (first, count) = self.pages.take_dirty(from, to, most.min(IO_PAGES))?;
        self.dirty.writeback_started(count);
        self.sent += count;
        let file = &mut self.files[file];
        file.sent += count;
        file.dirty = file.dirty.saturating_sub(count);
        file.sync_left = file.sync_left.saturating_sub(count);
        if file.dirty == 0 {
            // Where files overlap, one may have pages of another.
            match self.pages.next_dirty(file.low, file.end) {
                Some(_) => file.dirty = 1,
                None => (file.since, file.sync_left) = (None, 0),
            }
        }
        Some((first, count))
    }

    /// The device has written pages of a file.
    fn written(&mut self, file: usize, pages: u64) {
        self.dirty.written(pages);
        self.done += pages;
        self.files[file].done += pages;
    }
}

impl PageCache {
    /// An empty cache for a device of `capacity_sectors`.
    pub fn new(spec: CacheSpec, capacity_sectors: u64) -> PageCache {
        let memory_pages = spec.bytes / PAGE_BYTES;
        let thresholds = Thresholds::new(memory_pages, spec.dirty, spec.background);
        let state = State {
            pages: lru::Pages::new(memory_pages),
            dirty: Dirty::new(thresholds, spec.hz),
            files: Vec::new(),
            sent: 0,
            done: 0,
            periodic_at: vec![None],
        };
        PageCache { spec, owner: 0, capacity: capacity_sectors, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The I/O of a run of pages.
    fn want(&self, op: Op, (first, count): (u64, u64), flags: Flags) -> Want {
        let sector = first * PAGE_SECTORS;
        let sectors = (count * PAGE_SECTORS).min(self.capacity - sector) as u32;
        Want { op, sector, sectors, flags, ioprio: None, stream: 0, task: 0 }
    }

    /// Pages on the device.
    fn device_pages(&self) -> u64 {
        self.capacity.div_ceil(PAGE_SECTORS)
    }

    /// Pages dirty or under write-back now, and the thresholds.
    pub fn dirty_pages(&self) -> (u64, Thresholds) {
        let state = self.state();
        (state.dirty.total(), state.dirty.thresholds())
    }

    /// The same cache as a group with write-back of its own has it: what it opens first, its flusher writes back.
    pub fn of_group(&self, owner: u32) -> PageCache {
        let periodic_at = &mut self.state().periodic_at;
        let groups = periodic_at.len().max(owner as usize + 1);
        periodic_at.resize(groups, None);
        PageCache { owner, ..self.clone() }
    }

    /// Opens a file for one writer: a new one, or that of a `place`, its first byte and length.
    pub(crate) fn open(&self, place: Option<(u64, u64)>) -> OpenFile {
        let mut state = self.state();
        let known = state.files.iter().position(|file| place.is_some() && file.place == place);
        let file = known.unwrap_or_else(|| {
            state.files.push(File { place, owner: self.owner, ..File::default() });
            state.files.len() - 1
        });
        state.files[file].writers += 1;
        OpenFile { cache: self.clone(), file, writer: Writer::default(), is_open: true }
    }

    /// Starts a `sync`: all pages that are dirty now are to be written by the flusher.
    pub(crate) fn sync(&self) {
        for file in &mut self.state().files {
            file.sync_left = file.dirty;
        }
    }

    /// Whether the last [`PageCache::sync`] is complete. Once all its pages have gone to the device, `last` says how many pages must
    /// have been written in all.
    pub(crate) fn synced(&self, last: &mut Option<u64>) -> bool {
        let state = self.state();
        if last.is_none() && state.files.iter().all(|file| file.sync_left == 0) {
            *last = Some(state.sent);
        }
        last.is_some_and(|last| state.done >= last)
    }

    /// Wraps the workload of a buffered task, so that its I/O goes through the cache. Tasks of the same `place` (first byte
    /// and length) write one file, whose dirty pages are written back in one order. At most [`DEPTH`] I/Os are under way.
    pub fn buffered(&self, inner: Box<dyn Workload>, place: (u64, u64), advice: Advice) -> Box<dyn Workload> {
        Box::new(buffered::Buffered::new(inner, self.open(Some(place)), advice))
    }

    /// The flusher of this group's files, a task of at most [`DEPTH`] I/Os. It ends when all writers have ended and all pages are
    /// clean.
    pub fn flusher(&self) -> Box<dyn Workload> {
        Box::new(flusher::Flusher::new(self.clone()))
    }
}

/// A file as one writer has it open.
pub(crate) struct OpenFile {
    cache: PageCache,
    file: usize,
    writer: Writer,
    is_open: bool,
}

impl OpenFile {
    /// Copies pages of the device into the cache, as far as the writer is not paused: how many, and until when it is.
    pub(crate) fn write(&mut self, first: u64, count: u64, now: Nanos) -> (u64, Option<Nanos>) {
        let mut state = self.cache.state();
        // One that was stopped is checked before it goes on.
        if let Some(until) = state.dirty.pause(&mut self.writer, now) {
            return (0, Some(until));
        }
        for page in first..first + count {
            state.write(self.file, page, &mut self.writer, now, self.cache.spec.interval);
            if let Some(until) = state.dirty.pause(&mut self.writer, now) {
                return (page + 1 - first, Some(until));
            }
        }
        (count, None)
    }

    /// The writer closes the file.
    pub(crate) fn close(&mut self) {
        if std::mem::replace(&mut self.is_open, false) {
            let file = &mut self.cache.state().files[self.file];
            file.writers = file.writers.saturating_sub(1);
        }
    }
}

/// The pages of an I/O: the first, and the one after the last.
pub(crate) fn pages_of(want: &Want) -> (u64, u64) {
    (want.sector / PAGE_SECTORS, (want.sector + u64::from(want.sectors)).div_ceil(PAGE_SECTORS))
}

#[cfg(test)]
mod tests;
