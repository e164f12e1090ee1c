//! One queue of requests, and measurements of the tasks that fill it.

use dumbwaiter_block::{IoClass, Ioprio};

use crate::mechanisms::list::List;
use crate::mechanisms::ordered::Tree;

/// Stands for "none" where an index is stored.
pub(super) const NONE: u32 = u32::MAX;

pub(super) const REALTIME: u8 = 0;
pub(super) const BEST_EFFORT: u8 = 1;
pub(super) const IDLE: u8 = 2;

/// Kinds of service trees, in the order in which ties between them are broken.
pub(super) const ASYNC: u8 = 0;
pub(super) const NO_IDLE: u8 = 1;
pub(super) const SYNC: u8 = 2;

/// Service trees of a group: realtime and best effort times three kinds, and one for the idle class.
pub(super) const TREES: usize = 7;
/// A queue that is on no tree.
pub(super) const HOMELESS: u8 = u8::MAX;

/// A queue is seeky if more than this many of its last 32 requests were.
const SEEKY: u32 = 4;
/// A longer distance between two requests is a seek, in sectors.
const SEEK_SECTORS: u64 = 800;
/// On a device without an arm, a smaller request counts as a seek, in sectors.
const SMALL_SECTORS: u32 = 64;

/// Class and level of a priority; the default is best effort, level 4.
pub(super) fn rank_of(ioprio: Ioprio) -> (u8, u8) {
    match ioprio.class() {
        IoClass::Realtime => (REALTIME, ioprio.level()),
        IoClass::BestEffort => (BEST_EFFORT, ioprio.level()),
        IoClass::None => (BEST_EFFORT, 4),
        IoClass::Idle => (IDLE, 7),
    }
}

/// Time between a completion and the next arrival: a mean that forgets an eighth with each sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThinkTime {
    pub(super) last_end: i64,
    samples: u64,
    total: u64,
}

impl ThinkTime {
    pub(super) fn new(now: i64) -> ThinkTime {
        ThinkTime { last_end: now, ..ThinkTime::default() }
    }

    /// A request arrived at `now`. The device never idles longer than `idle`, so think times count at most twice that.
    pub(super) fn arrival(&mut self, now: i64, idle: i64) {
        let elapsed = (now - self.last_end).clamp(0, 2 * idle) as u64;
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * elapsed) / 8;
    }

    /// Are there enough samples?
    pub(super) fn valid(&self) -> bool {
        self.samples > 80
    }

    /// Is the mean, total by samples and rounded, known and longer than this?
    pub(super) fn big(&self, idle: i64) -> bool {
        self.valid() && (idle < 0 || self.total + 128 >= (idle as u64 + 1).saturating_mul(self.samples))
    }
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) group: u32,
    /// By sector.
    pub(super) requests: Tree,
    /// By age.
    pub(super) fifo: List,
    /// The request to serve next.
    pub(super) next: u32,
    pub(super) in_flight: u32,
    pub(super) class: u8,
    pub(super) level: u8,
    /// Class and level of its requests, without any boost.
    pub(super) asked: (u8, u8),
    pub(super) sync: bool,
    /// The device may idle for it.
    pub(super) idle_window: bool,
    /// The device idles for it, with the timer set.
    pub(super) waiting: bool,
    pub(super) must_dispatch: bool,
    /// The oldest request's deadline was checked in this slice.
    pub(super) fifo_checked: bool,
    /// The slice's clock has not started.
    pub(super) slice_new: bool,
    /// It once had four requests queued.
    pub(super) deep: bool,
    /// Others merged into it.
    pub(super) coop: bool,
    pub(super) split: bool,
    /// It stays active, empty, until its next request.
    pub(super) wait_busy: bool,
    /// Its service tree in its group.
    pub(super) home: u8,
    /// Its position tree.
    pub(super) position_level: u8,
    pub(super) activated: i64,
    pub(super) slice_start: i64,
    pub(super) slice_end: i64,
    pub(super) allocated: i64,
    pub(super) residual: i64,
    /// Requests dispatched in the slice.
    pub(super) dispatched: u32,
    seeks: u32,
    pub(super) last_pos: u64,
    /// Queued requests that are metadata or ask for preference.
    pub(super) prio_pending: u32,
    /// The queue that its tasks move to.
    pub(super) merge_into: u32,
    /// Tasks that use it.
    pub(super) tasks: u32,
    /// Queues that merge into it.
    pub(super) pointers: u32,
    /// It is in the list of free slots.
    pub(super) free: bool,
}

