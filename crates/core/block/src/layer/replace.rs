//! Exchange of the scheduler at run time.

use std::collections::VecDeque;

use crate::scheduler::Scheduler;
use crate::{Io, Nanos};

/// Exchanges of the scheduler so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Schedulers exchanged.
    pub count: u64,
    /// Time in which I/O waited and none was sent because an exchange was under way.
    pub pause: Nanos,
}

/// An exchange that waits until nothing is under way.
pub(super) struct Freeze {
    pub(super) scheduler: Box<dyn Scheduler>,
    /// I/O submitted since.
    pub(super) held_back: VecDeque<HeldBack>,
}

/// An I/O that an exchange holds back.
pub(super) struct HeldBack {
    pub(super) submitted: Nanos,
    pub(super) io: Io,
    /// No task sleeps for it.
    pub(super) by_worker: bool,
}
