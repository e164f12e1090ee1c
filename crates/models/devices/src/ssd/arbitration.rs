//! Round robin over submission queues, one command a turn: how an NVMe controller chooses what it fetches next.

use std::collections::VecDeque;

/// Commands that the controller has not fetched yet, by the hardware queue in which they wait.
#[derive(Debug, Default)]
pub(super) struct Unfetched {
    queues: Vec<VecDeque<u32>>,
    /// The queues that hold commands, the next one first.
    turns: VecDeque<u16>,
    len: u32,
}

impl Unfetched {
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn push(&mut self, queue: u16, task: u32) {
        let index = usize::from(queue);
        if index >= self.queues.len() {
            self.queues.resize_with(index + 1, VecDeque::new);
        }
        if self.queues[index].is_empty() {
            self.turns.push_back(queue);
        }
        self.queues[index].push_back(task);
        self.len += 1;
    }

    /// The oldest command of the queue whose turn it is.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let queue = self.turns.pop_front()?;
        let commands = &mut self.queues[usize::from(queue)];
        let task = commands.pop_front()?;
        if !commands.is_empty() {
            self.turns.push_back(queue);
        }
        self.len -= 1;
        Some(task)
    }
}

#[cfg(test)]
mod tests {
    use dumbwaiter_block::{Nanos, Op, TenantId};

    use super::*;
    use crate::{Command, Submitted};

    /// Of a drive whose controller is full, a read alone in its queue waits for one of the other queue's, not for all of them.
    #[test]
    fn a_command_waits_for_its_queues_turn() {
        let mut drive = crate::load("ssd:980pro-1tb?slots=4").unwrap().build(1);
        let read = |tag: u32, queue: u16| {
            let sector = 8 * 1009 * u64::from(tag);
            Command { tag, op: Op::Read, fua: false, sector, sectors: 8, queue, tenant: TenantId(0) }
        };
        for tag in 0..40 {
            assert_eq!(drive.submit(Nanos::ZERO, &read(tag, 0)), Submitted::Accepted);
        }
        drive.submit(Nanos::ZERO, &read(40, 1));
        let mut done = Vec::new();
        while let Some(at) = drive.next_event() {
            drive.advance(at, &mut done);
        }
        let place = done.iter().position(|completion| completion.tag == 40).unwrap();
        assert!(done.len() == 41 && (4..10).contains(&place), "{place} of {}", done.len());
    }

    #[test]
    fn each_queue_gives_one_command_in_its_turn() {
        let mut unfetched = Unfetched::default();
        for (queue, task) in [(3, 0), (3, 1), (3, 2), (0, 3), (7, 4), (0, 5)] {
            unfetched.push(queue, task);
        }
        assert_eq!(unfetched.len(), 6);
        let mut order: Vec<u32> = (0..3).filter_map(|_| unfetched.pop()).collect();
        // A queue that was empty goes behind those that wait.
        unfetched.push(7, 6);
        order.extend(std::iter::from_fn(|| unfetched.pop()));
        assert_eq!(order, [0, 3, 4, 1, 5, 6, 2]);
        assert_eq!(unfetched.len(), 0);
    }
}
