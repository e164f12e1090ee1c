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
/// queue that has one: it may try again, and if another was faster it waits again, in the queue whose turn it was when it was
/// woken. So the order is first come, first served only roughly (Linux: sbitmap).
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

    /// The queue of the next waiter.
    pub(super) fn next_queue(&mut self) -> usize {
        let queue = self.next_wait;
        self.next_wait = (queue + 1) % QUEUES;
        queue
    }

    /// A request waits in a queue.
    pub(super) fn push(&mut self, id: RequestId, queue: usize) {
        self.queues[queue].push_back(id);
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

    /// Wakes up to `count` waiters: of the next queue that has any as many as it has, then of the one after it.
    fn wake(&mut self, count: usize, woken: &mut VecDeque<RequestId>) {
        let mut left = count.min(self.waiting);
        self.waiting -= left;
        while left > 0 {
            let queue = &mut self.queues[self.next_wake];
            let taken = left.min(queue.len());
            woken.extend(queue.drain(..taken));
            left -= taken;
            self.next_wake = (self.next_wake + 1) % QUEUES;
        }
    }

    /// Wakes all, one from each queue in turn.
    pub(super) fn wake_all(&mut self, woken: &mut VecDeque<RequestId>) {
        while self.waiting > 0 {
            self.wake(1, woken);
        }
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

    fn push(waiting: &mut TagWaitQueues, id: u32) {
        let queue = waiting.next_queue();
        waiting.push(RequestId(id), queue);
    }

    fn ids(woken: &mut VecDeque<RequestId>) -> Vec<u32> {
        woken.drain(..).map(|id| id.0).collect()
    }

    #[test]
    fn wait_queues_are_filled_and_woken_in_turn() {
        let mut waiting = TagWaitQueues::default();
        let mut woken = VecDeque::new();
        for id in 0..20 {
            push(&mut waiting, id);
        }
        waiting.freed(1, &mut woken);
        waiting.freed(1, &mut woken);
        assert_eq!(ids(&mut woken), [0, 1]);
        // A waiter that found no tag joins the queue after the last one that was joined.
        push(&mut waiting, 0);
        for _ in 0..6 {
            waiting.freed(1, &mut woken);
        }
        assert_eq!(ids(&mut woken), [2, 3, 4, 5, 6, 7]);
        waiting.wake_all(&mut woken);
        assert_eq!(ids(&mut woken), [8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 0]);
        assert!(!waiting.any());
    }

    #[test]
    fn a_batch_of_freed_tags_wakes_as_many() {
        let mut waiting = TagWaitQueues::default();
        let mut woken = VecDeque::new();
        for id in 0..17 {
            push(&mut waiting, id);
        }
        for _ in 0..3 {
            waiting.freed(4, &mut woken);
        }
        assert_eq!(ids(&mut woken), []);
        waiting.freed(4, &mut woken);
        // Queues 0 and 1 have three and two of them: 0, 8, 16 and 1, 9.
        assert_eq!(ids(&mut woken), [0, 8, 16, 1]);
    }

    #[test]
    fn with_two_places_for_each_sleep_those_alone_in_a_queue_get_more_tags() {
        // Six tasks and four tags that complete together (`none-mixed-prio`): with every second queue in use, two queues have
        // one task each, which gets a tag in each round.
        let mut waiting = TagWaitQueues::default();
        let mut woken = VecDeque::new();
        for id in 0..6 {
            push(&mut waiting, id);
            waiting.next_queue();
        }
        let mut got = [0; 6];
        for _ in 0..600 {
            waiting.freed(1, &mut woken);
            for id in ids(&mut woken) {
                got[id as usize] += 1;
                waiting.next_queue();
                push(&mut waiting, id);
            }
        }
        assert_eq!(got.iter().sum::<u32>(), 600);
        assert!(got.iter().max() > got.iter().min(), "{got:?}");
    }

    #[test]
    fn tags_that_are_freed_while_nobody_waits_do_not_count() {
        let mut waiting = TagWaitQueues::default();
        let mut woken = VecDeque::new();
        for _ in 0..100 {
            waiting.freed(8, &mut woken);
        }
        push(&mut waiting, 1);
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
