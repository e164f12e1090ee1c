//! Counters of busy queues, of their weights and of the slots they use.

use dumbwaiter_block::Io;

use super::queue::{NONE, Process, QueueId};
use super::reason::Reason;
use super::{Bfq, Now};

impl Bfq {
    /// The queue has work: adds it to the engine and the counters. Its budget is set.
    pub(super) fn make_busy(&mut self, q: QueueId, now: Now) {
        let queue = &mut self.queues[q as usize];
        let back_shift = std::mem::take(&mut queue.waiting_no_idle);
        let entity = queue.entity;
        queue.busy = true;
        self.engine.at_tick(now.tick);
        self.engine.activate(entity, back_shift);
        let class = self.class_of(q) as usize;
        self.busy[class] += 1;
        let queue = &mut self.queues[q as usize];
        queue.busy_class = class as u8;
        if queue.in_flight == 0 {
            self.set_pending(q, true);
            if self.queues[q as usize].raise.coeff == 1 {
                self.count(q);
            }
        }
        self.recount();
        if self.queues[q as usize].raise.coeff > 1 {
            self.raised_busy += 1;
        }
        self.woke(q);
    }

    /// The queue has no work: removes it from the counters. The caller removes it from the engine.
    pub(super) fn not_busy(&mut self, q: QueueId) {
        let queue = &mut self.queues[q as usize];
        queue.busy = false;
        self.busy[usize::from(queue.busy_class)] -= 1;
        let (idle, raised) = (queue.in_flight == 0, queue.raise.coeff > 1);
        if idle {
            self.set_pending(q, false);
            self.uncount(q);
        }
        if raised {
            self.raised_busy -= 1;
        }
    }

