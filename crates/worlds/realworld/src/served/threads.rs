//! Threads of a load whose I/O goes over connections: when each may ask for the next.

use dumbwaiter_block::Nanos;
use dumbwaiter_scenario::load::Thread;

/// A thread during a run.
pub(super) struct ClientThread {
    pub(super) thread: Thread,
    /// Its connections, by the number of the task in its workload.
    pub(super) connections: Vec<Option<usize>>,
    pub(super) outstanding: u32,
    /// It asks for nothing more.
    pub(super) done: bool,
    /// Its stage has begun.
    pub(super) started: bool,
    /// An open loop's depth was exhausted when an I/O was due.
    pub(super) late: bool,
    /// When an open loop's next I/O is due.
    pub(super) polled: Nanos,
    /// It asks again at this time.
    pub(super) wake_at: Nanos,
    /// It may ask now.
    pub(super) ready: bool,
}

impl ClientThread {
    pub(super) fn new(thread: Thread) -> ClientThread {
        ClientThread {
            thread,
            connections: Vec::new(),
            outstanding: 0,
            done: false,
            started: false,
            late: false,
            polled: Nanos::ZERO,
            wake_at: Nanos::MAX,
            ready: false,
        }
    }

    /// Begins with its stage.
    pub(super) fn start(&mut self, now: Nanos) {
        self.started = true;
        self.polled = now.max(self.thread.start);
        if self.thread.start <= now {
            self.ready = true;
        } else {
            self.wake_at = self.thread.start;
        }
    }

    /// It asks for nothing more.
    pub(super) fn stop(&mut self) {
        if !std::mem::replace(&mut self.done, true) {
            self.thread.workload.stopped();
        }
    }

    /// Does a later stage wait for it?
    pub(super) fn is_unfinished(&self) -> bool {
        !self.thread.background && (!self.done || self.outstanding > 0)
    }
}
