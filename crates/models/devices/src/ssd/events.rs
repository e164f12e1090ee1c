//! The drive's own events, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dumbwaiter_block::Nanos;

/// What happens inside the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The firmware has taken up a write, whose data comes over a link that reads use too.
    Fetched(u32),
    /// A write's data has arrived.
    Arrived(u32),
    /// A read may go to the flash.
    Ready(u32),
    /// A part of a read of more than a unit has passed the controller.
    Passed(u32),
    /// The present step of a die ends, unless the die has turned to another step since.
    Die { die: u32, turn: u32 },
    /// A channel has transferred.
    Channel(u32),
    /// The controller hands a program to its die.
    Drained,
    /// A partial program may be due.
    Partial,
    /// A flush that is not queued begins.
    FlushBegins,
    /// It has ended.
    FlushEnded,
    /// A command left the controller, which has room for another.
    Left,
}

/// The events to come; those of one time in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    added: u64,
}

impl Events {
    pub(crate) fn add(&mut self, at: Nanos, event: Event) {
        self.added += 1;
        self.heap.push(Reverse((at, self.added, event)));
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next event due by `now`.
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<(Nanos, Event)> {
        let Reverse((at, _, event)) = *self.heap.peek()?;
        if at > now {
            return None;
        }
        self.heap.pop();
        Some((at, event))
    }
}
