//! Exchange of the scheduler at run time.

use std::collections::VecDeque;

use crate::scheduler::Scheduler;
use crate::{Io, Nanos};

/// How requests under way pass from one scheduler to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handover {
    /// As Linux: I/O submitted from now on waits; the old scheduler goes on until everything that was submitted before is
    /// finished; then the new one takes over and gets what waited.
    #[default]
    Freeze,
    /// The new scheduler gets all queued requests at once, in order of their arrival, and the device stays busy. Requests
    /// already sent finish without the new scheduler hearing of them.
    Live,
}

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
    /// I/O submitted since, with its time.
    pub(super) held_back: VecDeque<(Nanos, Io)>,
}
