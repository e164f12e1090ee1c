//! The commands that a device holds: as many as its depth, numbered in the order of their arrival.

use dumbwaiter_block::Nanos;

use crate::outbox::Outbox;
use crate::{Breakdown, Command, Completion, Submitted};

/// Commands in a device that knows the time of a completion when the command arrives.
#[derive(Debug)]
pub(crate) struct Held {
    depth: u32,
    count: u32,
    /// Number of the next command.
    seq: u64,
    outbox: Outbox,
}

impl Held {
    pub(crate) fn new(depth: u32) -> Held {
        Held { depth, count: 0, seq: 0, outbox: Outbox::default() }
    }

    /// Makes room for a command at `now`, which [`Held::accept`] must follow: how many the device holds with it. `None` if it is
    /// full.
    pub(crate) fn admit(&mut self, now: Nanos) -> Option<u32> {
        self.count -= self.outbox.settle(now);
        if self.count == self.depth {
            return None;
        }
        self.count += 1;
        Some(self.count)
    }

    /// Number of the command that was admitted last, from 0.
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    /// Accepts the command that was admitted last, which completes at a known time.
    pub(crate) fn accept(&mut self, command: &Command, failed: bool, (at, breakdown): (Nanos, Breakdown)) -> Submitted {
        self.outbox.push(self.seq, Completion { tag: command.tag, at, failed, breakdown });
        self.seq += 1;
        Submitted::Accepted
    }

    /// Time of the next completion.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.outbox.next()
    }

    /// Appends all completions due by `now`.
    pub(crate) fn drain(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        self.count -= self.outbox.drain(now, out);
    }
}
