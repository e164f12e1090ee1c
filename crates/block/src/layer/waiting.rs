//! Requests that wait for a tag.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::RequestId;

/// Tasks that are offered a freed tag, one after another, until one can use it.
const OFFERS: usize = 8;

const NIL: u32 = u32::MAX;

/// The waiting requests of one task in one queue, oldest first.
#[derive(Clone, Copy, Debug)]
struct List {
    queue: u32,
    task: u32,
    first: RequestId,
    last: RequestId,
    /// The task's list in another queue.
    next_of_task: u32,
}

/// Queues of requests that wait for a tag, each in order of arrival. A request that may not have a tag yet holds up those of
/// its own task in the same queue, not those of other tasks: each task sleeps for its own tag. The size of everything here
/// follows the most requests and tasks that waited at once.
#[derive(Clone, Debug, Default)]
pub(super) struct TagWaitQueues {
    /// Of each queue: the arrival of each list's first request, and the list.
    heads: Vec<BinaryHeap<Reverse<(u64, u32)>>>,
    lists: Vec<List>,
    free: Vec<u32>,
    /// A list of each task.
    by_task: Vec<u32>,
    /// Of each waiting request: its arrival, and the one behind it in its list.
    links: Vec<(u64, RequestId)>,
    arrivals: u64,
    refused: Vec<Reverse<(u64, u32)>>,
}

impl TagWaitQueues {
    pub(super) fn new(queues: usize) -> TagWaitQueues {
        TagWaitQueues { heads: vec![BinaryHeap::new(); queues], ..TagWaitQueues::default() }
    }

    /// How many queues there are.
    pub(super) fn queues(&self) -> usize {
        self.heads.len()
    }

    /// Makes it at least so many queues.
    pub(super) fn extend_to(&mut self, queues: usize) {
        self.heads.resize_with(queues.max(self.heads.len()), BinaryHeap::new);
    }

    /// Does this task wait in this queue?
    pub(super) fn holds(&self, queue: usize, task: u32) -> bool {
        self.list_of(queue, task).is_some()
    }

    /// Does any request wait in this queue?
    pub(super) fn waits(&self, queue: usize) -> bool {
        !self.heads[queue].is_empty()
    }

    /// Arrival of a queue's oldest request.
    pub(super) fn oldest(&self, queue: usize) -> Option<u64> {
        self.heads[queue].peek().map(|head| head.0.0)
    }

    fn list_of(&self, queue: usize, task: u32) -> Option<u32> {
        let mut at = *self.by_task.get(task as usize)?;
        while at != NIL {
            let list = &self.lists[at as usize];
            if list.queue as usize == queue {
                return Some(at);
            }
            at = list.next_of_task;
        }
        None
    }

    /// Adds a request at the end of a queue.
    pub(super) fn push(&mut self, queue: usize, task: u32, id: RequestId) {
        self.arrivals += 1;
        if id.index() >= self.links.len() {
            self.links.resize(id.index() + 1, (0, RequestId::NIL));
        }
        self.links[id.index()] = (self.arrivals, RequestId::NIL);
        if let Some(list) = self.list_of(queue, task) {
            let list = &mut self.lists[list as usize];
            self.links[list.last.index()].1 = id;
            list.last = id;
            return;
        }
        if task as usize >= self.by_task.len() {
            self.by_task.resize(task as usize + 1, NIL);
        }
        let next_of_task = self.by_task[task as usize];
        let list = List { queue: queue as u32, task, first: id, last: id, next_of_task };
        let at = match self.free.pop() {
            Some(at) => {
                self.lists[at as usize] = list;
                at
            }
            None => {
                self.lists.push(list);
                self.lists.len() as u32 - 1
            }
        };
        self.by_task[task as usize] = at;
        self.heads[queue].push(Reverse((self.arrivals, at)));
    }

