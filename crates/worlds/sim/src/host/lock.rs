//! The scheduler's lock as a queue of CPUs.
//!
//! A CPU that submits takes the lock several times for an I/O. Each hold is longer if other CPUs held the lock lately, because what it
//! protects is in their caches, and longer still after a wait. CPUs that find it taken wait in line, first come, first served. What
//! one CPU inserted another may dispatch, so that the first finds nothing left.

use std::collections::VecDeque;

use dumbwaiter_scenario::LockCost;

use super::costs::LockUse;

/// Holders that decide how much of a hold is fetched from other CPUs.
const REMEMBERED: usize = 16;
/// A dispatch that finds nothing holds the lock for this part of one that does, in percent.
const EMPTY_PERCENT: u64 = 10;

/// Where a CPU is in its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Finish,
    Merge,
    Limit,
    Insert,
    Dispatch,
}

/// A call that submits, between two takes of the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    stage: Stage,
    /// Takes of this stage that are left.
    left: u32,
    ios: u32,
    /// Requests that it has dispatched.
    picked: u32,
    waited: bool,
    lock: LockUse,
    /// Work between two takes, for each request that is sent, and after the last.
    pub(crate) gap: u64,
    pub(crate) issue: u64,
    pub(crate) tail: u64,
}

impl Walk {
    pub(crate) fn new(ios: u32, lock: LockUse, gap: u64, issue: u64, tail: u64) -> Walk {
        let stage = if lock.finish > 0 { Stage::Finish } else { Stage::Merge };
        Walk { stage, left: ios, ios, picked: 0, waited: false, lock, gap, issue, tail }
    }

    /// The next stage, if this one is over.
    fn next(&mut self) {
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return;
        }
        (self.stage, self.left) = match self.stage {
            Stage::Finish => (Stage::Merge, self.ios),
            Stage::Merge if self.lock.limit > 0 => (Stage::Limit, self.ios),
            Stage::Merge | Stage::Limit if self.lock.insert_each => (Stage::Insert, self.ios),
            Stage::Merge | Stage::Limit => (Stage::Insert, 1),
            Stage::Insert | Stage::Dispatch => (Stage::Dispatch, 0),
        };
    }
}

/// What a CPU does after it was given the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// It wants the lock again at this time.
    Takes(u64),
    /// Its requests go to the device at this time, and it works on for so long.
    Sends(u64, u64),
}

/// A lock, and the calls that are on their way through it.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    cost: LockCost,
    free_at: u64,
    last: [u16; REMEMBERED],
    at: usize,
    line: VecDeque<usize>,
    /// Inserted and not dispatched.
    pending: u32,
    /// By CPU.
    walks: Vec<Option<Walk>>,
    walking: u32,
    /// How often it was taken.
    pub(crate) takes: u64,
}

impl Lock {
    pub(crate) fn new(cost: LockCost, cpus: usize) -> Lock {
        Lock {
            cost,
            free_at: 0,
            last: [u16::MAX; REMEMBERED],
            at: 0,
            line: VecDeque::with_capacity(cpus),
            pending: 0,
            walks: vec![None; cpus],
            walking: 0,
            takes: 0,
        }
    }

    /// What the hand-over from other CPUs adds to a hold: as many sixteenths as of the last sixteen holders were others.
    fn remote(&mut self, cpu: usize) -> u64 {
        let others = self.last.iter().filter(|holder| **holder != cpu as u16 && **holder != u16::MAX).count() as u64;
        self.last[self.at] = cpu as u16;
        self.at = (self.at + 1) % REMEMBERED;
        self.takes += 1;
        self.cost.remote * others / REMEMBERED as u64
    }

    /// Can a call that begins at `now` run to its end without meeting another?
    pub(crate) fn is_quiet(&self, now: u64) -> bool {
        self.walking == 0 && self.free_at <= now
    }

    /// Time under the lock of a call that meets no other, and that holds it until `end` at the latest.
    pub(crate) fn alone(&mut self, cpu: usize, ios: u32, lock: &LockUse, end: u64) -> u64 {
        let inserts = if lock.insert_each { u64::from(ios) } else { 1 };
        let ios = u64::from(ios);
        let holds = ios * (lock.finish + lock.merge + lock.limit + lock.dispatch) + inserts * lock.insert;
        let each = 2 + u64::from(lock.finish > 0) + u64::from(lock.limit > 0);
        let takes = ios * each + inserts;
        let remote: u64 = (0..takes).map(|_| self.remote(cpu)).sum();
        self.free_at = self.free_at.max(end);
        holds + remote + self.side(cpu, ios, lock)
    }

    /// Time for the queue's lock. It is held too shortly to be waited for.
    fn side(&self, cpu: usize, ios: u64, lock: &LockUse) -> u64 {
        let others = self.last.iter().filter(|holder| **holder != cpu as u16 && **holder != u16::MAX).count() as u64;
        ios * lock.side.0 * (lock.side.1 + self.cost.remote / 2 * others / REMEMBERED as u64)
    }

    /// A call begins that may meet others.
    pub(crate) fn begin(&mut self, cpu: usize, mut walk: Walk) {
        walk.gap += self.side(cpu, 1, &walk.lock) / 3;
        self.walks[cpu] = Some(walk);
        self.walking += 1;
    }

