//! Where the time of an I/O goes: time stamps at the borders of its stages, and two clocks that run only while something holds.

use std::collections::VecDeque;

use dumbwaiter_block::{Nanos, Op};
use dumbwaiter_measure::Parts;

use super::io::Slot;

/// Changes of a clock that are kept; an I/O that began before the oldest is charged from there.
const CHANGES_MAX: usize = 1 << 16;

/// A clock that runs while a condition holds, and knows what it showed at earlier times.
#[derive(Default)]
pub(super) struct Clock {
    runs: bool,
    /// Its changes: when, and what it showed then.
    changes: VecDeque<(u64, u64)>,
}

impl Clock {
    /// The condition holds from `at` on, or no longer.
    pub(super) fn set(&mut self, at: Nanos, runs: bool) {
        if runs == self.runs {
            return;
        }
        let (last, shown) = self.changes.back().copied().unwrap_or_default();
        let at = at.0.max(last);
        let shown = if self.runs { shown + (at - last) } else { shown };
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back((at, shown));
        self.runs = runs;
    }

    /// How many of its changes were made by `at`. Those asked for are among the last: the search steps back from the end, twice as far
    /// each time.
    fn changes_by(&self, at: Nanos) -> usize {
        let (mut before, mut after, mut step) = (self.changes.len(), self.changes.len(), 1);
        while before > 0 && self.changes[before - 1].0 > at.0 {
            after = before - 1;
            before = after.saturating_sub(step);
            step *= 2;
        }
        while before < after {
            let middle = before.midpoint(after);
            if self.changes[middle].0 <= at.0 { before = middle + 1 } else { after = middle }
        }
        before
    }

    /// What it showed at `at`.
    fn at(&self, at: Nanos) -> u64 {
        let after = self.changes_by(at);
        let Some((changed, shown)) = after.checked_sub(1).map(|i| self.changes[i]) else { return self.first() };
        // It changes its state at each change, and the last one began the present state.
        let changes_since = self.changes.len() - after;
        let ran = self.runs == changes_since.is_multiple_of(2);
        if ran { shown + (at.0 - changed) } else { shown }
    }

    fn first(&self) -> u64 {
        self.changes.front().map_or(0, |(_, shown)| *shown)
    }

    /// For how long it ran between two times.
    fn between(&self, from: Nanos, to: Nanos) -> u64 {
        if from >= to || self.changes.is_empty() {
            return 0;
        }
        self.at(to).saturating_sub(self.at(from))
    }
}

/// The clocks of a drive.
#[derive(Default)]
pub(super) struct Stages {
    /// The device has room for a request.
    pub(super) room: Clock,
    /// The device has a write.
    pub(super) writing: Clock,
}

impl Stages {
    /// The parts of an I/O's time that the simulator knows. `controlled`: controllers stand before the scheduler, and what an I/O
    /// waits for before it is theirs.
    pub(super) fn parts(&self, slot: &Slot, controlled: bool) -> Parts {
        let Slot { io, insert, issue, device_done, arrived, lock, .. } = *slot;
        let slept = if arrived == Nanos::ZERO { 0 } else { insert.since(arrived).0 };
        Parts {
            cpu: 0,
            lock,
            tag: if controlled { 0 } else { slept },
            controller: if controlled { slept } else { 0 },
            idling: self.room.between(insert, issue),
            beside_writes: if io.op == Op::Read { self.writing.between(issue, device_done) } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_how_long_a_condition_held_between_any_two_times() {
        let ns = Nanos;
        let mut clock = Clock::default();
        assert_eq!(clock.between(ns(0), ns(100)), 0);
        clock.set(ns(100), true);
        clock.set(ns(150), true);
        clock.set(ns(200), false);
        clock.set(ns(300), true);
        assert_eq!(clock.between(ns(0), ns(100)), 0);
        assert_eq!(clock.between(ns(0), ns(150)), 50);
        assert_eq!(clock.between(ns(120), ns(250)), 80);
        assert_eq!(clock.between(ns(250), ns(350)), 50);
        assert_eq!(clock.between(ns(50), ns(400)), 200);
        // Late news counts from the last change on.
        clock.set(ns(290), false);
        assert_eq!(clock.between(ns(250), ns(400)), 0);
    }
}
