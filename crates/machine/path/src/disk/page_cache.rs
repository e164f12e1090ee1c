//! I/O through the page cache where a ring would hand each request to a worker thread of the kernel: in memory file systems it is
//! done in place, and buffered writes to others are done by one thread, a batch at a time.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use dumbwaiter_block::Nanos;

use super::waker::Waker;
use crate::target::Kind;
use crate::{Error, Target};

/// How requests of a target in the page cache are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PageCacheMode {
    /// All by the ring.
    #[default]
    Ring,
    /// Reads by the ring. Writes in place as long as none sleeps; else by the writer thread, as the medium is behind.
    WriterThread,
    /// All in place: the data is in memory, and nothing waits.
    InPlace,
}

/// `XFS_SUPER_MAGIC` and `BTRFS_SUPER_MAGIC`: their buffered writes need no worker.
const ASYNCHRONOUS_WRITERS: [i64; 2] = [0x5846_5342, 0x9123_683e];

impl PageCacheMode {
    /// The mode for a target. Reads its first block, if that is in memory.
    fn of(target: &Target) -> PageCacheMode {
        let facts = target.facts();
        if facts.direct || facts.kind != Kind::File {
            return PageCacheMode::Ring;
        }
        let fd = target.file().as_raw_fd();
        let mut block = [0u8; 512];
        let piece = libc::iovec { iov_base: block.as_mut_ptr().cast(), iov_len: block.len() };
        // SAFETY: one piece of 512 bytes, which live over the call.
        let read = unsafe { libc::preadv2(fd, &raw const piece, 1, 0, libc::RWF_NOWAIT) };
        let refused = read < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EOPNOTSUPP);
        if refused {
            return PageCacheMode::InPlace;
        }
        // SAFETY: a plain structure for the kernel to fill in.
        let mut system: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open and the structure lives over the call.
        let known = unsafe { libc::fstatfs(fd, &raw mut system) } == 0;
        match known && ASYNCHRONOUS_WRITERS.contains(&(system.f_type as i64)) {
            true => PageCacheMode::Ring,
            false => PageCacheMode::WriterThread,
        }
    }
}

/// How long writes go to the writer thread after one has slept, at first and at most.
const SHORTEST_DETOUR: Nanos = Nanos::from_ms(500);
const LONGEST_DETOUR: Nanos = Nanos::from_secs(30);

/// Decides whether buffered writes are done in place. A write that sleeps holds up everything that the disk's thread serves.
struct InPlaceWrites {
    /// From then on they are done in place.
    from: Nanos,
    detour: Nanos,
    /// How often this thread had slept before the last write, and in which turn that was.
    sleeps: i64,
    turn: Nanos,
}

impl Default for InPlaceWrites {
    fn default() -> InPlaceWrites {
        InPlaceWrites { from: Nanos::ZERO, detour: SHORTEST_DETOUR, sleeps: 0, turn: Nanos::ZERO }
    }
}

impl InPlaceWrites {
    /// May a write be done in place?
    fn allowed(&mut self, now: Nanos) -> bool {
        if now < self.from {
            return false;
        }
        // Between turns it sleeps for other reasons.
        if std::mem::replace(&mut self.turn, now) != now {
            self.sleeps = sleeps_of_this_thread();
        }
        true
    }

    /// A write that was allowed is done.
    fn done(&mut self, now: Nanos) {
        let before = std::mem::replace(&mut self.sleeps, sleeps_of_this_thread());
        if self.sleeps != before {
            // Longer each time, but forgotten after a quiet while.
            let recent = now.since(self.from) < Nanos(4 * self.detour.0);
            let longer = if recent { Nanos(2 * self.detour.0) } else { SHORTEST_DETOUR };
            self.detour = longer.min(LONGEST_DETOUR);
            self.from = now + self.detour;
        }
    }
}

/// Voluntary context switches.
fn sleeps_of_this_thread() -> i64 {
    // SAFETY: a plain structure for the kernel to fill in.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives over the call.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nvcsw
}

/// A transfer of some pieces of memory.
#[derive(Clone, Copy)]
pub(super) struct Transfer {
    pub(super) id: u32,
    pub(super) read: bool,
    pub(super) first: *const libc::iovec,
    pub(super) count: usize,
    pub(super) at: u64,
    pub(super) flags: i32,
}

// SAFETY: the memory belongs to a request in the device, which stays in place until the transfer is reported.
unsafe impl Send for Transfer {}

impl Transfer {
    /// Moves the data now; the bytes moved, or the negative error.
    ///
    /// # Safety
    /// The pieces and their memory are valid, and nothing else uses them.
    unsafe fn run(&self, fd: i32) -> i32 {
        let (count, at) = (self.count as i32, self.at as i64);
        loop {
            // SAFETY: by the caller's promise.
            let moved = unsafe {
                match self.read {
                    true => libc::preadv2(fd, self.first, count, at, 0),
                    false => libc::pwritev2(fd, self.first, count, at, self.flags),
                }
            };
            if moved >= 0 {
                return moved as i32;
            }
            match std::io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                error => return -error.unwrap_or(libc::EIO),
            }
        }
    }
}

#[derive(Default)]
struct Queues {
    to_do: VecDeque<Transfer>,
    ending: bool,
}

#[derive(Default)]
struct Shared {
    queues: Mutex<Queues>,
    more: Condvar,
    done: Mutex<Vec<(u32, i32)>>,
    any_done: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that does buffered writes.
struct WriterThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Of this turn, not handed over yet.
    batch: Vec<Transfer>,
    /// Handed over or about to be, and not reported.
    outstanding: u32,
}

