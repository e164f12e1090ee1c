//! Weighted groups. Group 0 is the root. A group's own queues are one more child of it, with a leaf weight.

use super::queue::{BEST_EFFORT, NONE, REALTIME, TREES, ThinkTime};
use crate::mechanisms::ordered::Tree;

/// Fixed point of fractions: 12 bits.
pub(super) const WHOLE: u64 = 1 << 12;

#[derive(Clone, Copy, Debug)]
pub(super) struct QueueTree {
    pub(super) tree: Tree,
    pub(super) think: ThinkTime,
}

/// Time that a workload has left.
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
    pub(super) weight: u32,
    /// To be used from when it is sorted again.
    pub(super) wanted_weight: u32,
    /// Weight of its own queues among its nested groups, as it counts now.
    pub(super) leaf_weight: u32,
    /// Weights of the children that are active, its own queues included.
    pub(super) children_weight: u64,
    /// How many those are.
    pub(super) active_children: u32,
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
