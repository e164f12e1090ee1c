//! Weighted groups: the active ones, their fractions and the order in which they are served.
//!
//! Group 0 is the root. A group's own queues are one more child of it, with a leaf weight. All active groups are in one
//! order of virtual time, which runs faster for a small fraction. A group that was away goes to the end of the line.

use super::queue::{BEST_EFFORT, IDLE, NONE, REALTIME, TREES, ThinkTime};
use super::{Cfq, Version};
use crate::mechanisms::ordered::Tree;

/// Fixed point of fractions: 12 bits.
pub(super) const WHOLE: u64 = 1 << 12;

#[derive(Clone, Copy, Debug)]
pub(super) struct QueueTree {
    pub(super) tree: Tree,
    pub(super) think: ThinkTime,
}

/// What is left of a workload's time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Saved {
    pub(super) rest: i64,
    pub(super) class: u8,
    pub(super) kind: u8,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) parent: u32,
    /// The tenant, queues and nested groups that use it; without any its number is free.
    pub(super) references: u32,
    weight: u32,
    /// To be used from when it is sorted again.
    pub(super) wanted_weight: u32,
    /// Weight of its own queues among its nested groups, as it counts now.
    pub(super) leaf_weight: u32,
    /// Weights of the children that are active, its own queues included.
    children_weight: u64,
    /// How many those are.
    active_children: u32,
    pub(super) vfraction: u64,
    pub(super) vdisktime: u64,
    /// Queues on its trees.
    pub(super) queues: u32,
    pub(super) in_flight: u32,
    /// Requests in its queues.
    pub(super) queued: u32,
    pub(super) think: ThinkTime,
    /// Average of busy queues, per class.
    average: [u32; 3],
    pub(super) saved: Saved,
    pub(super) trees: [QueueTree; TREES],
    /// Async queues by class and level; the last is the idle class's.
    pub(super) asyncs: [u32; 17],
}

impl Group {
    pub(super) fn new(parent: u32, weight: u32, now: i64) -> Group {
        let think = ThinkTime::new(now);
        Group {
            parent,
            references: 1,
            weight,
            wanted_weight: weight,
            leaf_weight: 0,
            children_weight: 0,
            active_children: 0,
            vfraction: WHOLE,
            vdisktime: 0,
            queues: 0,
            in_flight: 0,
            queued: 0,
            think,
            average: [0; 3],
            saved: Saved::default(),
            trees: [QueueTree { tree: Tree::default(), think }; TREES],
            asyncs: [NONE; 17],
        }
    }

    pub(super) fn root(now: i64) -> Group {
        Group::new(NONE, 1, now)
    }

    pub(super) fn weight(&self) -> u32 {
        self.weight
    }

    /// Queues of a class on its trees.
    pub(super) fn busy(&self, class: u8) -> u32 {
        let trees = match class {
            REALTIME => &self.trees[0..3],
            BEST_EFFORT => &self.trees[3..6],
            _ => &self.trees[6..],
        };
        trees.iter().map(|t| t.tree.len() as u32).sum()
    }

    /// Async queues on its trees, the idle class aside.
    pub(super) fn busy_async(&self) -> u32 {
        (self.trees[0].tree.len() + self.trees[3].tree.len()) as u32
    }

    pub(super) fn average(&self, class: u8) -> u32 {
        self.average[usize::from(class)]
    }

    /// The average of busy queues takes a quarter of what it is now, rather more of a larger number.
    pub(super) fn update_average(&mut self, class: u8) -> u32 {
        let busy = self.busy(class);
        let average = &mut self.average[usize::from(class)];
        *average = (3 * (*average).max(busy) + (*average).min(busy) + 2) / 4;
        *average
    }
}

impl Cfq {
    /// Group `g` gets its first queue.
    pub(super) fn activate_group(&mut self, g: u32) {
        let leaf = self.set.leaf_weight[usize::from(g == 0)];
        self.groups[g as usize].leaf_weight = leaf;
        let mut at = g;
        let mut weight = u64::from(leaf);
        loop {
            let group = &mut self.groups[at as usize];
            group.children_weight += weight;
            group.active_children += 1;
            if group.active_children > 1 || group.parent == NONE {
                break;
            }
            group.weight = group.wanted_weight;
            weight = u64::from(group.weight);
            at = group.parent;
        }
        self.refresh(g);
        let from = match self.line.last() {
            Some(last) => self.groups[last as usize].vdisktime.saturating_add(self.new_group_delay()),
            None => self.min_vdisktime,
        };
        self.groups[g as usize].vdisktime = from;
        self.order.insert(&mut self.line, g, from);
        self.shorten_turn();
    }