impl WriterThread {
    fn start(target: Arc<Target>, waker: Waker) -> std::io::Result<WriterThread> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let work = move || write_all(&theirs, &target, &waker);
        let thread = std::thread::Builder::new().name("buffered-writes".into()).spawn(work)?;
        Ok(WriterThread { shared, thread: Some(thread), batch: Vec::new(), outstanding: 0 })
    }

    /// Does it hold anything?
    fn busy(&self) -> bool {
        self.outstanding > 0
    }

    fn push(&mut self, transfer: Transfer) {
        self.outstanding += 1;
        self.batch.push(transfer);
    }

    /// Hands the batch of this turn over.
    fn submit(&mut self) {
        if !self.batch.is_empty() {
            lock(&self.shared.queues).to_do.extend(self.batch.drain(..));
            self.shared.more.notify_one();
        }
    }

    /// Takes what is done: ids and results.
    fn reap(&mut self, done: &mut Vec<(u32, i32)>) {
        if self.outstanding > 0 && self.shared.any_done.swap(false, Ordering::AcqRel) {
            let before = done.len();
            done.append(&mut lock(&self.shared.done));
            self.outstanding -= (done.len() - before) as u32;
        }
    }
}

impl Drop for WriterThread {
    /// Waits until the thread has let go of all memory.
    fn drop(&mut self) {
        self.submit();
        lock(&self.shared.queues).ending = true;
        self.shared.more.notify_one();
        if let Some(thread) = self.thread.take() {
            // It has nothing to report.
            let _ = thread.join();
        }
    }
}

fn write_all(shared: &Shared, target: &Target, waker: &Waker) {
    let fd = target.file().as_raw_fd();
    let (mut batch, mut results) = (VecDeque::new(), Vec::new());
    loop {
        {
            let mut queues = lock(&shared.queues);
            while queues.to_do.is_empty() {
                if queues.ending {
                    return;
                }
                queues = shared.more.wait(queues).unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::swap(&mut queues.to_do, &mut batch);
        }
        for transfer in batch.drain(..) {
            // SAFETY: the memory of a request in the device is not touched until its result is reported, below.
            results.push((transfer.id, unsafe { transfer.run(fd) }));
        }
        lock(&shared.done).append(&mut results);
        if !shared.any_done.swap(true, Ordering::AcqRel) {
            waker.wake();
        }
    }
}

/// Transfers past the ring.
#[derive(Default)]
pub(super) struct PageCache {
    mode: PageCacheMode,
    writer: Option<WriterThread>,
    in_place: InPlaceWrites,
}

/// Who takes a transfer: the ring, the writer thread, or nobody where it is done.
pub(super) enum Taken {
    /// It is for the ring.
    No,
    /// The writer thread has it, or will with [`PageCache::submit`].
    ToWriter,
    /// It is done, with this result.
    Done(i32),
}

impl PageCache {
    /// Without the ring where that is possible. A writer thread wakes the disk by `waker`.
    pub(super) fn of(target: &Arc<Target>, waker: impl FnOnce() -> Result<Waker, Error>) -> Result<PageCache, Error> {
        let mode = PageCacheMode::of(target);
        let writer = match mode == PageCacheMode::WriterThread && target.options().allow_writes {
            true => {
                let failed = |source| Error::Ring { what: "the thread for buffered writes cannot be started", source };
                Some(WriterThread::start(Arc::clone(target), waker()?).map_err(failed)?)
            }
            false => None,
        };
        Ok(PageCache { mode, writer, in_place: InPlaceWrites::default() })
    }

    /// May any transfer go past the ring?
    pub(super) fn in_use(&self) -> bool {
        self.mode != PageCacheMode::Ring
    }

    /// Does a transfer in place, or gives it to the writer thread, unless it is for the ring.
    ///
    /// # Safety
    /// The pieces and their memory are valid, and nothing else uses them until the transfer is done.
    pub(super) unsafe fn take(&mut self, transfer: Transfer, file: &Target, now: Nanos) -> Taken {
        // SAFETY: by the caller's promise.
        let run = || unsafe { transfer.run(file.file().as_raw_fd()) };
        match (self.mode, &mut self.writer) {
            (PageCacheMode::InPlace, _) => Taken::Done(run()),
            (PageCacheMode::WriterThread, Some(writer)) if !transfer.read => {
                if transfer.flags == 0 && !writer.busy() && self.in_place.allowed(now) {
                    let moved = run();
                    self.in_place.done(now);
                    return Taken::Done(moved);
                }
                writer.push(transfer);
                Taken::ToWriter
            }
            _ => Taken::No,
        }
    }

    /// Hands the writer thread what it was given.
    pub(super) fn submit(&mut self) {
        if let Some(writer) = &mut self.writer {
            writer.submit();
        }
    }

    /// Takes what the writer thread has done: ids and results.
    pub(super) fn reap(&mut self, done: &mut Vec<(u32, i32)>) {
        if let Some(writer) = &mut self.writer {
            writer.reap(done);
        }
    }

    /// Does the writer thread hold anything?
    pub(super) fn writing(&self) -> bool {
        self.writer.as_ref().is_some_and(WriterThread::busy)
    }

    /// Waits until it has let go of all memory.
    pub(super) fn end(&mut self) {
        self.writer = None;
    }
}
