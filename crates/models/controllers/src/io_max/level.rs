//! One direction of one group: what it was allowed, and the turn of those that wait there.

use std::collections::VecDeque;

use super::slices::{Rates, Release, Slices};

/// An I/O that asks, by its submitter's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bio {
    /// Handed back when it goes.
    pub token: u64,
    /// Bytes that count: none of the rest of a split I/O, which was counted whole.
    pub bytes: u64,
    /// It is the rest of a split I/O: where no limit of I/Os counts for it, it never waits.
    pub rest: bool,
    /// Others may wait for it (metadata, swap): it counts, and never waits.
    pub urgent: bool,
}

/// An I/O that waits at a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) bio: Bio,
    /// Its bytes have been counted at this level, so that it waits for its turn as an I/O alone (6.18).
    pub(super) counted: bool,
}

/// A direction of a group. Those that wait there come from the group's own tasks and from each group in it: these sources take turns.
#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) slices: Slices,
    /// Queues in which something waits, the next one first.
    pub(super) sources: VecDeque<usize>,
    /// How many wait.
    pub(super) waiting: usize,
    /// How many of them wait for bytes.
    pub(super) for_bytes: usize,
}

impl Level {
    pub(super) fn new(slices: Slices) -> Level {
        Level { slices, sources: VecDeque::new(), waiting: 0, for_bytes: 0 }
    }

    /// An I/O arrives. `None`: it passes. Else it waits, and its bytes may count already.
    pub(super) fn arrives(&mut self, release: Release, bio: Bio, tick: i64) -> Option<Waiter> {
        let mut waiter = Waiter { bio, counted: false };
        if self.slices.rates == Rates::default() && self.waiting == 0 {
            return None;
        }
        if self.waiting == 0 {
            self.slices.refresh(tick, false);
            if self.wait(release, &mut waiter, tick) == 0 {
                self.passed(waiter, tick);
                return None;
            }
        } else if release == Release::V6_18 && self.for_bytes == 0 {
            self.slices.refresh(tick, true);
            self.count_bytes(&mut waiter, tick);
        }
        if bio.urgent {
            self.charge(waiter);
            return None;
        }
        Some(waiter)
    }

    /// Ticks until this one, the first, may go. In 6.18 bytes that may pass count, and it waits for its turn as an I/O.
    pub(super) fn wait(&mut self, release: Release, first: &mut Waiter, tick: i64) -> i64 {
        if self.slices.rates == Rates::default() {
            return 0;
        }
        self.slices.refresh(tick, true);
        let bytes = first.bio.bytes;
        let wait = match release {
            Release::V6_12 => self.slices.wait_for_bytes(tick, bytes).max(self.slices.wait_for_io(tick)),
            Release::V6_18 if !first.counted && !self.count_bytes(first, tick) => {
                self.slices.wait_for_bytes(tick, bytes)
            }
            Release::V6_18 => self.slices.wait_for_io(tick),
        };
        if wait > 0 {
            self.slices.refused(tick, wait);
        }
        wait
    }

    /// Counts the bytes of one if they may pass.
    fn count_bytes(&mut self, waiter: &mut Waiter, tick: i64) -> bool {
        waiter.counted = self.slices.wait_for_bytes(tick, waiter.bio.bytes) == 0;
        if waiter.counted {
            self.slices.charge_bytes(waiter.bio.bytes);
        }
        waiter.counted
    }

    fn charge(&mut self, waiter: Waiter) {
        if !waiter.counted {
            self.slices.charge_bytes(waiter.bio.bytes);
        }
        self.slices.charge_io();
    }

    /// One goes on.
    pub(super) fn passed(&mut self, waiter: Waiter, tick: i64) {
        self.charge(waiter);
        self.slices.trim(tick);
    }
}
