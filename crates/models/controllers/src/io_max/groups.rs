//! Groups in one another, and the timers that let go what waits for them.
//!
//! An I/O asks its own group first, then the one around it, and so on; where it may not pass it waits. Each group has a timer
//! for those in it, the device one for the outermost. A timer moves what may pass one level up, where it asks again, or waits its
//! turn among what comes from elsewhere.

use std::collections::VecDeque;

use dumbwaiter_block::{Dir, Nanos};

use super::agenda::{Agenda, NOWHERE};
use super::level::{Bio, Level, Waiter};
use super::slices::{Rates, Release, Slices};
use crate::kernel_timer::Jiffies;

/// The device, around all groups. It has no limits.
pub const DEVICE: usize = 0;

/// Slices after which a timer looks again at the latest.
const LOOK_AGAIN_SLICES: i64 = 8;
/// Reads and writes that a group lets go in turn.
const TURN: [u32; 2] = [6, 2];

/// A group.
#[derive(Clone, Debug)]
struct Group {
    parent: usize,
    /// Reads, and everything else.
    levels: [Level; 2],
    /// Groups in it where something waits, by when the next may go.
    due: Agenda,
    /// The tick for which its timer is set.
    expires: Option<i64>,
    /// Something came to wait in a direction where nothing did: when the next may go is to be found.
    changed: bool,
}

/// The groups of a device.
#[derive(Clone, Debug)]
pub struct Groups {
    release: Release,
    jiffies: Jiffies,
    groups: Vec<Group>,
    /// Two for each group: what waits there of its own tasks, and what it let go and waits in the group around it.
    queues: Vec<[VecDeque<Waiter>; 2]>,
    /// Where groups stand in the agenda of the group around them.
    places: Vec<usize>,
    /// Timers that are set, by the groups that have them.
    timers: Agenda,
    timer_places: Vec<usize>,
    /// Orders what is due at one time.
    stamp: u64,
    /// Queue and direction of the one that began to wait last.
    last: (usize, usize),
}

/// The queue of what waits at a group of its own tasks.
fn own(group: usize) -> usize {
    2 * group
}

/// The queue of what waits around a group and came from it.
fn above(group: usize) -> usize {
    2 * group + 1
}

impl Groups {
    /// No groups but the [`DEVICE`] yet.
    pub fn new(release: Release, jiffies: Jiffies) -> Groups {
        let mut groups = Groups {
            release,
            jiffies,
            groups: Vec::new(),
            queues: Vec::new(),
            places: Vec::new(),
            timers: Agenda::default(),
            timer_places: Vec::new(),
            stamp: 0,
            last: (0, 0),
        };
        groups.add(DEVICE, Default::default());
        groups
    }

    /// Adds a group with these limits of reads and of writes, in another or in the [`DEVICE`]. Its number: 1, 2, …
    pub fn add(&mut self, parent: usize, rates: [Rates; 2]) -> usize {
        let level = |rates| Level::new(Slices::new(self.release, self.jiffies.hz(), rates));
        let levels = rates.map(level);
        self.groups.push(Group { parent, levels, due: Agenda::default(), expires: None, changed: false });
        self.queues.resize_with(2 * self.groups.len(), Default::default);
        self.places.push(NOWHERE);
        self.timer_places.push(NOWHERE);
        self.groups.len() - 1
    }

    /// When [`Groups::tick`] must be called, if ever.
    pub fn timer(&self) -> Option<Nanos> {
        self.timers.first().map(|(at, _)| Nanos(at as u64))
    }

    /// An I/O of a group, by its number, asks to pass. `false`: it waits.
    ///
    /// # Panics
    ///
    /// No group has this number, as everywhere here.
    pub fn submit(&mut self, group: usize, dir: Dir, bio: Bio, now: Nanos) -> bool {
        if bio.rest && !self.counts_ios(group, dir) {
            return true;
        }
        let tick = self.jiffies.at(now);
        let (mut at, mut queue) = (group, own(group));
        while at != DEVICE {
            let parent = self.groups[at].parent;
            if let Some(waiter) = self.groups[at].levels[dir as usize].arrives(self.release, bio, tick) {
                self.join(at, queue, dir as usize, waiter);
                if self.groups[at].changed {
                    self.plan(at, tick);
                    self.arm(parent, now);
                }
                return false;
            }
            (at, queue) = (parent, above(at));
        }
        true
    }

