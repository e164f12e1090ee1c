//! Tasks that sleep until there is a request for their I/O, and the worker threads of rings.

use dumbwaiter_block::{Nanos, Submitted, TaskId};
use dumbwaiter_scenario::load::{Mode, ring_workers};

use super::Run;
use super::state::{TaskSleep, Turn};
use crate::events::EventKind;

impl Run<'_> {
    /// A task that submits its I/Os one by one.
    pub(super) fn task_sleep(&mut self, task: TaskId) -> &mut TaskSleep {
        let index = task.0 as usize;
        if index >= self.sleeps.len() {
            self.sleeps.resize_with(index + 1, TaskSleep::default);
        }
        &mut self.sleeps[index]
    }

    /// Lets tasks run that were woken at `at` because a tag was freed or an exchange of the scheduler has ended.
    pub(super) fn wake_tasks(&mut self, at: Nanos) {
        while let Some(id) = self.layer.next_woken() {
            let slot = self.layer.request(id).io.token as u32;
            self.slots[slot as usize].request = Some(id);
            self.resume(slot, at, EventKind::Retry(slot));
        }
        while let Some(token) = self.layer.next_entered() {
            self.resume(token as u32, at, EventKind::Entered(token as u32));
        }
    }

    /// The task that sleeps for the request of this slot gets a CPU.
    fn resume(&mut self, slot: u32, at: Nanos, event: EventKind) {
        let entry = &self.slots[slot as usize];
        let cpu = usize::from(entry.io.cpu);
        let each = !self.threads[entry.thread as usize].running.thread.mode.queues();
        if each && self.turns.exclusive && matches!(event, EventKind::Retry(_)) {
            self.take_turn(cpu, Turn::Resume(slot));
            return;
        }
        let runs = self.host.worker_after_interrupt(cpu, at);
        self.events.push(runs, event);
    }

    /// A task that was woken runs.
    pub(super) fn retry(&mut self, slot: u32) {
        let entry = &self.slots[slot as usize];
        let Some(id) = entry.request else { return };
        let (cpu, thread) = (usize::from(entry.io.cpu), entry.thread as usize);
        let plugged = self.threads[thread].plugged && self.threads[thread].sleeps_for == Some(slot);
        self.layer.run_queue_of(id);
        self.serve();
        match self.layer.retry(self.now, id, plugged.then_some(&mut self.plug)) {
            Submitted::Entered => self.entered(slot),
            _ => {
                self.host.sleep(cpu, self.now);
                if !self.threads[thread].running.thread.mode.queues() {
                    self.release_if_exclusive(cpu);
                }
                self.serve();
            }
        }
    }

    /// A task that slept for a request has it, and goes on.
    pub(super) fn entered(&mut self, slot: u32) {
        let entry = &self.slots[slot as usize];
        let (thread, task) = (entry.thread, entry.io.task);
        if entry.worker {
            self.threads[thread as usize].workers -= 1;
            self.start_workers(thread);
            self.serve();
        } else if self.threads[thread as usize].running.thread.mode.queues() {
            self.threads[thread as usize].sleeps_for = None;
            self.submit_rest(thread, true);
        } else {
            self.task_sleep(task).asleep = false;
            self.wait_for(slot);
            self.submit_behind(task);
            self.serve();
        }
    }

    /// A task that submits one by one may submit its next.
    pub(super) fn submit_behind(&mut self, task: TaskId) {
        let Some(sleep) = self.sleeps.get_mut(task.0 as usize) else { return };
        if sleep.asleep {
            return;
        }
        if let Some(next) = sleep.behind.pop_front() {
            let entry = &mut self.slots[next as usize];
            let cpu = usize::from(entry.io.cpu);
            if self.threads[entry.thread as usize].running.thread.closed {
                entry.submit = self.now;
            }
            self.take_turn(cpu, Turn::Submit(next));
        }
    }

    /// Gives I/Os that would have to sleep to worker threads of the ring, as far as there are any.
    pub(super) fn start_workers(&mut self, thread: u32) {
        let cpus = self.host.cpus();
        let state = &mut self.threads[thread as usize];
        let most = ring_workers(state.running.thread.depth.next_power_of_two(), cpus);
        while state.workers < most
            && let Some(slot) = state.for_workers.pop_front()
        {
            state.workers += 1;
            self.slots[slot as usize].worker = true;
            let at = self.host.worker(usize::from(state.running.thread.cpu), self.now);
            self.events.push(at, EventKind::Work(slot));
        }
    }

    /// A worker thread submits an I/O, and sleeps if it has to.
    pub(super) fn work(&mut self, slot: u32) {
        let io = self.slots[slot as usize].io;
        match self.layer.submit(self.now, io, None) {
            Submitted::Asleep => {
                self.host.sleep(usize::from(io.cpu), self.now);
                self.serve();
            }
            _ => self.entered(slot),
        }
    }

    /// May a thread's I/O sleep in the call that submits it?
    pub(super) fn may_sleep(&self, thread: u32) -> bool {
        self.threads[thread as usize].running.thread.mode != Mode::Ring
    }
}
