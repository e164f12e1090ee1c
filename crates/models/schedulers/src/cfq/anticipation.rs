//! A+CFQ: tenants in order of sectors served by weight, and idling for a tenant whose next request is expected soon.
//!
//! It replaces how groups are chosen and charged; inside a tenant everything is CFQ. A tenant keeps the device for a
//! slot in proportion to its weight. The slot ends early when the tenant has had nothing queued and nothing in the device
//! for its mean time between dispatches. Virtual time is sectors by weight, and survives absence; a tenant that returns
//! with nothing in the device starts with the least virtual time of those that wait.

use dumbwaiter_block::Nanos;

use super::group::Group;
use super::queue::NONE;
use crate::mechanisms::ordered::{Tree, TreeArena};
use crate::settings::{settings, with_defaults};

// Settings beside those of CFQ.
settings! {
    pub(super) const SETTINGS of Anticipation;
    anticipation_cap: "us", -1, u32::MAX, 8000, "longest time to idle for a tenant's next request; 0 never idles, -1 is no limit"
        => (cap_us);
    anticipation_initial: "us", 0, u32::MAX, 1000,
        "time to idle before three intervals are known; 8000 on a disk with a moving arm" => (initial_us);
    anticipation_factor: "percent", 0, 10_000, 100, "idling as a percentage of the mean time between dispatches" => (factor_percent);
    slot_sectors: "sectors", 0, u32::MAX, 0, "a slot is this many sectors for each unit of weight; 0: a part of target_latency"
        => (slot_sectors);
}

/// Intervals after which the mean counts.
const ENOUGH: u32 = 3;
/// Fixed point of virtual time.
const SHIFT: u32 = 24;

/// A tenant in service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) group: u32,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) sectors: u64,
    pub(super) last_dispatch: Option<Nanos>,
    /// It has nothing queued and nothing in the device; until then the device idles for its next request.
    pub(super) deadline: Option<Nanos>,
}

/// Mean time between two dispatches of a tenant in one turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habit {
    pub(super) mean: u64,
    pub(super) samples: u32,
}

/// One child of a group: at 2g group g among its siblings, at 2g + 1 the queues of g itself.
#[derive(Clone, Copy, Debug, Default)]
struct Entity {
    vt: u64,
    /// Order in which it became backlogged, which decides between equal times.
    since: u64,
}

/// State and settings.
#[derive(Clone, Debug, Default)]
pub(super) struct Anticipation {
    entities: Vec<Entity>,
    /// Backlogged children by group.
    children: Vec<Tree>,
    line: TreeArena<(u64, u64)>,
    sequence: u64,
    pub(super) turn: Option<Turn>,
    pub(super) habits: Vec<Habit>,
    cap_us: i64,
    initial_us: u64,
    factor_percent: u64,
    pub(super) slot_sectors: u64,
}

impl Anticipation {
    pub(super) fn new(rotational: bool) -> Anticipation {
        let mut made = with_defaults(&SETTINGS, Anticipation::default());
        if rotational {
            made.initial_us = 8000;
        }
        made
    }

    /// The tenant in service, or the backlogged one that has had the least.
    pub(super) fn choose(&self) -> Option<u32> {
        if let Some(turn) = &self.turn {
            return Some(turn.group);
        }
        let mut at = 0;
        loop {
            let first = self.children.get(at as usize)?.first()?;
            if first % 2 == 1 {
                return Some(at);
            }
            at = first / 2;
        }
    }

    pub(super) fn serves(&self, g: u32) -> bool {
        self.turn.is_some_and(|t| t.group == g)
    }

    /// How long the device idles for a tenant's next request, ns.
    pub(super) fn window(&self, g: u32) -> u64 {
        let mean = match self.habits.get(g as usize) {
            Some(habit) if habit.samples >= ENOUGH => habit.mean,
            _ => self.initial_us * 1000,
        };
        let wait = (u128::from(mean) * u128::from(self.factor_percent) / 100).min(u128::from(u64::MAX / 4)) as u64;
        if self.cap_us < 0 { wait } else { wait.min(self.cap_us as u64 * 1000) }
    }