    /// Group `g` lost its last queue; what it had used is forgotten.
    pub(super) fn deactivate_group(&mut self, g: u32) {
        self.order.remove(&mut self.line, g);
        self.groups[g as usize].saved.rest = 0;
        let mut at = g;
        let mut weight = u64::from(self.groups[g as usize].leaf_weight);
        loop {
            let group = &mut self.groups[at as usize];
            group.children_weight -= weight;
            group.active_children -= 1;
            if group.active_children > 0 || group.parent == NONE {
                return;
            }
            weight = u64::from(group.weight);
            at = group.parent;
        }
    }

    /// Takes up new weights of an active group, and computes its fraction among those active now.
    pub(super) fn refresh(&mut self, g: u32) {
        let leaf = self.set.leaf_weight[usize::from(g == 0)];
        let own = &mut self.groups[g as usize];
        own.children_weight = own.children_weight + u64::from(leaf) - u64::from(own.leaf_weight);
        own.leaf_weight = leaf;
        let part = |of: u64, weight: u32, sum: u64| {
            if u64::from(weight) == sum { of } else { of * u64::from(weight) / sum.max(1) }
        };
        let mut fraction = part(WHOLE, own.leaf_weight, own.children_weight);
        let mut at = g;
        while self.groups[at as usize].parent != NONE {
            let group = &mut self.groups[at as usize];
            let (old, weight, parent) = (group.weight, group.wanted_weight, group.parent);
            group.weight = weight;
            let above = &mut self.groups[parent as usize];
            above.children_weight = above.children_weight + u64::from(weight) - u64::from(old);
            fraction = part(fraction, weight, above.children_weight);
            at = parent;
        }
        self.groups[g as usize].vfraction = fraction.max(1);
    }

    /// By how much a group that becomes active goes behind the last: next to nothing.
    fn new_group_delay(&self) -> u64 {
        match self.version {
            Version::K310 | Version::K318 => self.clock.second as u64 / 5,
            Version::K420 if self.counts_requests() => 1,
            Version::K420 => 200_000_000,
        }
    }

    /// Charges an active group and sorts it again.
    pub(super) fn charge_group(&mut self, g: u32, charge: i64) {
        let group = &mut self.groups[g as usize];
        let charge = charge.max(0) as u64;
        // 24 bits: 12 for the fraction and 12 for the fixed point of virtual time.
        let step = match charge.checked_mul(1 << 24) {
            Some(scaled) if group.vfraction == WHOLE => scaled / WHOLE,
            Some(scaled) => scaled / group.vfraction,
            None => (charge / group.vfraction).saturating_mul(1 << 24),
        };
        group.vdisktime = group.vdisktime.saturating_add(step);
        let vdisktime = group.vdisktime;
        self.order.rekey(&mut self.line, g, vdisktime);
        self.refresh(g);
        self.note_min_vdisktime();
    }

    fn note_min_vdisktime(&mut self) {
        if let Some(first) = self.line.first() {
            self.min_vdisktime = self.min_vdisktime.max(self.groups[first as usize].vdisktime);
        }
    }

    /// The group that has used least; its workload continues where it was interrupted.
    pub(super) fn choose_group(&mut self, now: i64) -> Option<u32> {
        self.note_min_vdisktime();
        let g = match &self.anticipation {
            Some(anticipation) => anticipation.choose()?,
            None => self.line.first()?,
        };
        self.serving.group = g;
        let saved = self.groups[g as usize].saved;
        if saved.rest > 0 {
            (self.serving.class, self.serving.kind) = (saved.class, saved.kind);
            self.serving.end = now + saved.rest;
        } else {
            self.serving.end = now - 1;
        }
        Some(g)
    }

    /// Is group `below` nested in `above`?
    pub(super) fn descends(&self, below: u32, above: u32) -> bool {
        let mut at = self.groups[below as usize].parent;
        while at != NONE && at != above {
            at = self.groups[at as usize].parent;
        }
        at == above
    }

    /// The async queue's place in its group's table.
    pub(super) fn async_place(&self, group: u32, asked: (u8, u8)) -> (u32, usize) {
        let group = if self.version == Version::K420 { group } else { 0 };
        let place = if asked.0 == IDLE { 16 } else { usize::from(asked.0) * 8 + usize::from(asked.1) };
        (group, place)
    }
}
