//! A task whose I/O goes through the cache.

use std::collections::VecDeque;

use dumbwaiter_block::{Flags, Nanos, Op};

use super::read_ahead::{Advice, ReadAhead};
use super::{IO_PAGES, OpenFile, PAGE_BYTES, PageCache, RETRY_INTERVAL, pages_of};
use crate::{ApplicationOutcome, Next, Want, Workload};

/// Time to copy a sector to or from the cache: 4 GB/s.
const COPY_NS_PER_SECTOR: u64 = 128;
/// Sectors copied before the copy time is charged.
const COPY_SECTORS_MAX: u64 = 128;

/// Progress of a flush (`fsync`, or a write that is synchronous).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flushing {
    No,
    /// Dirty pages of this range go to the device.
    Pages(u64, u64),
    /// So many pages of the file must have been written.
    Written(u64),
    /// The device's own cache is flushed.
    Device,
}

/// An I/O of the task under way.
#[derive(Clone, Copy)]
enum Transfer {
    Read(u64, u64),
    Write(u64),
    Other,
}

pub(super) struct Buffered {
    inner: Box<dyn Workload>,
    file: OpenFile,
    /// The I/O that the task is executing, and its pages that are done.
    pending: Option<Want>,
    done: u64,
    /// Sectors copied since the copy time was last charged.
    copied: u64,
    /// I/Os under way, oldest first.
    transfers: VecDeque<Transfer>,
    ahead: ReadAhead,
    /// What is left of a window to be read, and whether the task waits for it.
    window: (u64, u64),
    awaited: bool,
    paused_until: Nanos,
    flushing: Flushing,
}

impl Buffered {
    pub(super) fn new(inner: Box<dyn Workload>, file: OpenFile, advice: Advice) -> Buffered {
        let ahead = ReadAhead::new(file.cache.spec.read_ahead / PAGE_BYTES, advice);
        Buffered {
            inner,
            file,
            pending: None,
            done: 0,
            copied: 0,
            transfers: VecDeque::new(),
            ahead,
            window: (0, 0),
            awaited: false,
            paused_until: Nanos::ZERO,
            flushing: Flushing::No,
        }
    }

    fn cache(&self) -> &PageCache {
        &self.file.cache
    }

    fn issue(&mut self, transfer: Transfer, want: Want) -> Next {
        self.transfers.push_back(transfer);
        Next::Issue(want)
    }

    /// Completes the I/O of the task. It continues at once, or after the copy time.
    fn satisfied(&mut self, want: &Want, now: Nanos) -> Option<Next> {
        self.done = 0;
        self.inner.completed(now, 0, Nanos::ZERO);
        self.copied += u64::from(want.sectors);
        (self.copied >= COPY_SECTORS_MAX)
            .then(|| Next::Wait(now + Nanos(std::mem::take(&mut self.copied) * COPY_NS_PER_SECTOR)))
    }

    /// The next I/O of the window that is being read.
    fn read_window(&mut self) -> Option<Next> {
        let (from, to) = self.window;
        let absent = self.cache().state().pages.absent(from, to, IO_PAGES);
        let Some((first, count)) = absent else {
            self.window = (0, 0);
            return None;
        };
        self.window.0 = first + count;
        self.cache().state().pages.begin_read(first, count);
        let flags = if std::mem::take(&mut self.awaited) { Flags::RAHEAD.with(Flags::SYNC) } else { Flags::RAHEAD };
        let want = self.cache().want(Op::Read, (first, count), flags);
        Some(self.issue(Transfer::Read(first, count), want))
    }

    /// Next step of a read; `None` if it has all its pages.
    fn step_read(&mut self, want: &Want, now: Nanos) -> Option<Next> {
        let (first, end) = pages_of(want);
        loop {
            if let Some(next) = self.read_window() {
                return Some(next);
            }
            let page = first + self.done;
            if page >= end {
                self.ahead.read(end - 1);
                return None;
            }
            let device_pages = self.cache().device_pages();
            let mut state = self.file.cache.state();
            let window = if let Some(window) = self.ahead.used(page) {
                window
            } else if state.pages.is_cached(page) {
                state.pages.used(page);
                self.done += 1;
                continue;
            } else if state.pages.is_read(page) {
                let own = !self.transfers.is_empty();
                return Some(if own { Next::Blocked } else { Next::Wait(now + RETRY_INTERVAL) });
            } else {
                self.awaited = true;
                self.ahead.missed(page, end - page, |most| state.pages.present_before(page, most))
            };
            self.window = (window.0, window.1.min(device_pages));
        }
    }

