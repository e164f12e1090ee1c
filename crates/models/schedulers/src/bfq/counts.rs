//! Counts of queues and groups at work, and of their weights.

use super::groups::Groups;
use super::queue::{Queue, QueueId, Queues};
use crate::mechanisms::wf2q::ServiceTree;

/// See the module documentation. A queue is pending if it is busy or has requests in flight.
#[derive(Clone, Debug)]
pub(super) struct BusyCounts {
    /// Busy queues by class.
    busy: [u32; 3],
    /// Busy queues that are raised.
    pub(super) raised: u32,
    /// Weights of un-raised pending queues, ascending, with their numbers.
    weights: Vec<(u64, u32)>,
    pub(super) groups_pending: u32,
    /// The same for groups: their weights, and how many have more than one queue or group at work.
    group_weights: Vec<(u64, u32)>,
    crowded_groups: u32,
    /// Pending queues, and those of them that are constantly seeky.
    pending: u32,
    pending_seeky: u32,
}

impl BusyCounts {
    pub(super) fn new() -> BusyCounts {
        BusyCounts {
            busy: [0; 3],
            raised: 0,
            weights: Vec::with_capacity(16),
            groups_pending: 0,
            group_weights: Vec::with_capacity(16),
            crowded_groups: 0,
            pending: 0,
            pending_seeky: 0,
        }
    }

    /// Busy queues.
    pub(super) fn total(&self) -> u32 {
        self.busy.iter().sum()
    }

    /// Is every pending queue constantly seeky?
    pub(super) fn all_seeky(&self) -> bool {
        self.pending_seeky == self.pending
    }

    /// The queue has work.
    pub(super) fn add_busy(&mut self, queue: &mut Queue, class: u8) {
        self.busy[usize::from(class)] += 1;
        queue.busy_class = class;
    }

    /// The queue has no work.
    pub(super) fn remove_busy(&mut self, queue: &mut Queue) {
        queue.busy = false;
        self.busy[usize::from(queue.busy_class)] -= 1;
        if queue.raise.coeff > 1 {
            self.raised -= 1;
        }
    }

    /// A queue that was raised or not is so now.
    pub(super) fn raise_changed(&mut self, queue: &Queue, was_raised: bool) {
        if queue.busy {
            match (was_raised, queue.raise.coeff > 1) {
                (false, true) => self.raised += 1,
                (true, false) => self.raised -= 1,
                _ => {}
            }
        }
    }

    /// Counts a queue, and the groups around it, as pending or not.
    pub(super) fn set_pending(&mut self, queue: &mut Queue, pending: bool, groups: &mut Groups, engine: &ServiceTree) {
        if queue.pending == pending {
            return;
        }
        queue.pending = pending;
        let (mut at, seeky) = (queue.group, queue.constantly_seeky);
        let by = if pending { 1 } else { -1 };
        self.pending = self.pending.wrapping_add_signed(by);
        self.pending_seeky = self.pending_seeky.wrapping_add_signed(by * i32::from(seeky));
        let own = &mut groups[at];
        own.pending = own.pending.wrapping_add_signed(by);
        if own.pending == u32::from(pending) {
            self.groups_pending = self.groups_pending.wrapping_add_signed(by);
        }
        loop {
            let group = &mut groups[at];
            let before = group.active_children;
            group.active_children = before.wrapping_add_signed(by);
            let (more, after, parent) = (before.max(group.active_children), group.active_children, group.parent);
            let Some(entity) = group.entity else { return };
            if more == 2 && (before > 1) != (after > 1) {
                self.crowded_groups = self.crowded_groups.wrapping_add_signed(by);
            }
            if (before > 0) == (after > 0) {
                return;
            }
            if pending {
                let weight = engine.entity(entity).weight;
                group.counted = Some(weight);
                add_weight(&mut self.group_weights, weight);
            } else if let Some(weight) = group.counted.take() {
                remove_weight(&mut self.group_weights, weight);
            }
            match parent {
                Some(parent) => at = parent,
                None => return,
            }
        }
    }

    pub(super) fn set_constantly_seeky(&mut self, queue: &mut Queue, seeky: bool) {
        if queue.constantly_seeky != seeky {
            queue.constantly_seeky = seeky;
            let by = if seeky { 1 } else { -1 };
            self.pending_seeky = self.pending_seeky.wrapping_add_signed(by * i32::from(queue.pending));
        }
    }

    /// Counts the queue's weight, unless it is raised.
    pub(super) fn count(&mut self, queue: &mut Queue, engine: &ServiceTree) {
        if queue.raise.coeff == 1 && queue.counted.is_none() {
            let weight = engine.entity(queue.entity).weight;
            queue.counted = Some(weight);
            add_weight(&mut self.weights, weight);
        }
    }

    pub(super) fn uncount(&mut self, queue: &mut Queue) {
        if let Some(weight) = queue.counted.take() {
            remove_weight(&mut self.weights, weight);
        }
    }

    /// Follows changes of effective weights and classes in the engine.
    pub(super) fn recount(&mut self, queues: &mut Queues, engine: &mut ServiceTree) {
        while let Some((entity, _)) = engine.take_reweighed() {
            let q: QueueId = engine.entity(entity).owner;
            self.uncount(&mut queues[q]);
            self.count(&mut queues[q], engine);
        }
    }

    /// Are weights or classes unequal, so that each queue must have its slot for itself? As a queue of this counted weight sees it.
    pub(super) fn asymmetric(&self, mainline: bool, own: Option<u64>) -> bool {
        if !mainline {
            return self.weights.len() > 1 || self.group_weights.len() > 1 || self.crowded_groups > 0;
        }
        let varied = self.weights.len() > 1 && (own.is_none() || own != self.weights.first().map(|w| w.0));
        let classes = self.busy.iter().filter(|b| **b > 0).count();
        varied || classes > 1 || self.groups_pending > 1
    }

    /// The counts agree with what they count.
    #[cfg(test)]
    pub(super) fn check(&self, queues: &Queues, groups: &Groups) {
        let count = |which: fn(&Queue) -> bool| queues.live().filter(|(_, q)| which(q)).count() as u32;
        assert_eq!(count(|q| q.busy), self.total());
        assert_eq!(count(|q| q.busy && q.raise.coeff > 1), self.raised);
        assert_eq!(count(|q| q.pending), self.pending);
        assert_eq!(count(|q| q.pending && q.constantly_seeky), self.pending_seeky);
        assert_eq!(count(|q| q.counted.is_some()), self.weights.iter().map(|w| w.1).sum::<u32>());
        assert_eq!(groups.iter().filter(|g| g.pending > 0).count() as u32, self.groups_pending);
        let crowded = groups.iter().filter(|g| g.entity.is_some() && g.active_children > 1).count();
        assert_eq!(crowded as u32, self.crowded_groups);
    }
}

fn add_weight(counts: &mut Vec<(u64, u32)>, weight: u64) {
    match counts.binary_search_by_key(&weight, |w| w.0) {
        Ok(i) => counts[i].1 += 1,
        Err(i) => counts.insert(i, (weight, 1)),
    }
}

fn remove_weight(counts: &mut Vec<(u64, u32)>, weight: u64) {
    if let Ok(i) = counts.binary_search_by_key(&weight, |w| w.0) {
        counts[i].1 -= 1;
        if counts[i].1 == 0 {
            counts.remove(i);
        }
    }
}
