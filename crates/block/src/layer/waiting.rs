//! Requests that wait for a tag.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::RequestId;

/// Tasks that are asked in turn whether they can use a freed tag.
const TRIES: usize = 8;

/// A line of requests, oldest first. One that may not go yet holds up those of its own task, not those of others:
/// each task sleeps for its own tag.
#[derive(Clone, Debug, Default)]
pub(super) struct TagWaitQueue {
    /// Age of each waiting task's oldest request, and the task.
    heads: BinaryHeap<Reverse<(u64, u32)>>,
    tasks: Vec<VecDeque<(u64, RequestId)>>,
    refused: Vec<Reverse<(u64, u32)>>,
}

impl TagWaitQueue {
    /// Does this task wait?
    pub(super) fn holds(&self, task: u32) -> bool {
        self.tasks.get(task as usize).is_some_and(|own| !own.is_empty())
    }

    /// Age of the oldest.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.heads.peek().map(|head| head.0.0)
    }

    /// To the end.
    pub(super) fn push(&mut self, age: u64, task: u32, id: RequestId) {
        if task as usize >= self.tasks.len() {
            self.tasks.resize(task as usize + 1, VecDeque::new());
        }
        let own = &mut self.tasks[task as usize];
        if own.is_empty() {
            self.heads.push(Reverse((age, task)));
        }
        own.push_back((age, id));
    }

    /// Takes out the oldest that `may` go.
    pub(super) fn take(&mut self, mut may: impl FnMut(RequestId) -> bool) -> Option<RequestId> {
        let mut found = None;
        while found.is_none()
            && self.refused.len() < TRIES
            && let Some(head) = self.heads.pop()
        {
            let own = &mut self.tasks[head.0.1 as usize];
            found = own.front().map(|first| first.1).filter(|id| may(*id));
            if found.is_none() {
                self.refused.push(head);
                continue;
            }
            own.pop_front();
            if let Some((age, _)) = own.front() {
                self.heads.push(Reverse((*age, head.0.1)));
            }
        }
        self.heads.extend(self.refused.drain(..));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_go_holds_up_its_own_task_only() {
        let mut line = TagWaitQueue::default();
        for (age, task) in [(1, 0), (2, 0), (3, 1), (4, 2)] {
            line.push(age, task, RequestId(age as u32));
        }
        assert_eq!(line.take(|id| id.0 > 1), Some(RequestId(3)));
        assert_eq!(line.take(|_| false), None);
        assert_eq!(line.oldest(), Some(1));
        assert_eq!(line.take(|_| true), Some(RequestId(1)));
        assert_eq!(line.take(|_| true), Some(RequestId(2)));
        assert!(!line.holds(0) && line.holds(2));
        assert_eq!(line.take(|_| true), Some(RequestId(4)));
        assert_eq!((line.take(|_| true), line.oldest()), (None, None));
    }
}
