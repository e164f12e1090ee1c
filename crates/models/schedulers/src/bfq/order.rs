//! The order of requests within a queue, and what follows when its next request is another one: its budget, and its place by position.

use dumbwaiter_block::RequestId;

use super::queue::{NONE, QueueId};
use super::{Bfq, Generation, Now};

impl Bfq {
    /// The head of a waiting queue changed: so may its budget.
    pub(super) fn fit_budget(&mut self, q: QueueId) {
        let queue = &self.queues[q];
        if queue.next == NONE || self.slot.serves(q) {
            return;
        }
        let entity = self.engine.entity(queue.entity);
        let budget = queue.max_budget.max(self.cost(q, queue.next)).max(entity.used);
        if entity.budget != budget {
            let entity = queue.entity;
            self.engine.set_budget(entity, budget);
            self.engine.at_tick(self.time.now.tick);
            self.engine.reposition(entity);
            self.recount();
        }
    }

    /// Keeps the tree by position in step with a queue's next request.
    pub(super) fn move_position(&mut self, q: QueueId) {
        let flash = self.device.nonrot_queueing;
        let queue = &mut self.queues[q];
        let placed = queue.next != NONE && queue.sync && self.values.on.merging && !flash;
        let sector = placed.then(|| self.requests.sorted.key(queue.next));
        self.groups.place(q, queue, sector);
    }

    /// The request came in, or further down: is it the next one now? Returns whether another one was.
    pub(super) fn consider(&mut self, q: QueueId, id: RequestId) -> bool {
        let before = self.queues[q].next;
        let next = self.better(before, id.0, self.device.head_pos);
        self.queues[q].next = next;
        next != before
    }

    /// Takes a request out of its queue.
    pub(super) fn detach(&mut self, q: QueueId, id: RequestId, sector: u64, now: Now) {
        let was_next = self.queues[q].next == id.0;
        if was_next {
            let next = self.next_after(q, id, sector, now);
            self.queues[q].next = next;
        }
        let sync = usize::from(self.requests[id.0].sync);
        let queue = &mut self.queues[q];
        queue.queued[sync] -= 1;
        self.requests.queued -= 1;
        self.requests.sorted.remove(&mut queue.sorted, id.0);
        self.requests[id.0].queued = false;
        queue.fifo.remove(&mut self.requests.links, id);
        if was_next {
            self.fit_budget(q);
            self.move_position(q);
        }
        let queue = &self.queues[q];
        if queue.is_empty() && queue.busy && !self.slot.serves(q) {
            self.idle_out_of_service(q, now);
        }
    }

    /// The queue's next request after `id` has left it.
    fn next_after(&mut self, q: QueueId, id: RequestId, sector: u64, now: Now) -> u32 {
        let mainline = self.is(Generation::Mainline);
        let queue = &mut self.queues[q];
        if mainline
            && !std::mem::replace(&mut queue.fifo_checked, true)
            && let Some(oldest) = queue.fifo.front()
            && oldest != id
            && self.requests[oldest.0].deadline <= now.at
        {
            return oldest.0;
        }
        let queue = &self.queues[q];
        let next = self.requests.sorted.next(id.0).or_else(|| queue.sorted.first()).filter(|n| *n != id.0);
        let previous = self.requests.sorted.previous(id.0);
        self.better(next.unwrap_or(NONE), previous.unwrap_or(NONE), sector)
    }
}
