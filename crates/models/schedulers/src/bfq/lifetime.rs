//! Queues become busy and idle, and are freed with the last that uses them; so are groups.

use dumbwaiter_block::RequestId;

use super::queue::{NONE, QueueId};
use super::{Bfq, Now};

impl Bfq {
    /// The queue has work: adds it to the engine and the counts. Its budget is set.
    pub(super) fn make_busy(&mut self, q: QueueId, now: Now) {
        let queue = &mut self.queues[q];
        let back_shift = std::mem::take(&mut queue.waiting_no_idle);
        let entity = queue.entity;
        queue.busy = true;
        self.engine.at_tick(now.tick);
        self.engine.activate(entity, back_shift);
        let class = self.class_of(q) as u8;
        let queue = &mut self.queues[q];
        self.counts.add_busy(queue, class);
        if queue.in_flight == 0 {
            self.counts.set_pending(queue, true, &mut self.groups, &self.engine);
            self.counts.count(queue, &self.engine);
        }
        self.recount();
        self.counts.raised += u32::from(self.queues[q].raise.coeff > 1);
        self.queues.woke(q);
    }

    /// The queue has no work: removes it from the counts. The caller removes it from the engine.
    pub(super) fn not_busy(&mut self, q: QueueId) {
        let queue = &mut self.queues[q];
        self.counts.remove_busy(queue);
        if queue.in_flight == 0 {
            self.not_pending(q);
        }
    }

    /// The queue has no work and nothing in flight.
    pub(super) fn not_pending(&mut self, q: QueueId) {
        self.set_pending(q, false);
        self.counts.uncount(&mut self.queues[q]);
    }

    /// A queue that is not in service ran empty.
    pub(super) fn idle_out_of_service(&mut self, q: QueueId, now: Now) {
        self.not_busy(q);
        let entity = self.queues[q].entity;
        self.engine.at_tick(now.tick);
        self.engine.deactivate(entity, true);
        self.engine.set_budget(entity, 0);
        self.engine.set_used(entity, 0);
    }

    /// Frees the queue unless something uses it.
    pub(super) fn free_if_unused(&mut self, q: QueueId) {
        let Some(queue) = self.queues.get(q) else { return };
        if queue.processes > 0 || queue.allocated > 0 || queue.held > 0 || queue.busy || self.slot.serves(q) {
            return;
        }
        let (entity, group, merge_into) = (queue.entity, queue.group, queue.merge_into);
        self.not_pending(q);
        self.queues.forget_waker_relations(q);
        if self.device.last_completed == q {
            self.device.last_completed = NONE;
        }
        self.bursts.leave(q, &mut self.queues);
        self.leave_group(q);
        self.queues.free(q);
        self.engine.remove_leaf(entity);
        self.release_group(group);
        if merge_into != NONE {
            self.let_go(merge_into);
        }
    }

    /// The queue's group does not find it any more.
    pub(super) fn leave_group(&mut self, q: QueueId) {
        self.groups.place(q, &mut self.queues[q], None);
        let group = &mut self.groups[self.queues[q].group];
        if group.last_created == q {
            group.last_created = NONE;
        }
    }

    /// One thing less holds the queue.
    pub(super) fn let_go(&mut self, q: QueueId) {
        self.queues[q].held -= 1;
        self.free_if_unused(q);
    }

    /// A request is gone: it completed, or another one absorbed it.
    pub(super) fn forget_request(&mut self, id: RequestId) {
        let entry = self.requests[id.0];
        self.requests[id.0].queue = NONE;
        self.processes[entry.task].requests -= 1;
        self.allocate(entry.queue, -1);
        self.free_if_unused(entry.queue);
    }

    /// A process leaves a queue.
    pub(super) fn release(&mut self, q: QueueId, now: Now) {
        self.queues[q].processes -= 1;
        let queue = &self.queues[q];
        if queue.processes == 0 && queue.busy && queue.is_empty() && !self.slot.serves(q) {
            self.idle_out_of_service(q, now);
        }
        self.free_if_unused(q);
    }

    /// A tenant, a queue or a nested group does not use this group any more.
    pub(super) fn release_group(&mut self, group: u32) {
        let own = &mut self.groups[group];
        own.references -= 1;
        if own.references > 0 {
            return;
        }
        let (entity, parent) = (own.entity.take(), own.parent);
        if let Some(entity) = entity {
            self.engine.remove_group(entity);
        }
        self.bursts.forget_group(group);
        self.groups.free(group);
        if let Some(parent) = parent {
            self.release_group(parent);
        }
    }
}
