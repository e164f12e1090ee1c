//! An I/O of a run.

use dumbwaiter_block::{Io, Nanos, RequestId};

/// An I/O of a thread, from its submission until the thread is notified.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    pub(super) submit: Nanos,
    pub(super) insert: Nanos,
    pub(super) issue: Nanos,
    pub(super) device_done: Nanos,
    /// When it first reached the block layer; zero: not yet.
    pub(super) arrived: Nanos,
    /// Time for which it waited for the scheduler's lock, ns.
    pub(super) lock: u64,
    pub(super) io: Io,
    pub(super) thread: u32,
    pub(super) task: u16,
    /// The drive that it goes to.
    pub(super) drive: u8,
    /// The request that its task sleeps for.
    pub(super) request: Option<RequestId>,
    /// A worker thread of the ring submits it.
    pub(super) worker: bool,
    /// When its completion could be seen by a thread that was not looking; else zero.
    pub(super) posted: Nanos,
    /// The device has completed it.
    pub(super) done: bool,
    /// The workload knows of its completion.
    pub(super) is_known: bool,
    /// It failed.
    pub(super) failed: bool,
    /// Its thread slept before it polled.
    pub(super) slept: bool,
    /// Time since which its thread polls for it.
    pub(super) polls_from: Option<Nanos>,
}

impl Slot {
    /// It reaches the block layer at `now`, perhaps once more.
    pub(super) fn arrives(&mut self, now: Nanos) {
        if self.arrived == Nanos::ZERO {
            self.arrived = now;
        }
    }
}