    /// Does a limit of I/Os count for this group?
    fn counts_ios(&self, group: usize, dir: Dir) -> bool {
        let mut around =
            std::iter::successors(Some(group), |at| Some(self.groups[*at].parent).filter(|at| *at != DEVICE));
        around.any(|at| self.groups[at].levels[dir as usize].slices.rates.ios.is_some())
    }

    /// One waits at a group, in the queue of where it comes from.
    fn join(&mut self, at: usize, queue: usize, dir: usize, waiter: Waiter) {
        let group = &mut self.groups[at];
        let level = &mut group.levels[dir];
        group.changed |= level.waiting == 0;
        level.waiting += 1;
        level.for_bytes += usize::from(!waiter.counted);
        let queue_of = &mut self.queues[queue][dir];
        if queue_of.is_empty() {
            level.sources.push_back(queue);
        }
        queue_of.push_back(waiter);
        self.last = (queue, dir);
    }

    /// Names the I/O that [`Groups::submit`] has just told to wait, where its submitter did not know the token before.
    pub fn name(&mut self, token: u64) {
        let (queue, dir) = self.last;
        if let Some(waiter) = self.queues[queue][dir].back_mut() {
            waiter.bio.token = token;
        }
    }

    /// Ticks until the first that waits at a group may go.
    fn wait(&mut self, at: usize, dir: usize, tick: i64) -> Option<i64> {
        let level = &mut self.groups[at].levels[dir];
        let first = self.queues[*level.sources.front()?][dir].front_mut()?;
        let before = first.counted;
        let wait = level.wait(self.release, first, tick);
        level.for_bytes -= usize::from(first.counted && !before);
        Some(wait)
    }

    /// Takes the first that waits at a group, whatever its limits; the next source has its turn.
    fn take(&mut self, at: usize, dir: usize) -> Option<Waiter> {
        let level = &mut self.groups[at].levels[dir];
        let source = level.sources.pop_front()?;
        let queue = &mut self.queues[source][dir];
        let first = queue.pop_front()?;
        if !queue.is_empty() {
            level.sources.push_back(source);
        }
        level.waiting -= 1;
        level.for_bytes -= usize::from(!first.counted);
        Some(first)
    }

    /// Finds when a group may let the next go: the time of the first that waits counts.
    fn plan(&mut self, at: usize, tick: i64) {
        self.groups[at].changed = false;
        let waits = [0, 1].map(|dir| self.wait(at, dir, tick));
        let parent = self.groups[at].parent;
        let due = &mut self.groups[parent].due;
        match waits.into_iter().flatten().min() {
            Some(wait) => {
                self.stamp += 1;
                due.put(&mut self.places, at, tick + wait, self.stamp);
            }
            None => due.remove(&mut self.places, at),
        }
    }

    /// Sets the timer of a group for what is due first in it.
    fn arm(&mut self, at: usize, now: Nanos) {
        let group = &mut self.groups[at];
        let latest = self.jiffies.at(now) + LOOK_AGAIN_SLICES * (self.jiffies.hz() / 10).max(1);
        let expires = group.due.first().map(|(due, _)| due.min(latest));
        // One that is set for this tick already stays: it is as late as it was.
        if std::mem::replace(&mut group.expires, expires) == expires {
            return;
        }
        match expires {
            Some(tick) => {
                self.stamp += 1;
                let at_time = self.jiffies.timer(now, tick).0 as i64;
                self.timers.put(&mut self.timer_places, at, at_time, self.stamp);
            }
            None => self.timers.remove(&mut self.timer_places, at),
        }
    }

    /// Timers that are due run: those go that may.
    pub fn tick(&mut self, now: Nanos, go: &mut dyn FnMut(Bio)) {
        while let Some((at, group)) = self.timers.first()
            && at as u64 <= now.0
        {
            self.timers.remove(&mut self.timer_places, group);
            self.groups[group].expires = None;
            self.run(group, now, go);
        }
    }

    /// The timer of a group: groups in it let go in the order in which they are due, and if the group itself may let go then, it does.
    fn run(&mut self, group: usize, now: Nanos, go: &mut dyn FnMut(Bio)) {
        let tick = self.jiffies.at(now);
        let mut at = group;
        loop {
            while let Some((due, child)) = self.groups[at].due.first()
                && due <= tick
            {
                self.turn(child, tick);
                self.plan(child, tick);
            }
            self.arm(at, now);
            if at == DEVICE {
                return self.leave(go);
            }
            if !self.groups[at].changed {
                return;
            }
            self.plan(at, tick);
            at = self.groups[at].parent;
        }
    }

