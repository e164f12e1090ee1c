//! Which thread runs on a CPU: one of libaio keeps its CPU until it sleeps, so that it may take several tags in a row, or until
//! it returns to its program after another was woken: that one runs first, and gets the tag for which it was woken.
//!
//! The kernel's order among threads that are woken at about the same moment depends on what each ran before, to the microsecond.
//! Here it is mostly the order in which they were woken, and at random now and then. Without that, loads of constant service time
//! fall into a rhythm in which one thread never gets a tag.

use dumbwaiter_scenario::load::Mode;
use rand::RngExt;

use super::Run;
use super::state::CpuQueues;
use super::turns::SLICE;
use crate::events::EventKind;

/// One choice of the next thread out of so many is at random.
const RANDOM_CHOICE_EVERY: u32 = 4;

impl Run<'_> {
    /// The thread that an event lets run, if threads like it keep their CPU until they sleep.
    pub(super) fn thread_that_runs(&self, event: EventKind) -> Option<u32> {
        let thread = match event {
            EventKind::Wake(thread) | EventKind::Reap(thread) | EventKind::IssueBatch(thread) => thread,
            EventKind::Retry(slot) | EventKind::Entered(slot) => self.slots[slot as usize].thread,
            _ => return None,
        };
        matches!(self.threads[thread as usize].running.thread.mode, Mode::Aio { .. }).then_some(thread)
    }

    /// Has the thread of an event its CPU? If not, it is runnable from now on.
    pub(super) fn has_cpu(&mut self, thread: u32, event: EventKind) -> bool {
        let cpu = usize::from(self.threads[thread as usize].running.thread.cpu);
        let queue = &mut self.cpus.queues[cpu];
        if queue.owner == Some(thread) {
            // The next system call comes after the return from the last one, at which the kernel lets the woken thread run.
            let returned = matches!(event, EventKind::IssueBatch(_));
            if !(returned && std::mem::take(&mut queue.preempted)) {
                return true;
            }
            queue.owner = None;
        } else {
            queue.preempted = queue.owner.is_some();
        }
        queue.runnable.push_back(event);
        if queue.owner.is_none() && !queue.dispatching {
            self.dispatch_later(cpu);
        }
        false
    }

    /// Every thread that is woken at this moment is runnable when the CPU is free.
    fn dispatch_later(&mut self, cpu: usize) {
        self.cpus.queues[cpu].dispatching = true;
        let at = self.host.free_at(cpu).max(self.now);
        self.events.push(at, EventKind::Dispatch(cpu as u32));
    }

    /// A runnable thread gets the CPU.
    pub(super) fn dispatch(&mut self, cpu: u32) {
        let CpuQueues { queues, random } = &mut self.cpus;
        let queue = &mut queues[cpu as usize];
        queue.dispatching = false;
        let chosen = match queue.runnable.len() {
            0 => return,
            1 => 0,
            several if random.random_ratio(1, RANDOM_CHOICE_EVERY) => random.random_range(0..several),
            _ => 0,
        };
        let Some(event) = queue.runnable.remove(chosen) else { return };
        let thread = self.thread_that_runs(event);
        let queue = &mut self.cpus.queues[cpu as usize];
        (queue.owner, queue.since, queue.preempted) = (thread, self.now, false);
        self.happens(event);
    }

    /// If the thread sleeps now, or its time slice is over, the next one gets the CPU.
    pub(super) fn leave_cpu(&mut self, thread: u32) {
        let state = &self.threads[thread as usize];
        let runs = state.sleeps_for.is_none() && (state.issuing > 0 || state.reaping);
        let cpu = usize::from(state.running.thread.cpu);
        let queue = &mut self.cpus.queues[cpu];
        let over = !queue.runnable.is_empty() && self.now.since(queue.since) >= SLICE;
        if queue.owner == Some(thread) && (!runs || over) {
            queue.owner = None;
            if !queue.runnable.is_empty() {
                self.dispatch_later(cpu);
            }
        }
    }
}
