//! Fresh tasks: a task that starts, or was quiet for seconds, is preferred within its tenant for a while.

use dumbwaiter_block::Nanos;

use super::queue::Queue;
use super::shares::{NodeId, ROOT};

/// How many times more a fresh task weighs.
pub(super) const WEIGHT_FACTOR: u64 = 100;
/// A task is fresh until it has moved this much (64 MiB)...
const FRESH_SECTORS: u64 = 131_072;
/// ...or for this long...
const FRESH_TIME: Nanos = Nanos::from_secs(15);
/// ...and again after a pause of this length.
pub(super) const QUIET_TIME: Nanos = Nanos::from_secs(2);
/// A task with more requests outstanding is a batch job: it is not preferred meanwhile.
const FRESH_OUTSTANDING: u32 = 4;
/// This many starts in a row are a burst (a service that starts its workers): none of its tasks is preferred.
const BURST_TASKS: usize = 8;
/// Starts of a burst follow each other within this time.
const BURST_GAP: Nanos = Nanos::from_ms(180);

/// Is the task of this queue preferred now?
pub(super) fn is_fresh(queue: &Queue, now: Nanos) -> bool {
    queue.fresh_sectors > 0 && queue.foreground <= FRESH_OUTSTANDING && now.since(queue.fresh_since) <= FRESH_TIME
}

/// The latest starts of tasks, each soon after the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Starts {
    tasks: [NodeId; BURST_TASKS],
    count: usize,
    last: Nanos,
}

impl Default for Starts {
    fn default() -> Self {
        Starts { tasks: [ROOT; BURST_TASKS], count: 0, last: Nanos::ZERO }
    }
}

impl Starts {
    /// A task starts, or comes back after a pause: it is fresh, unless it is part of a burst.
    pub(super) fn started(&mut self, task: NodeId, queues: &mut [Queue], now: Nanos) {
        if now.since(self.last) > BURST_GAP {
            self.count = 0;
        }
        self.last = now;
        let queue = &mut queues[task as usize];
        (queue.fresh_sectors, queue.fresh_since) = (FRESH_SECTORS, now);
        if self.count < BURST_TASKS {
            self.tasks[self.count] = task;
            self.count += 1;
        }
        if self.count == BURST_TASKS {
            for member in self.tasks.into_iter().chain([task]) {
                queues[member as usize].fresh_sectors = 0;
            }
        }
    }

    /// The task has exited; its number may become another's.
    pub(super) fn forget(&mut self, task: NodeId) {
        for member in self.tasks.iter_mut().filter(|t| **t == task) {
            *member = ROOT;
        }
    }
}

/// The place in the order that is kept for a fresh task until its next request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reservation {
    pub(super) task: NodeId,
    /// It lapses then, unless the task has a request outstanding.
    pub(super) until: Nanos,
}