    /// A group lets some go, reads first.
    fn turn(&mut self, at: usize, tick: i64) {
        let parent = self.groups[at].parent;
        for (dir, most) in TURN.into_iter().enumerate() {
            for _ in 0..most {
                if self.wait(at, dir, tick) != Some(0) {
                    break;
                }
                let Some(waiter) = self.take(at, dir) else { break };
                self.join(parent, above(at), dir, Waiter { counted: false, ..waiter });
                let start = self.groups[at].levels[dir].slices.start();
                self.groups[parent].levels[dir].slices.credit(start, tick);
                self.groups[at].levels[dir].passed(waiter, tick);
            }
        }
    }

    /// What reached the device goes: reads first, the outermost groups in turn.
    fn leave(&mut self, go: &mut dyn FnMut(Bio)) {
        for dir in [0, 1] {
            while let Some(waiter) = self.take(DEVICE, dir) {
                go(waiter.bio);
            }
        }
    }

    /// An I/O that waits goes away. It is looked for in all groups.
    pub fn abandon(&mut self, dir: Dir, token: u64, now: Nanos) {
        let dir = dir as usize;
        let place = |queue: &[VecDeque<Waiter>; 2]| queue[dir].iter().position(|waiter| waiter.bio.token == token);
        let mut places = self.queues.iter().enumerate();
        let Some((queue, place)) = places.find_map(|(index, queue)| Some((index, place(queue)?))) else { return };
        let group = queue / 2;
        let at = if queue == own(group) { group } else { self.groups[group].parent };
        let gone = self.queues[queue][dir].remove(place);
        let level = &mut self.groups[at].levels[dir];
        level.waiting -= 1;
        level.for_bytes -= usize::from(gone.is_some_and(|gone| !gone.counted));
        if self.queues[queue][dir].is_empty() {
            level.sources.retain(|source| *source != queue);
        }
        self.plan(at, self.jiffies.at(now));
        self.arm(self.groups[at].parent, now);
    }

    /// An I/O that passed did not come after all: it does not count.
    pub fn withdraw(&mut self, group: usize, dir: Dir, bytes: u64) {
        let mut at = group;
        while at != DEVICE {
            let Group { parent, levels, .. } = &mut self.groups[at];
            levels[dir as usize].slices.give_back(bytes);
            at = *parent;
        }
    }

    /// A group moves into another one, or into the [`DEVICE`]. What it let go and waits in the one it leaves stays there.
    pub fn set_parent(&mut self, group: usize, parent: usize, now: Nanos) {
        let before = std::mem::replace(&mut self.groups[group].parent, parent);
        if before == parent {
            return;
        }
        for dir in [0, 1] {
            let mut stay = std::mem::take(&mut self.queues[above(group)][dir]);
            if stay.is_empty() {
                continue;
            }
            let sources = &mut self.groups[before].levels[dir].sources;
            sources.retain(|source| *source != above(group));
            if self.queues[own(before)][dir].is_empty() {
                sources.push_back(own(before));
            }
            self.queues[own(before)][dir].append(&mut stay);
        }
        if self.places[group] != NOWHERE {
            self.groups[before].due.remove(&mut self.places, group);
            self.arm(before, now);
            self.plan(group, self.jiffies.at(now));
            self.arm(parent, now);
        }
    }

    /// How many wait in a group: of its own tasks, and what came from groups in it.
    pub fn waiting(&self, group: usize) -> usize {
        self.groups[group].levels.iter().map(|level| level.waiting).sum()
    }

    /// How many groups there are, the [`DEVICE`] included.
    pub fn count(&self) -> usize {
        self.groups.len()
    }

    /// Other limits of a group from now on.
    pub fn set(&mut self, group: usize, rates: [Rates; 2], now: Nanos) {
        let tick = self.jiffies.at(now);
        let own = &mut self.groups[group];
        for (level, rates) in own.levels.iter_mut().zip(rates) {
            level.slices.set(rates, tick, level.waiting > 0);
        }
        if self.places[group] != NOWHERE {
            self.plan(group, tick);
            self.arm(self.groups[group].parent, now);
        }
    }

    /// The limits of reads and of writes of a group.
    pub fn rates(&self, group: usize) -> [Rates; 2] {
        let [reads, writes] = &self.groups[group].levels;
        [reads.slices.rates, writes.slices.rates]
    }
}
