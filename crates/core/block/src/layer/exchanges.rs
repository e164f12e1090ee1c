//! Exchanges of the scheduler: how many there were, and the one that waits until nothing is under way.

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

/// Exchanges, past and under way.
#[derive(Default)]
pub(super) struct Exchanges {
    pub(super) freeze: Option<Freeze>,
    pub(super) switches: Switches,
    /// Tokens of I/Os that a freeze held back and that entered since.
    pub(super) entered: VecDeque<u64>,
    /// When a request was last sent.
    pub(super) last_issue: Nanos,
}

impl Exchanges {
    /// I/Os that a freeze holds back.
    pub(super) fn held_back(&self) -> u64 {
        self.freeze.as_ref().map_or(0, |freeze| freeze.held_back.len() as u64)
    }

    /// Holds an I/O back while a freeze is under way. `by_worker`: no task sleeps for it.
    pub(super) fn hold_back(&mut self, submitted: Nanos, io: Io, by_worker: bool) {
        if let Some(freeze) = &mut self.freeze {
            freeze.held_back.push_back(HeldBack { submitted, io, by_worker });
        }
    }
}
