//! Hardware queues: what waits to be sent in each, and which are to be served.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use crate::scheduler::QueueMap;
use crate::{Nanos, RequestId};

/// A hardware queue as the block layer sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct HwQueue {
    /// Requests ready to go that the device has not accepted; they precede everything in the scheduler.
    pub(super) ready: VecDeque<RequestId>,
    /// Requests that go straight to the device (scheduler `none`).
    pub(super) direct: VecDeque<RequestId>,
    /// How often the device refused lately: an average, eight times the share (Linux: dispatch_busy).
    pub(super) busy: u32,
    /// Its value before the last request was dispatched, which may come back refused.
    pub(super) busy_before: u32,
    /// A completion must run this queue again.
    pub(super) restart: bool,
    /// It is in `runnable`.
    scheduled: bool,
    /// It is being served.
    running: bool,
    /// It was busy when its run began, or has sent what the device refused before.
    pub(super) in_turn: bool,
    /// When an unwilling scheduler is asked again.
    pub(super) rerun_at: Option<Nanos>,
}

impl HwQueue {
    pub(super) fn note_busy(&mut self, busy: bool) {
        if busy || self.busy > 0 {
            self.busy = (7 * self.busy + if busy { 16 } else { 0 }) / 8;
        }
    }

    /// Its run begins, or goes on.
    pub(super) fn begin_run(&mut self) {
        if !std::mem::replace(&mut self.running, true) {
            self.in_turn = self.busy > 0;
        }
    }
}

/// All hardware queues.
#[derive(Clone, Debug)]
pub(super) struct HwQueues {
    queues: Vec<HwQueue>,
    /// The hardware queue of each CPU.
    map: QueueMap,
    /// A request could not be sent because the device had no place: the next completion runs all hardware queues.
    pub(super) starved: bool,
    /// The hardware queue that was the first when several were run.
    first: usize,
    /// Those to be served.
    pub(super) runnable: VecDeque<u16>,
    /// The first time at which a queue asks an unwilling scheduler again.
    pub(super) rerun_at: Option<Nanos>,
}

impl HwQueues {
    pub(super) fn new(count: u16, map: QueueMap) -> HwQueues {
        HwQueues {
            queues: vec![HwQueue::default(); usize::from(count)],
            map,
            starved: false,
            first: 0,
            runnable: VecDeque::new(),
            rerun_at: None,
        }
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, HwQueue> {
        self.queues.iter_mut()
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> std::slice::Iter<'_, HwQueue> {
        self.queues.iter()
    }

    /// The hardware queue of a CPU.
    #[inline]
    pub(super) fn of(&self, cpu: u16) -> usize {
        if self.queues.len() == 1 { 0 } else { self.map.of(cpu) }
    }

    /// Marks a hardware queue to be served.
    pub(super) fn run(&mut self, hw: usize) {
        if !self.queues[hw].scheduled {
            self.queues[hw].scheduled = true;
            self.runnable.push_back(hw as u16);
        }
    }

    /// The queue that is being served has had its turn.
    pub(super) fn end_run(&mut self) {
        if let Some(hw) = self.runnable.pop_front() {
            self[usize::from(hw)].scheduled = false;
            self[usize::from(hw)].running = false;
        }
    }

    /// Marks the hardware queues that `wants` names, of which each time another one is the first: what it waits for may be enough
    /// for one only.
    fn run_in_turn(&mut self, wants: impl Fn(usize, &mut HwQueue) -> bool) {
        let (queues, before) = (self.queues.len(), self.first);
        let mut first = None;
        for hw in (before + 1..queues).chain(0..(before + 1).min(queues)) {
            if wants(hw, &mut self.queues[hw]) {
                first.get_or_insert(hw);
                self.run(hw);
            }
        }
        self.first = first.unwrap_or(if before + 1 < queues { before + 1 } else { 0 });
    }

    /// Marks all hardware queues that have something to send, by themselves or in the scheduler.
    pub(super) fn run_all(&mut self, in_scheduler: impl Fn(usize) -> bool) {
        self.run_in_turn(|hw, queue| !queue.ready.is_empty() || !queue.direct.is_empty() || in_scheduler(hw));
    }

    /// The device may have a place again: those that found none try.
    pub(super) fn run_starved(&mut self, in_scheduler: impl Fn(usize) -> bool) {
        if std::mem::take(&mut self.starved) {
            self.run_all(in_scheduler);
        }
    }

    /// A tag that hardware queues share was freed: those that stopped for one try again.
    pub(super) fn run_others(&mut self, freed: usize) {
        if self.queues.iter().any(|queue| queue.restart) {
            self.run_in_turn(|hw, queue| hw != freed && std::mem::take(&mut queue.restart));
        }
    }

    /// Asks the scheduler again at this time; not by a timer if it is [`Nanos::MAX`], for then only an arrival or a completion helps.
    pub(super) fn rerun(&mut self, hw: usize, at: Nanos) {
        self[hw].rerun_at = (at < Nanos::MAX).then_some(at);
        self.rerun_at = self.rerun_at.into_iter().chain(self[hw].rerun_at).min();
    }

    /// Runs those whose scheduler is to be asked again by `now`.
    pub(super) fn run_due(&mut self, now: Nanos) {
        if self.rerun_at.is_none_or(|t| t > now) {
            return;
        }
        self.rerun_at = None;
        for hw in 0..self.queues.len() {
            match self[hw].rerun_at {
                Some(t) if t <= now => {
                    self[hw].rerun_at = None;
                    self.run(hw);
                }
                Some(t) => self.rerun_at = Some(self.rerun_at.map_or(t, |r| r.min(t))),
                None => {}
            }
        }
    }

    /// No scheduler is waited for any more.
    pub(super) fn forget_reruns(&mut self) {
        self.rerun_at = None;
        for queue in &mut self.queues {
            queue.rerun_at = None;
        }
    }
}

impl Index<usize> for HwQueues {
    type Output = HwQueue;

    #[inline(always)]
    fn index(&self, hw: usize) -> &HwQueue {
        &self.queues[hw]
    }
}

impl IndexMut<usize> for HwQueues {
    #[inline(always)]
    fn index_mut(&mut self, hw: usize) -> &mut HwQueue {
        &mut self.queues[hw]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setup;

    /// What comes back may be enough for one queue: each of those that wait is the first in turn, whatever others do.
    #[test]
    fn queues_that_wait_are_first_in_turn() {
        let setup = Setup { cpus: 6, hw_queues: 6, ..Setup::default() };
        let mut hw = HwQueues::new(6, setup.queue_map());
        let mut firsts = Vec::new();
        for _ in 0..6 {
            for waiting in [0, 1, 4] {
                hw[waiting].restart = true;
            }
            hw.run_others(5);
            firsts.push(hw.runnable[0]);
            while !hw.runnable.is_empty() {
                hw.end_run();
            }
        }
        assert_eq!(firsts, [1, 4, 0, 1, 4, 0]);
        for _ in 0..3 {
            hw.run_all(|queue| queue >= 4);
            firsts.push(hw.runnable[0]);
            assert_eq!(hw.runnable.len(), 2, "those without anything to send are left alone");
            while !hw.runnable.is_empty() {
                hw.end_run();
            }
        }
        assert_eq!(firsts[6..], [4, 5, 4]);
    }
}
