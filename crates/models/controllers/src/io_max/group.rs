//! I/Os that wait for the limits of a group, and the timer that lets them go.

use std::collections::VecDeque;

use dumbwaiter_block::{Dir, Nanos};

use super::slices::{Rates, Release, Slices};
use crate::kernel_timer::Jiffies;

/// Slices after which a timer looks again at the latest.
const LOOK_AGAIN_SLICES: i64 = 8;
/// Reads and writes that go in turn.
const TURN: [u32; 2] = [6, 2];

/// An I/O that asks, by its submitter's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bio {
    /// Handed back when it goes.
    pub token: u64,
    /// Bytes that count: none of the rest of a split I/O, which was counted whole.
    pub bytes: u64,
}

/// A direction: what waits for bytes, and what for the number of I/Os alone (6.18).
#[derive(Clone, Debug)]
struct Waiting {
    slices: Slices,
    for_bytes: VecDeque<Bio>,
    for_ios: VecDeque<Bio>,
}

/// A group with limits.
#[derive(Clone, Debug)]
struct Group {
    /// Reads, and everything else.
    directions: [Waiting; 2],
    /// The tick at which the next I/O may go, where one waits.
    due: Option<i64>,
}

/// The groups of a device, which share a timer.
#[derive(Clone, Debug)]
pub struct Groups {
    release: Release,
    jiffies: Jiffies,
    groups: Vec<Group>,
    timer: Option<Nanos>,
}

impl Groups {
    /// Groups with these limits of reads and of writes, numbered in their order.
    pub fn new(release: Release, jiffies: Jiffies, rates: &[[Rates; 2]]) -> Groups {
        let waiting = |rates| Waiting {
            slices: Slices::new(release, jiffies.hz(), rates),
            for_bytes: VecDeque::new(),
            for_ios: VecDeque::new(),
        };
        let groups = rates.iter().map(|rates| Group { directions: rates.map(waiting), due: None }).collect();
        Groups { release, jiffies, groups, timer: None }
    }

    /// When [`Groups::tick`] must be called, if ever.
    pub fn timer(&self) -> Option<Nanos> {
        self.timer
    }

    /// An I/O of a group, by its number, asks to pass. `false`: it waits.
    ///
    /// # Panics
    ///
    /// No group has this number; so do [`Groups::set`] and [`Groups::rates`].
    pub fn submit(&mut self, group: usize, dir: Dir, bio: Bio, now: Nanos) -> bool {
        let tick = self.jiffies.at(now);
        let release = self.release;
        let waiting = &mut self.groups[group].directions[dir as usize];
        let alone = waiting.is_empty();
        if alone && waiting.try_pass(release, bio, tick) {
            return true;
        }
        if alone {
            self.groups[group].plan(release, tick);
            self.arm(now);
        } else {
            waiting.join(release, bio, tick);
        }
        false
    }

    /// Sets the timer for the group that is due first.
    fn arm(&mut self, now: Nanos) {
        let latest = self.jiffies.at(now) + LOOK_AGAIN_SLICES * (self.jiffies.hz() / 10).max(1);
        let due = self.groups.iter().filter_map(|group| group.due).min();
        self.timer = due.map(|due| self.jiffies.timer(now, due.min(latest)));
    }

    /// The timer runs: those go that may, of the groups in the order in which they are due.
    pub fn tick(&mut self, now: Nanos, go: &mut dyn FnMut(Bio)) {
        let tick = self.jiffies.at(now);
        let release = self.release;
        let first = |groups: &[Group]| groups.iter().enumerate().filter_map(|(i, group)| Some((group.due?, i))).min();
        while let Some((due, at)) = first(&self.groups)
            && due <= tick
        {
            let group = &mut self.groups[at];
            group.turn(release, tick, go);
            group.plan(release, tick);
        }
        self.arm(now);
    }

