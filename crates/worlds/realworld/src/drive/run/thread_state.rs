//! What a run keeps of a thread of its load.

use dumbwaiter_block::Nanos;
use dumbwaiter_scenario::load::{Running, Thread};

/// A thread of the load, and when it may submit again.
pub(super) struct ThreadState {
    pub(super) running: Running,
    /// When its workload is polled again without a completion.
    pub(super) wake_at: Nanos,
    /// Time up to which an open loop has been polled.
    pub(super) polled: Nanos,
    /// It is in the list of threads that may submit.
    pub(super) ready: bool,
}

impl ThreadState {
    pub(super) fn new(thread: Thread) -> ThreadState {
        ThreadState { running: Running::new(thread), wake_at: Nanos::MAX, polled: Nanos::ZERO, ready: false }
    }
}

impl AsMut<Running> for ThreadState {
    fn as_mut(&mut self) -> &mut Running {
        &mut self.running
    }
}
