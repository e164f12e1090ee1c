//! Large bursts of queue creations: queues of many processes that start at once are not raised.

use super::generation::Constants;
use super::queue::{LONG_AGO, QueueId, Queues};
use super::time::{Now, Spans};

/// The current burst: queues of one group, each created (before mainline: busy) soon after the one before.
#[derive(Clone, Debug)]
pub(super) struct Bursts {
    list: Vec<QueueId>,
    size: usize,
    large: bool,
    last: i64,
    group: u32,
}

impl Bursts {
    pub(super) fn new() -> Bursts {
        Bursts { list: Vec::with_capacity(16), size: 0, large: false, last: LONG_AGO, group: u32::MAX }
    }

    /// A queue was created, or, before mainline, became busy. Only one that is `alone` begins a burst.
    pub(super) fn join(
        &mut self,
        q: QueueId,
        alone: bool,
        queues: &mut Queues,
        now: Now,
        (constants, spans): (&Constants, &Spans),
    ) {
        let queue = &mut queues[q];
        if (self.size == 0 && !alone)
            || queue.in_burst_list
            || queue.large_burst
            || now.tick <= queue.split + spans.ms_10
        {
            return;
        }
        let group = queue.group;
        let apart = now.tick > self.last + spans.burst;
        self.last = now.tick;
        if apart || group != self.group {
            self.clear(queues);
            self.size = 0;
            self.large = false;
            self.group = group;
            if alone {
                self.list(q, queues);
                self.size = 1;
            }
        } else if self.large {
            queue.large_burst = true;
        } else {
            self.size += 1;
            if self.size == constants.burst_size {
                self.large = true;
                queue.large_burst = true;
                for member in &self.list {
                    queues[*member].large_burst = true;
                }
                self.clear(queues);
            } else {
                self.list(q, queues);
            }
        }
    }

    fn list(&mut self, q: QueueId, queues: &mut Queues) {
        queues[q].in_burst_list = true;
        self.list.push(q);
    }

    fn clear(&mut self, queues: &mut Queues) {
        while let Some(q) = self.list.pop() {
            queues[q].in_burst_list = false;
        }
    }

    /// A group was removed, and its number may be used again.
    pub(super) fn forget_group(&mut self, group: u32) {
        if self.group == group {
            self.group = u32::MAX;
        }
    }

    /// The queue is no longer part of a burst.
    pub(super) fn leave(&mut self, q: QueueId, queues: &mut Queues) {
        let queue = &mut queues[q];
        queue.large_burst = false;
        if std::mem::take(&mut queue.in_burst_list) {
            self.list.retain(|m| *m != q);
        }
    }
}