    pub(super) fn set_pending(&mut self, q: QueueId, pending: bool) {
        let queue = &mut self.queues[q as usize];
        if queue.pending == pending {
            return;
        }
        queue.pending = pending;
        let (mut at, seeky) = (queue.group, queue.constantly_seeky);
        let by = if pending { 1 } else { -1 };
        self.pending = self.pending.wrapping_add_signed(by);
        self.pending_seeky = self.pending_seeky.wrapping_add_signed(by * i32::from(seeky));
        let own = &mut self.groups[at as usize];
        own.pending = own.pending.wrapping_add_signed(by);
        if own.pending == u32::from(pending) {
            self.groups_pending = self.groups_pending.wrapping_add_signed(by);
        }
        loop {
            let group = &mut self.groups[at as usize];
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
                let weight = self.engine.entity(entity).weight;
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

    pub(super) fn set_constantly_seeky(&mut self, q: QueueId, seeky: bool) {
        let queue = &mut self.queues[q as usize];
        if queue.constantly_seeky != seeky {
            queue.constantly_seeky = seeky;
            let by = if seeky { 1 } else { -1 };
            self.pending_seeky = self.pending_seeky.wrapping_add_signed(by * i32::from(queue.pending));
        }
    }

    pub(super) fn count(&mut self, q: QueueId) {
        let queue = &mut self.queues[q as usize];
        if queue.counted.is_none() {
            let weight = self.engine.entity(queue.entity).weight;
            queue.counted = Some(weight);
            add_weight(&mut self.weight_counts, weight);
        }
    }

    pub(super) fn uncount(&mut self, q: QueueId) {
        if let Some(weight) = self.queues[q as usize].counted.take() {
            remove_weight(&mut self.weight_counts, weight);
        }
    }

    /// Follows changes of effective weights and classes in the engine.
    pub(super) fn recount(&mut self) {
        while let Some((entity, _)) = self.engine.take_reweighed() {
            let entity = self.engine.entity(entity);
            let q = entity.owner;
            self.uncount(q);
            if self.queues[q as usize].raise.coeff == 1 {
                self.count(q);
            }
        }
    }

    pub(super) fn allocate(&mut self, q: QueueId, by: i32) {
        let queue = &mut self.queues[q as usize];
        queue.allocated = queue.allocated.wrapping_add_signed(by);
        let mut at = Some(queue.group);
        while let Some(group) = at {
            let group = &mut self.groups[group as usize];
            group.allocated = group.allocated.wrapping_add_signed(by);
            at = group.parent;
        }
    }

    pub(super) fn free_if_unused(&mut self, q: QueueId) {
        let queue = &self.queues[q as usize];
        if !queue.live
            || queue.processes > 0
            || queue.allocated > 0
            || queue.held > 0
            || queue.busy
            || self.in_service == Some(q)
        {
            return;
        }
        let (entity, group, merge_into) = (queue.entity, queue.group as usize, queue.merge_into);
        self.set_pending(q, false);
        self.uncount(q);
        self.forget_relations(q);
        self.leave_burst(q);
        if self.queues[q as usize].by_position {
            self.positions.remove(&mut self.groups[group].positions, q);
        }
        if self.groups[group].last_created == q {
            self.groups[group].last_created = NONE;
        }
        self.queues[q as usize].live = false;
        self.engine.remove_leaf(entity);
        self.free_queues.push(q);
        self.release_group(group as u32);
        if merge_into != NONE {
            self.queues[merge_into as usize].held -= 1;
            self.free_if_unused(merge_into);
        }
    }

    pub(super) fn task_exited(&mut self, task: u32, now: Now) {
        let Some(process) = self.processes.get_mut(task as usize) else { return };
        let (q, candidate) = (process.queue, process.stable_candidate);
        let requests = process.requests;
        *process = Process { requests, ..Process::NEW };
        self.saved[task as usize] = None;
        if candidate != NONE {
            self.queues[candidate as usize].held -= 1;
            self.free_if_unused(candidate);
        }
        if q != NONE {
            if self.queues[q as usize].task == task {
                self.queues[q as usize].task = NONE;
            }
            if self.in_service == Some(q)
                && self.queues[q as usize].is_empty()
                && self.queues[q as usize].processes == 1
            {
                self.expire(q, Reason::NoMoreRequests, false, now);
            }
            self.release(q, now);
        }
    }

    /// So many sixteenths of the slots, at least one; of those at the time of attachment if limits stay those.
    pub(super) fn part_of_slots(&self, sixteenths: u64, nr_requests: u32) -> u32 {
        let whole = u64::from(self.nr_requests_at_attach.unwrap_or(nr_requests));
        u32::try_from(whole * sixteenths / 16).unwrap_or(u32::MAX).min(nr_requests).max(1)
    }

    /// Is the queue of this kind of I/O, or a group around it, at its share of `limit` slots?
    pub(super) fn over_share(&self, io: &Io, sync: bool, limit: u32) -> bool {
        let Some(process) = self.processes.get(io.task.0 as usize) else { return false };
        let q = if sync { process.queue } else { process.async_queue };
        let Some(queue) = self.queues.get(q as usize).filter(|queue| queue.live) else { return false };
        let mut limit = u64::from(limit);
        let mut groups = [None; 8];
        let (mut depth, mut at) = (0, Some(queue.group));
        while let Some(group) = at.filter(|_| depth < groups.len()) {
            groups[depth] = Some(group);
            depth += 1;
            at = self.groups[group as usize].parent;
        }
        for group in groups[..depth].iter().rev().flatten() {
            let group = &self.groups[*group as usize];
            if let Some(entity) = group.entity.filter(|e| self.engine.entity(*e).known()) {
                let all = self.engine.weights_of_class(entity);
                limit = share_of(limit, self.engine.entity(entity).weight, all);
                if u64::from(group.allocated) >= limit {
                    return true;
                }
            }
        }
        if !self.engine.entity(queue.entity).known() {
            return false;
        }
        let all = self.engine.weights_of_classes_above(queue.entity, LEVELS);
        u64::from(queue.allocated) >= share_of(limit, self.engine.entity(queue.entity).weight, all)
    }
}

/// I/O priority levels of a class: so many times more does a class count than the one below when slots are shared out.
const LEVELS: u64 = 8;

/// The share of `limit` that `weight` has of `all` weights, to the nearest.
fn share_of(limit: u64, weight: u64, all: u64) -> u64 {
    let all = all.max(weight).max(1);
    (limit * weight + all / 2) / all
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