    fn step_write(&mut self, want: &Want, now: Nanos) -> Option<Next> {
        let (first, end) = pages_of(want);
        if first + self.done < end {
            let (done, pause) = self.file.write(first + self.done, end - first - self.done, now);
            self.done += done;
            if let Some(until) = pause {
                self.paused_until = until;
                return Some(Next::Pause(until));
            }
        }
        let is_synchronous = want.flags.any(Flags::FUA);
        if is_synchronous { self.step_flush(first, end, now) } else { None }
    }

    /// Next step of a flush of the file's dirty pages in `from..to`: they are written, by this task and those that the flusher has
    /// sent; then the device's cache is flushed.
    fn step_flush(&mut self, from: u64, to: u64, now: Nanos) -> Option<Next> {
        loop {
            match self.flushing {
                Flushing::No => self.flushing = Flushing::Pages(from, to),
                Flushing::Pages(from, to) => {
                    let number = self.file.file;
                    let run = self.file.cache.state().take_run(number, from, to, IO_PAGES);
                    if let Some((first, count)) = run {
                        self.flushing = Flushing::Pages(first + count, to);
                        let want = self.cache().want(Op::Write, (first, count), Flags::SYNC);
                        return Some(self.issue(Transfer::Write(count), want));
                    }
                    let sent = self.cache().state().files[number].sent;
                    self.flushing = Flushing::Written(sent);
                }
                Flushing::Written(sent) => {
                    if self.cache().state().files[self.file.file].done < sent {
                        let own = !self.transfers.is_empty();
                        return Some(if own { Next::Blocked } else { Next::Wait(now + RETRY_INTERVAL) });
                    }
                    self.flushing = Flushing::Device;
                    let flush = Want { op: Op::Flush, sectors: 0, ..self.cache().want(Op::Flush, (0, 0), Flags::SYNC) };
                    return Some(self.issue(Transfer::Other, flush));
                }
                Flushing::Device if !self.transfers.is_empty() => return Some(Next::Blocked),
                Flushing::Device => {
                    self.flushing = Flushing::No;
                    return None;
                }
            }
        }
    }

    /// All of the file.
    fn extent(&self) -> (u64, u64) {
        let state = self.cache().state();
        let file = &state.files[self.file.file];
        (file.low, file.end)
    }
}

impl Workload for Buffered {
    fn next(&mut self, now: Nanos) -> Next {
        if now < self.paused_until {
            return Next::Wait(self.paused_until);
        }
        loop {
            let want = match self.pending.take() {
                Some(want) => want,
                None => match self.inner.next(now) {
                    Next::Issue(want) => want,
                    Next::Done => {
                        self.file.close();
                        return Next::Done;
                    }
                    other => return other,
                },
            };
            let step = match want.op {
                Op::Read => self.step_read(&want, now),
                Op::Write => self.step_write(&want, now),
                Op::Flush => {
                    let (from, to) = self.extent();
                    self.step_flush(from, to, now)
                }
                // Discards bypass the cache, one at a time.
                _ if !self.transfers.is_empty() => Some(Next::Blocked),
                _ => {
                    self.inner.completed(now, 0, Nanos::ZERO);
                    return self.issue(Transfer::Other, want);
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
        let mut state = self.file.cache.state();
        match self.transfers.pop_front() {
            Some(Transfer::Read(first, count)) => state.pages.end_read(first, count),
            Some(Transfer::Write(pages)) => state.written(self.file.file, pages),
            Some(Transfer::Other) | None => {}
        }
    }

    fn stopped(&mut self) {
        self.inner.stopped();
        self.file.close();
    }

    fn outcome(&self, now: Nanos) -> Option<ApplicationOutcome> {
        self.inner.outcome(now)
    }
}
