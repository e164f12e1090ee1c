//! The tree of groups: weights, the shares that follow from them, and what groups lend to one another.

use std::collections::VecDeque;

use dumbwaiter_block::{Nanos, RequestId};

/// Everything.
pub(super) const WHOLE: u32 = 65_536;
/// A weight of 1 as it is kept.
pub(super) const WEIGHT_UNIT: u32 = 65_536;
/// Weight by default.
pub(super) const WEIGHT_DEFAULT: u32 = 100;
/// The root's place.
pub(super) const ROOT: usize = 0;

/// An I/O that waits: who, and its cost before it is divided by a share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) id: RequestId,
    pub(super) cost: u64,
}

/// A group on a device. Virtual times wrap and are compared by their signed difference.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Its ancestors below the root, and itself last.
    path: Vec<usize>,
    pub(super) parent: usize,
    pub(super) weight: u32,
    /// Its weight while it is active, else 0.
    pub(super) active: u32,
    /// What it uses of that; the rest is lent.
    pub(super) inuse: u32,
    pub(super) last_inuse: u32,
    pub(super) saved_margin: i64,
    pub(super) children_active: u64,
    pub(super) children_inuse: u64,
    share_active: u32,
    share_inuse: u32,
    share_generation: u64,
    /// End of the last I/O that was charged; 0: none was.
    pub(super) cursor: u64,
    pub(super) vtime: u64,
    pub(super) vtime_done: u64,
    pub(super) debt: u64,
    pub(super) delay_us: u64,
    pub(super) delay_at_us: u64,
    pub(super) last_period: u64,
    pub(super) is_active: bool,
    pub(super) activated_at_us: u64,
    /// Cost charged since the last period ended.
    pub(super) charged: u64,
    pub(super) usage_us: u64,
    pub(super) total_usage_us: u64,
    pub(super) waiters: VecDeque<Waiter>,
    /// Start of the window in which it is woken.
    pub(super) wakes_at: Option<Nanos>,
    pub(super) waited: u64,
}

impl Group {
    fn new(parent: usize, path: Vec<usize>, weight: u32, vtime: u64) -> Group {
        Group {
            path,
            parent,
            weight,
            active: 0,
            inuse: 0,
            last_inuse: 0,
            saved_margin: 0,
            children_active: 0,
            children_inuse: 0,
            share_active: WHOLE,
            share_inuse: WHOLE,
            share_generation: 0,
            cursor: 0,
            vtime,
            vtime_done: vtime,
            debt: 0,
            delay_us: 0,
            delay_at_us: 0,
            last_period: 0,
            is_active: false,
            activated_at_us: 0,
            charged: 0,
            usage_us: 0,
            total_usage_us: 0,
            waiters: VecDeque::new(),
            wakes_at: None,
            waited: 0,
        }
    }

    /// Is nothing charged that has not ended?
    pub(super) fn is_done(&self) -> bool {
        self.vtime == self.vtime_done
    }

    /// Moves both clocks.
    pub(super) fn advance(&mut self, by: u64) {
        self.vtime = self.vtime.wrapping_add(by);
        self.vtime_done = self.vtime_done.wrapping_add(by);
    }

    /// How far its clock is behind the device's; negative: ahead.
    pub(super) fn budget(&self, vnow: u64) -> i64 {
        vnow.wrapping_sub(self.vtime) as i64
    }
}

/// All groups of a device, the root first.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    all: Vec<Group>,
    /// Numbers of groups that were removed.
    free: Vec<usize>,
    generation: u64,
    weights_changed: bool,
}

impl std::ops::Index<usize> for Groups {
    type Output = Group;
    fn index(&self, at: usize) -> &Group {
        &self.all[at]
    }
}

impl std::ops::IndexMut<usize> for Groups {
    fn index_mut(&mut self, at: usize) -> &mut Group {
        &mut self.all[at]
    }
}

