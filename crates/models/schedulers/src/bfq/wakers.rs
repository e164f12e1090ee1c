//! Wakers: queues whose completions let other queues continue, each with a list of those that it wakes.

use super::queue::{NONE, QueueId, Queues};

impl Queues {
    /// Makes `waker` the waker of `q`, which becomes its most recently woken.
    pub(super) fn set_waker(&mut self, q: QueueId, waker: QueueId) {
        self.drop_waker(q);
        self[q].waker = waker;
        let next = std::mem::replace(&mut self[waker].woken, q);
        self[q].woken_next = next;
        if next != NONE {
            self[next].woken_previous = q;
        }
    }

    /// `q` became busy: it is the most recently woken of its waker.
    pub(super) fn woke(&mut self, q: QueueId) {
        let waker = self[q].waker;
        if waker != NONE && self[waker].woken != q {
            self.set_waker(q, waker);
        }
    }

    fn drop_waker(&mut self, q: QueueId) {
        let queue = &mut self[q];
        let waker = std::mem::replace(&mut queue.waker, NONE);
        if waker == NONE {
            return;
        }
        let next = std::mem::replace(&mut queue.woken_next, NONE);
        let previous = std::mem::replace(&mut queue.woken_previous, NONE);
        match previous {
            NONE => self[waker].woken = next,
            _ => self[previous].woken_next = next,
        }
        if next != NONE {
            self[next].woken_previous = previous;
        }
    }

    /// The queue is to be freed: no queue has it as its waker or wakes it.
    pub(super) fn forget_waker_relations(&mut self, q: QueueId) {
        self.drop_waker(q);
        let mut at = std::mem::replace(&mut self[q].woken, NONE);
        while at != NONE {
            let queue = &mut self[at];
            queue.waker = NONE;
            queue.woken_previous = NONE;
            at = std::mem::replace(&mut queue.woken_next, NONE);
        }
    }
}