    /// Takes the oldest request of a queue that `may` have a tag.
    pub(super) fn take(&mut self, queue: usize, mut may: impl FnMut(RequestId) -> bool) -> Option<RequestId> {
        let mut found = None;
        while found.is_none()
            && self.refused.len() < OFFERS
            && let Some(head) = self.heads[queue].pop()
        {
            let at = head.0.1;
            let first = self.lists[at as usize].first;
            if !may(first) {
                self.refused.push(head);
                continue;
            }
            found = Some(first);
            match self.links[first.index()].1.some() {
                Some(next) => {
                    self.lists[at as usize].first = next;
                    self.heads[queue].push(Reverse((self.links[next.index()].0, at)));
                }
                None => self.remove(at),
            }
        }
        self.heads[queue].extend(self.refused.drain(..));
        found
    }

    /// A list is empty.
    fn remove(&mut self, at: u32) {
        let List { task, next_of_task, .. } = self.lists[at as usize];
        self.free.push(at);
        let mut before = self.by_task[task as usize];
        if before == at {
            self.by_task[task as usize] = next_of_task;
            return;
        }
        while self.lists[before as usize].next_of_task != at {
            before = self.lists[before as usize].next_of_task;
        }
        self.lists[before as usize].next_of_task = next_of_task;
    }

    /// Capacities, for a test.
    #[cfg(test)]
    pub(super) fn footprint(&self) -> Vec<usize> {
        let tables = [self.lists.capacity(), self.free.capacity(), self.by_task.capacity(), self.links.capacity()];
        tables.into_iter().chain(self.heads.iter().map(BinaryHeap::capacity)).collect()
    }

    /// Empties all queues; answers with their requests in order of arrival.
    pub(super) fn drain(&mut self) -> Vec<RequestId> {
        let mut all = Vec::new();
        for queue in 0..self.queues() {
            while let Some(id) = self.take(queue, |_| true) {
                all.push((self.links[id.index()].0, id));
            }
        }
        all.sort_unstable();
        all.into_iter().map(|(_, id)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_holds_up_its_own_task_only() {
        let mut waiting = TagWaitQueues::new(2);
        for (task, id) in [(0, 1), (0, 2), (1, 3), (2, 4)] {
            waiting.push(1, task, RequestId(id));
        }
        assert_eq!(waiting.take(1, |id| id.0 > 1), Some(RequestId(3)));
        assert_eq!(waiting.take(1, |_| false), None);
        assert_eq!((waiting.oldest(1), waiting.oldest(0)), (Some(1), None));
        assert_eq!(waiting.take(1, |_| true), Some(RequestId(1)));
        assert_eq!(waiting.take(1, |_| true), Some(RequestId(2)));
        assert!(!waiting.holds(1, 0) && waiting.holds(1, 2) && !waiting.holds(0, 2));
        assert_eq!(waiting.take(1, |_| true), Some(RequestId(4)));
        assert_eq!((waiting.take(1, |_| true), waiting.oldest(1)), (None, None));
    }

    #[test]
    fn a_task_waits_in_several_queues_and_the_drain_is_in_order_of_arrival() {
        let mut waiting = TagWaitQueues::new(3);
        for id in 0..30 {
            waiting.push(id as usize % 3, id % 4, RequestId(id));
        }
        assert!((0..3).all(|queue| (0..4).all(|task| waiting.holds(queue, task))));
        assert_eq!(waiting.drain(), (0..30).map(RequestId).collect::<Vec<_>>());
        assert!((0..3).all(|queue| !waiting.waits(queue)));
        assert!(waiting.by_task.iter().all(|list| *list == NIL));
        assert_eq!(waiting.free.len(), waiting.lists.len());
    }

    #[test]
    fn memory_follows_the_most_that_waited_at_once() {
        let mut waiting = TagWaitQueues::new(2);
        for round in 0..10_000u32 {
            let task = round % 7;
            waiting.push(0, task, RequestId(round % 5));
            waiting.push(1, task, RequestId(5 + round % 5));
            assert!(waiting.take(0, |_| true).is_some() && waiting.take(1, |_| true).is_some());
        }
        assert_eq!((waiting.lists.len(), waiting.by_task.len(), waiting.links.len()), (2, 7, 10));
    }
}