    fn reserve(&mut self, groups: usize) {
        if self.children.len() < groups {
            self.children.resize(groups, Tree::default());
            self.habits.resize(groups, Habit::default());
            self.entities.resize(2 * groups, Entity::default());
        }
    }

    /// Adds an entity to the backlogged children of `of`; `true` if it is the only one. One that was idle gets at least the
    /// least virtual time of the others.
    fn join(&mut self, entity: u32, of: u32, idle: bool) -> bool {
        let line = &mut self.children[of as usize];
        let was_empty = line.is_empty();
        let own = &mut self.entities[entity as usize];
        if let Some(first) = line.first().filter(|_| idle) {
            own.vt = own.vt.max(self.line.key(first).0);
        }
        self.sequence += 1;
        own.since = self.sequence;
        self.line.insert(line, entity, (own.vt, own.since));
        was_empty
    }

    /// Charges an entity that is in line among the children of `of`.
    fn charge(&mut self, entity: u32, of: u32, sectors: u64, weight: u32) {
        let own = &mut self.entities[entity as usize];
        own.vt = own.vt.saturating_add((sectors << SHIFT) / u64::from(weight.max(1)));
        self.line.rekey(&mut self.children[of as usize], entity, (own.vt, own.since));
    }

    /// Group `g` has a request again.
    pub(super) fn backlog(&mut self, g: u32, groups: &[Group]) {
        self.reserve(groups.len());
        if self.line.contains(2 * g + 1) {
            return;
        }
        // A tenant with requests in the device was not idle: a turn that ended with all it had in the device costs it
        // nothing.
        let idle = groups[g as usize].in_flight == 0;
        let (mut entity, mut of) = (2 * g + 1, g);
        while self.join(entity, of, idle) && groups[of as usize].parent != NONE {
            entity = 2 * of;
            of = groups[of as usize].parent;
        }
    }

    /// Group `g` has no request left, and is not in service.
    pub(super) fn drain(&mut self, g: u32, groups: &[Group]) {
        let (mut entity, mut of) = (2 * g + 1, g);
        loop {
            self.line.remove(&mut self.children[of as usize], entity);
            if !self.children[of as usize].is_empty() || groups[of as usize].parent == NONE {
                return;
            }
            entity = 2 * of;
            of = groups[of as usize].parent;
        }
    }

    /// The turn is over: what was served is charged on every level.
    pub(super) fn end_turn(&mut self, groups: &[Group]) {
        let Some(turn) = self.turn.take() else { return };
        let g = turn.group;
        let (mut entity, mut of, mut weight) = (2 * g + 1, g, groups[g as usize].leaf_weight);
        loop {
            self.charge(entity, of, turn.sectors, weight);
            let above = groups[of as usize].parent;
            if above == NONE {
                break;
            }
            (entity, weight, of) = (2 * of, groups[of as usize].weight, above);
        }
        if groups[g as usize].queued == 0 {
            self.drain(g, groups);
        }
    }

    /// Group `g` has neither requests nor queues any more, and its number may become another's.
    pub(super) fn forget(&mut self, g: u32, groups: &[Group]) {
        if self.serves(g) {
            self.end_turn(groups);
        }
        for entity in [2 * g, 2 * g + 1] {
            if let Some(own) = self.entities.get_mut(entity as usize) {
                *own = Entity::default();
            }
        }
        if let Some(habit) = self.habits.get_mut(g as usize) {
            *habit = Habit::default();
        }
    }

    /// Virtual time of a tenant among its siblings.
    #[cfg(test)]
    pub(super) fn vt(&self, g: u32) -> u64 {
        self.entities[2 * g as usize].vt
    }

    /// The tenant in service, and the sectors of its turn so far.
    #[cfg(test)]
    pub(super) fn turn_sectors(&self) -> Option<(u32, u64)> {
        self.turn.map(|t| (t.group, t.sectors))
    }
}