    /// A CPU wants the lock at `now`. `None`: it waits; the lock is handed on at the time in the second place, if nobody waited before.
    pub(crate) fn take(&mut self, cpu: usize, now: u64) -> (Option<Then>, Option<u64>) {
        if self.free_at > now || !self.line.is_empty() {
            let first = self.line.is_empty();
            self.line.push_back(cpu);
            if let Some(walk) = &mut self.walks[cpu] {
                walk.waited = true;
            }
            return (None, first.then_some(self.free_at.max(now)));
        }
        (self.grant(cpu, now), None)
    }

    /// The lock is free: the first in line gets it. Returns that CPU, what it does, and when the lock is free again, if another waits.
    pub(crate) fn hand_on(&mut self, now: u64) -> Option<(usize, Then, Option<u64>)> {
        let cpu = self.line.pop_front()?;
        let then = self.grant(cpu, now)?;
        Some((cpu, then, (!self.line.is_empty()).then_some(self.free_at)))
    }

    fn grant(&mut self, cpu: usize, now: u64) -> Option<Then> {
        let mut walk = self.walks[cpu].take()?;
        let mut extra = self.remote(cpu);
        if std::mem::take(&mut walk.waited) {
            extra += if self.line.is_empty() { self.cost.waited } else { self.cost.in_line };
        }
        let mut over = false;
        let hold = match walk.stage {
            Stage::Finish => walk.lock.finish + extra,
            Stage::Merge => walk.lock.merge + extra,
            Stage::Limit => walk.lock.limit + extra,
            Stage::Insert => {
                self.pending += if walk.lock.insert_each { 1 } else { walk.ios };
                walk.lock.insert + extra
            }
            Stage::Dispatch if self.pending == 0 => {
                over = true;
                (walk.lock.dispatch + extra) * EMPTY_PERCENT / 100
            }
            Stage::Dispatch => {
                self.pending -= 1;
                walk.picked += 1;
                walk.lock.dispatch + extra
            }
        };
        self.free_at = now + hold;
        if walk.stage != Stage::Dispatch {
            walk.next();
        } else if self.pending == 0 {
            over = true;
        }
        if over {
            self.walking -= 1;
            return Some(Then::Sends(self.free_at + walk.issue * u64::from(walk.picked), walk.tail));
        }
        let gap = if walk.stage == Stage::Dispatch && walk.picked > 0 { 0 } else { walk.gap };
        self.walks[cpu] = Some(walk);
        Some(Then::Takes(self.free_at + gap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: LockCost = LockCost { remote: 400, waited: 240, in_line: 140 };
    const USE: LockUse =
        LockUse { finish: 0, merge: 66, limit: 0, insert: 132, insert_each: false, dispatch: 132, side: (0, 0) };

    fn walk() -> Walk {
        Walk::new(1, USE, 10, 100, 50)
    }

    #[test]
    fn a_cpu_alone_takes_it_three_times_and_pays_no_hand_over() {
        let mut lock = Lock::new(COST, 2);
        for round in 0..20u64 {
            assert!(lock.is_quiet(round * 10_000));
            assert_eq!(lock.alone(0, 1, &USE, round * 10_000 + 500), 330);
        }
        assert_eq!(lock.takes, 60);
        // The other CPU finds everything in the caches of the first.
        assert_eq!(lock.alone(1, 1, &USE, 300_000), 330 + 400 + 375 + 350);
    }

    #[test]
    fn who_finds_it_taken_gets_it_in_turn() {
        let mut lock = Lock::new(COST, 3);
        for cpu in 0..3 {
            lock.begin(cpu, walk());
        }
        assert!(!lock.is_quiet(0));
        let (first, none) = lock.take(0, 1000);
        assert_eq!((first, none), (Some(Then::Takes(1000 + 66 + 10)), None));
        // The second waits until the lock is free, the third behind it.
        assert_eq!(lock.take(1, 1010), (None, Some(1066)));
        assert_eq!(lock.take(2, 1020), (None, None));
        let (cpu, _, next) = lock.hand_on(1066).unwrap();
        // One of sixteen holders was another CPU; another waits behind it.
        assert_eq!((cpu, next), (1, Some(1066 + 66 + 25 + 140)));
        let (cpu, _, next) = lock.hand_on(1297).unwrap();
        assert_eq!((cpu, next), (2, None));
    }

    /// What one inserted the other may dispatch; the first then finds nothing, and holds the lock shortly.
    #[test]
    fn a_dispatch_may_find_nothing() {
        let mut lock = Lock::new(COST, 2);
        lock.begin(0, walk());
        let mut now = 0;
        let mut steps = Vec::new();
        loop {
            let (then, _) = lock.take(0, now);
            match then.unwrap() {
                Then::Takes(at) => {
                    steps.push(at - now);
                    now = at;
                    if steps.len() == 2 {
                        // Another CPU was faster.
                        lock.pending -= 1;
                    }
                }
                Then::Sends(at, tail) => {
                    steps.extend([at - now, tail]);
                    break;
                }
            }
        }
        assert_eq!(steps, [76, 142, 13, 50]);
        assert!(lock.is_quiet(now + 13));
    }
}