    /// Other limits of a group from now on.
    pub fn set(&mut self, group: usize, rates: [Rates; 2], now: Nanos) {
        let tick = self.jiffies.at(now);
        let own = &mut self.groups[group];
        for (waiting, rates) in own.directions.iter_mut().zip(rates) {
            let any = !waiting.is_empty();
            waiting.slices.set(rates, tick, any);
        }
        if own.due.is_some() {
            own.plan(self.release, tick);
            self.arm(now);
        }
    }

    /// The limits of reads and of writes of a group.
    pub fn rates(&self, group: usize) -> [Rates; 2] {
        let [reads, writes] = &self.groups[group].directions;
        [reads.slices.rates, writes.slices.rates]
    }
}

impl Group {
    /// When the next may go: the time of the first that waits counts.
    fn plan(&mut self, release: Release, tick: i64) {
        let waits = self.directions.iter_mut().filter_map(|waiting| waiting.wait(release, tick));
        self.due = waits.min().map(|wait| tick + wait);
    }

    /// Lets some go, reads first.
    fn turn(&mut self, release: Release, tick: i64, go: &mut dyn FnMut(Bio)) {
        for (waiting, most) in self.directions.iter_mut().zip(TURN) {
            for _ in 0..most {
                let Some(bio) = waiting.pop(release, tick) else { break };
                go(bio);
            }
        }
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.for_bytes.is_empty() && self.for_ios.is_empty()
    }

    /// Nothing waits: it passes, or is the first to wait.
    fn try_pass(&mut self, release: Release, bio: Bio, now: i64) -> bool {
        self.slices.refresh(now, false);
        self.for_bytes.push_back(bio);
        self.pop(release, now).is_some()
    }

    /// Others wait: it goes behind them. Where none waits for bytes its own may count at once (6.18).
    fn join(&mut self, release: Release, bio: Bio, now: i64) {
        let counts = release == Release::V6_18 && self.for_bytes.is_empty();
        self.for_bytes.push_back(bio);
        if counts {
            self.slices.refresh(now, true);
            self.bytes_pass(now);
        }
    }

    /// Ticks until the first may go; `None` if none waits. In 6.18 bytes that may pass do, and it waits for its turn as an I/O.
    fn wait(&mut self, release: Release, now: i64) -> Option<i64> {
        let first = self.for_ios.front().or(self.for_bytes.front()).copied()?;
        self.slices.refresh(now, true);
        let wait = match release {
            Release::V6_12 => self.slices.wait_for_bytes(now, first.bytes).max(self.slices.wait_for_io(now)),
            Release::V6_18 if self.for_ios.is_empty() && !self.bytes_pass(now) => {
                self.slices.wait_for_bytes(now, first.bytes)
            }
            Release::V6_18 => self.slices.wait_for_io(now),
        };
        if wait > 0 {
            self.slices.refused(now, wait);
        }
        Some(wait)
    }

    /// The first that waits for bytes waits for its turn as an I/O from now on, if its bytes may pass.
    fn bytes_pass(&mut self, now: i64) -> bool {
        let Some(first) = self.for_bytes.pop_front() else { return false };
        let passes = self.slices.wait_for_bytes(now, first.bytes) == 0;
        if passes {
            self.slices.charge_bytes(first.bytes);
            self.for_ios.push_back(first);
        } else {
            self.for_bytes.push_front(first);
        }
        passes
    }

    /// The first one, if it may go now.
    fn pop(&mut self, release: Release, now: i64) -> Option<Bio> {
        if self.wait(release, now)? > 0 {
            return None;
        }
        // What waits as an I/O has been charged for its bytes.
        let first = match self.for_ios.pop_front() {
            Some(first) => first,
            None => {
                let first = self.for_bytes.pop_front()?;
                self.slices.charge_bytes(first.bytes);
                first
            }
        };
        self.slices.charge_io();
        self.slices.trim(now);
        Some(first)
    }
}
