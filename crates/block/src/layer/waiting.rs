//! Wait queues of a set of tags.

use std::collections::VecDeque;

use crate::RequestId;

/// Wait queues of a tag set in Linux (`SBQ_WAIT_QUEUES`).
const QUEUES: usize = 8;
/// Most tags that one wake-up answers to (`SBQ_WAKE_BATCH`).
const LARGEST_BATCH: u32 = 8;

/// Freed tags that wake as many waiters at once, for a set of `depth` tags of which some I/O may use `smallest_limit` only.
pub(super) fn wake_batch(depth: u32, smallest_limit: u32) -> u32 {
    (depth.min(smallest_limit) / QUEUES as u32).clamp(1, LARGEST_BATCH)
}

/// The requests that wait for a tag of one set, spread over wait queues in turn. A freed tag wakes the first of the next
/// queue that has one: it may try again, and if another was faster it waits again, in the queue whose turn it is then. So the
/// order is first come, first served only roughly (Linux: sbitmap).
#[derive(Clone, Debug, Default)]
pub(super) struct TagWaitQueues {
    queues: [VecDeque<RequestId>; QUEUES],
    /// The queue that the next waiter joins, and the one that is woken next.
    next_wait: usize,
    next_wake: usize,
    /// Tags freed since the last wake-up.
    freed: u32,
    waiting: usize,
}

impl TagWaitQueues {
    /// Does any request wait?
    pub(super) fn any(&self) -> bool {
        self.waiting > 0
    }

    /// A request waits.
    pub(super) fn push(&mut self, id: RequestId) {
        self.queues[self.next_wait].push_back(id);
        self.next_wait = (self.next_wait + 1) % QUEUES;
        self.waiting += 1;
    }

    /// A tag was freed: once `batch` of them were, as many waiters are woken. They are appended to `woken`.
    pub(super) fn freed(&mut self, batch: u32, woken: &mut VecDeque<RequestId>) {
        if self.waiting == 0 {
            return;
        }
        self.freed += 1;
        if self.freed >= batch {
            self.freed -= batch;
            self.wake(batch as usize, woken);
        }
    }

    /// Wakes up to `count` waiters.
    fn wake(&mut self, count: usize, woken: &mut VecDeque<RequestId>) {
        let mut left = count;
        for _ in 0..QUEUES {
            let queue = &mut self.queues[self.next_wake];
            self.next_wake = (self.next_wake + 1) % QUEUES;
            let taken = left.min(queue.len());
            woken.extend(queue.drain(..taken));
            self.waiting -= taken;
            left -= taken;
            if left == 0 {
                return;
            }
        }
    }

    /// Wakes all, each queue's in order of arrival.
    pub(super) fn wake_all(&mut self, woken: &mut VecDeque<RequestId>) {
        self.wake(self.waiting, woken);
        self.freed = 0;
    }

    /// Capacities, for a test.
    #[cfg(test)]
    pub(super) fn footprint(&self) -> usize {
        self.queues.iter().map(VecDeque::capacity).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(woken: &mut VecDeque<RequestId>) -> Vec<u32> {
        woken.drain(..).map(|id| id.0).collect()
    }

    #[test]
    fn wait_queues_are_filled_and_woken_in_turn() {
        let mut waiting = TagWaitQueues::default();
        let mut woken = VecDeque::new();
        for id in 0..20 {
            waiting.push(RequestId(id));
        }
        waiting.freed(1, &mut woken);
        waiting.freed(1, &mut woken);
        assert_eq!(ids(&mut woken), [0, 1]);
        // A waiter that found no tag joins the queue after the last one that was joined.
        waiting.push(RequestId(0));
        for _ in 0..6 {
            waiting.freed(1, &mut woken);
        }
        assert_eq!(ids(&mut woken), [2, 3, 4, 5, 6, 7]);
        waiting.wake_all(&mut woken);
        assert_eq!(ids(&mut woken), [8, 16, 9, 17, 10, 18, 11, 19, 12, 0, 13, 14, 15]);
        assert!(!waiting.any());
    }

    #[test]
    fn a_batch_of_freed_tags_wakes_as_many_from_one_queue_first() {
        let mut waiting = TagWaitQueues::default();
        let mut woken = VecDeque::new();
        for id in 0..17 {
            waiting.push(RequestId(id));
        }
        for _ in 0..3 {
            waiting.freed(4, &mut woken);
        }
        assert_eq!(ids(&mut woken), []);
        waiting.freed(4, &mut woken);
        assert_eq!(ids(&mut woken), [0, 8, 16, 1]);
    }

    #[test]
    fn tags_that_are_freed_while_nobody_waits_do_not_count() {
        let mut waiting = TagWaitQueues::default();
        let mut woken = VecDeque::new();
        for _ in 0..100 {
            waiting.freed(8, &mut woken);
        }
        waiting.push(RequestId(1));
        waiting.freed(8, &mut woken);
        assert_eq!(ids(&mut woken), []);
    }

    #[test]
    fn the_batch_follows_the_depth_and_the_smallest_limit() {
        assert_eq!([4, 16, 64, 256].map(|depth| wake_batch(depth, depth)), [1, 2, 8, 8]);
        assert_eq!(wake_batch(256, 1), 1);
        assert_eq!(wake_batch(256, 48), 6);
    }
}