impl Queue {
    pub(super) fn new(group: u32, sync: bool, asked: (u8, u8)) -> Queue {
        Queue {
            group,
            requests: Tree::default(),
            fifo: List::default(),
            next: NONE,
            in_flight: 0,
            class: asked.0,
            level: asked.1,
            asked,
            sync,
            idle_window: sync && asked.0 != IDLE,
            waiting: false,
            must_dispatch: false,
            fifo_checked: false,
            slice_new: false,
            deep: false,
            coop: false,
            split: false,
            wait_busy: false,
            home: HOMELESS,
            position_level: HOMELESS,
            activated: 0,
            slice_start: 0,
            slice_end: 0,
            allocated: 0,
            residual: 0,
            dispatched: 0,
            seeks: 0,
            last_pos: 0,
            prio_pending: 0,
            merge_into: NONE,
            tasks: 0,
            pointers: 0,
            free: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Its kind of service tree.
    pub(super) fn kind(&self) -> u8 {
        match (self.sync, self.idle_window) {
            (false, _) => ASYNC,
            (true, false) => NO_IDLE,
            (true, true) => SYNC,
        }
    }

    /// The service tree it belongs on.
    pub(super) fn proper_home(&self) -> u8 {
        if self.class == IDLE { TREES as u8 - 1 } else { self.class * 3 + self.kind() }
    }

    pub(super) fn slice_used(&self, now: i64) -> bool {
        !self.slice_new && now >= self.slice_end
    }

    /// Notes the distance of an arrival from the end of the one before.
    pub(super) fn note_place(&mut self, sector: u64, sectors: u32, rotational: bool) {
        let far = self.last_pos != 0 && sector.abs_diff(self.last_pos) > SEEK_SECTORS;
        let seek = if rotational { far } else { sectors < SMALL_SECTORS };
        self.seeks = self.seeks << 1 | u32::from(seek);
        self.last_pos = sector + u64::from(sectors);
    }

    pub(super) fn seeky(&self) -> bool {
        self.seeks.count_ones() > SEEKY
    }

    /// Its requests have another priority than before.
    pub(super) fn ask(&mut self, asked: (u8, u8)) {
        self.asked = asked;
        (self.class, self.level) = asked;
        if self.class == IDLE {
            self.idle_window = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeks_are_told_by_distance_with_an_arm_and_by_size_without() {
        let make = || Queue::new(0, true, (BEST_EFFORT, 4));
        let (mut far, mut near, mut small, mut large) = (make(), make(), make(), make());
        for i in 1..=5u64 {
            far.note_place(i * 100_000, 256, true);
            near.note_place(i * 256, 256, true);
            small.note_place(i * 63, 63, false);
            large.note_place(i * 100_000, 64, false);
        }
        // The first request of all has nothing to be far from.
        assert!(!far.seeky());
        far.note_place(0, 8, true);
        assert!(far.seeky() && !near.seeky() && small.seeky() && !large.seeky());
    }

    #[test]
    fn think_times_are_a_mean_of_eighths_and_count_after_three() {
        let mut t = ThinkTime::new(0);
        for i in 0..3 {
            assert!(!t.valid());
            t.last_end = i * 10;
            t.arrival(i * 10 + 4, 8);
        }
        assert!(t.valid() && !t.big(8), "{t:?}");
        // Samples 32, 60, 84; total 128, 240, 338.
        assert_eq!((t.samples, t.total), (84, 338));
        assert!(t.big(4) && !t.big(5), "a mean of 466 by 84");
        for _ in 0..40 {
            t.last_end = 0;
            t.arrival(1000, 8);
        }
        assert!(t.big(8) && !t.big(17));
    }
}
