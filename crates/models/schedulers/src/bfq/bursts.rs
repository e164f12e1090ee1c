//! Large bursts of queue creations: queues of many processes that start at once are not raised.

use super::queue::QueueId;
use super::{Bfq, Generation, Now};

impl Bfq {
    /// A queue was created, or, before mainline, became busy.
    pub(super) fn join_burst(&mut self, q: QueueId, now: Now) {
        let alone = self.busy_total() == 0 || !self.is(Generation::Mainline);
        if !self.values.on.bursts || (self.burst.size == 0 && !alone) {
            return;
        }
        let queue = &self.queues[q as usize];
        if queue.in_burst_list || queue.large_burst || now.tick <= queue.split + self.spans.ms_10 {
            return;
        }
        let group = queue.group;
        let apart = now.tick > self.burst.last + self.spans.burst;
        self.burst.last = now.tick;
        if apart || group != self.burst.group {
            self.clear_burst();
            self.burst.large = false;
            self.burst.group = group;
            if alone {
                self.list_in_burst(q);
                self.burst.size = 1;
            }
        } else if self.burst.large {
            self.queues[q as usize].large_burst = true;
        } else {
            self.burst.size += 1;
            if self.burst.size == self.constants.burst_size {
                self.burst.large = true;
                self.queues[q as usize].large_burst = true;
                for i in 0..self.burst.list.len() {
                    let member = self.burst.list[i];
                    self.queues[member as usize].large_burst = true;
                }
                let size = self.burst.size;
                self.clear_burst();
                self.burst.size = size;
            } else {
                self.list_in_burst(q);
            }
        }
    }

    fn list_in_burst(&mut self, q: QueueId) {
        self.queues[q as usize].in_burst_list = true;
        self.burst.list.push(q);
    }

    fn clear_burst(&mut self) {
        while let Some(q) = self.burst.list.pop() {
            self.queues[q as usize].in_burst_list = false;
        }
        self.burst.size = 0;
    }

    /// A group was removed, and its number may be used again.
    pub(super) fn forget_burst_of(&mut self, group: u32) {
        if self.burst.group == group {
            self.burst.group = u32::MAX;
        }
    }

    /// The queue is no longer part of a burst.
    pub(super) fn leave_burst(&mut self, q: QueueId) {
        let queue = &mut self.queues[q as usize];
        queue.large_burst = false;
        if std::mem::take(&mut queue.in_burst_list) {
            self.burst.list.retain(|m| *m != q);
        }
    }
}