impl Groups {
    pub(super) fn new() -> Groups {
        Groups {
            all: vec![Group::new(ROOT, Vec::new(), WEIGHT_DEFAULT * WEIGHT_UNIT, 0)],
            free: Vec::new(),
            generation: 1,
            weights_changed: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Adds a group below `parent`.
    pub(super) fn add(&mut self, parent: usize, weight: u32, vnow: u64) -> usize {
        // A parent has a lower number than its children: a free place may only be taken above it.
        let free = self.free.iter().position(|free| *free > parent).map(|at| self.free.swap_remove(at));
        let at = free.unwrap_or(self.all.len());
        let mut path = self.all[parent].path.clone();
        path.push(at);
        let group = Group::new(parent, path, weight * WEIGHT_UNIT, vnow);
        match self.all.get_mut(at) {
            Some(place) => *place = group,
            None => self.all.push(group),
        }
        at
    }

    /// Removes a group; its number may be given out again.
    pub(super) fn remove(&mut self, at: usize) {
        self.set_weights(at, 0, 0, None);
        let parent = self.all[at].parent;
        // What is idle counts as one unit in use.
        self.all[parent].children_inuse = self.all[parent].children_inuse.saturating_sub(self.all[at].inuse.into());
        self.all[at].inuse = 0;
        self.all[at].is_active = false;
        self.weights_changed = true;
        self.commit();
        self.free.push(at);
    }

    pub(super) fn path(&self, at: usize) -> &[usize] {
        &self.all[at].path
    }

    /// Only leaves are charged: has it an active ancestor, or an active group below?
    pub(super) fn is_inner(&self, at: usize) -> bool {
        let group = &self.all[at];
        group.children_active > 0 || group.path.iter().any(|above| *above != at && self.all[*above].is_active)
    }

    /// Gives a group these weights and adds them up to the root. `vnow`: keeps how far its clock is behind.
    pub(super) fn set_weights(&mut self, at: usize, active: u32, inuse: u32, vnow: Option<u64>) {
        let group = &mut self.all[at];
        let inuse = if !group.is_active && group.children_active > 0 {
            in_proportion(active, group.children_inuse, group.children_active)
        } else {
            inuse.min(active).max(1)
        };
        group.last_inuse = group.inuse;
        if let Some(vnow) = vnow {
            group.saved_margin = group.budget(vnow);
        }
        if (active, inuse) == (group.active, group.inuse) {
            return;
        }
        let (mut child, mut active, mut inuse) = (at, active, inuse);
        loop {
            let above = self.all[child].parent;
            let old = (u64::from(self.all[child].active), u64::from(self.all[child].inuse));
            let parent = &mut self.all[above];
            parent.children_active = (parent.children_active + u64::from(active)).saturating_sub(old.0);
            parent.children_inuse = (parent.children_inuse + u64::from(inuse)).saturating_sub(old.1);
            let next = match parent.children_active {
                0 => (0, 0),
                sum => (parent.weight, in_proportion(parent.weight, parent.children_inuse, sum)),
            };
            let settled = above == ROOT || next == (parent.active, parent.inuse);
            (self.all[child].active, self.all[child].inuse) = (active, inuse);
            if settled {
                break;
            }
            (child, active, inuse) = (above, next.0, next.1);
        }
        self.weights_changed = true;
    }

    /// Shares are computed anew from here on, if weights changed.
    pub(super) fn commit(&mut self) {
        if std::mem::take(&mut self.weights_changed) {
            self.generation += 1;
        }
    }

    /// The shares of a group by its weight, and by what it uses of it.
    #[inline]
    pub(super) fn shares(&mut self, at: usize) -> (u32, u32) {
        let group = &self.all[at];
        if group.share_generation == self.generation {
            return (group.share_active, group.share_inuse);
        }
        self.refresh_shares(at)
    }

    fn refresh_shares(&mut self, at: usize) -> (u32, u32) {
        let (mut by_active, mut by_inuse) = (u64::from(WHOLE), u64::from(WHOLE));
        for level in &self.all[at].path {
            let (child, parent) = (&self.all[*level], &self.all[self.all[*level].parent]);
            let (active, inuse) = (u64::from(child.active), u64::from(child.inuse));
            if active == 0 || inuse == 0 || parent.children_active == 0 || parent.children_inuse == 0 {
                continue;
            }
            by_active = by_active * active / parent.children_active.max(active);
            by_inuse = by_inuse * inuse / parent.children_inuse.max(inuse);
        }
        let generation = self.generation;
        let group = &mut self.all[at];
        group.share_active = by_active.max(1) as u32;
        group.share_inuse = by_inuse.max(1) as u32;
        group.share_generation = generation;
        (group.share_active, group.share_inuse)
    }

    /// The share that a group would have if it lent nothing and all else stayed.
    pub(super) fn share_if_nothing_lent(&self, at: usize) -> u32 {
        let mut share = u64::from(WHOLE);
        let mut wanted = u64::from(self.all[at].active);
        for level in self.all[at].path.iter().rev() {
            let (child, parent) = (&self.all[*level], &self.all[self.all[*level].parent]);
            let sum = (parent.children_inuse + wanted).saturating_sub(u64::from(child.inuse)).max(1);
            share = share * wanted / sum;
            wanted = (u64::from(parent.active) * sum).div_ceil(parent.children_active.max(1));
        }
        share.clamp(1, u64::from(u32::MAX)) as u32
    }
}

/// `weight · part / whole`, rounded up.
fn in_proportion(weight: u32, part: u64, whole: u64) -> u32 {
    (u128::from(weight) * u128::from(part)).div_ceil(u128::from(whole.max(1))).min(u128::from(u32::MAX)) as u32
}
