//! CPU sharing: a polling thread keeps its CPU, so other threads bound to it wait for their turn.
//!
//! A thread that polls is preempted only at the end of its time slice. In hybrid polling a thread sleeps first and
//! gives the CPU away until its timer fires.

use dumbwaiter_block::{Nanos, Op};

use super::Run;
use super::state::Turn;
use crate::events::EventKind;
use crate::host::Completion;

/// Time slice of the kernel's CPU scheduler.
pub(super) const SLICE: Nanos = Nanos(3_000_000);

impl Run<'_> {
    /// Runs a turn on a CPU: now if it is free, else in FIFO order.
    pub(super) fn take_turn(&mut self, cpu: usize, turn: Turn) {
        if self.turns.exclusive {
            let queue = &mut self.turns.cpus[cpu];
            if self.turns.continuing == Some(cpu) {
                self.turns.continuing = None;
            } else if queue.used {
                queue.waiting.push_back(turn);
                return;
            } else {
                (queue.used, queue.since) = (true, self.now);
            }
        }
        self.begin(cpu, turn);
    }

    fn begin(&mut self, cpu: usize, turn: Turn) {
        match turn {
            Turn::Submit(slot) => {
                let entry = &mut self.slots[slot as usize];
                let closed = self.threads[entry.thread as usize].running.thread.closed;
                let (called, arrives) = self.host.submit(cpu, self.now, entry.io.op, entry.io.sectors, closed);
                // An I/O that waited for the CPU keeps the submission time of its thread.
                if closed && entry.submit == self.now {
                    entry.submit = called;
                }
                self.events.push(arrives, EventKind::Issue(slot));
            }
            Turn::Poll(slot) => {
                let at = self.host.switch_in(cpu, self.now);
                self.poll_for(slot, at);
            }
            Turn::Resume(slot) => {
                let at = self.host.switch_in(cpu, self.now);
                self.events.push(at, EventKind::Retry(slot));
            }
        }
    }

    /// The thread that has the CPU sleeps in the call that submits.
    pub(super) fn release_if_exclusive(&mut self, cpu: usize) {
        if self.turns.exclusive {
            self.release(cpu);
        }
    }

    /// Gives the CPU to the turn that has waited longest.
    fn release(&mut self, cpu: usize) {
        let queue = &mut self.turns.cpus[cpu];
        queue.since = self.now;
        match queue.waiting.pop_front() {
            Some(turn) => {
                if matches!(turn, Turn::Submit(_)) {
                    self.host.sleep(cpu, self.now);
                    self.host.switch_in(cpu, self.now);
                }
                self.begin(cpu, turn);
            }
            None => queue.used = false,
        }
    }

    /// A single I/O was submitted to the block layer; its thread waits for it.
    pub(super) fn wait_for(&mut self, slot: u32) {
        let io = self.slots[slot as usize].io;
        let cpu = usize::from(io.cpu);
        if !self.turns.exclusive {
            self.host.sleep(cpu, self.now);
            return;
        }
        let sleep = self.host.hybrid_sleep(self.now, io.op, io.sectors);
        if sleep == Nanos::ZERO {
            self.poll_for(slot, self.now);
            return;
        }
        self.slots[slot as usize].slept = true;
        let fires = self.host.sleep_for(cpu, self.now, sleep);
        self.events.push(fires, EventKind::Slept(slot));
        self.release(cpu);
    }

    pub(super) fn slept(&mut self, slot: u32) {
        let cpu = usize::from(self.slots[slot as usize].io.cpu);
        self.host.timer(cpu, self.now);
        self.take_turn(cpu, Turn::Poll(slot));
    }

    fn poll_for(&mut self, slot: u32, at: Nanos) {
        let cpu = usize::from(self.slots[slot as usize].io.cpu);
        let from = self.host.start_poll(cpu, at);
        let entry = &mut self.slots[slot as usize];
        entry.polls_from = Some(from);
        if entry.done {
            self.found(slot);
        }
    }

    /// The device has completed an I/O of a thread that takes turns.
    pub(super) fn done_by_device(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        entry.done = true;
        if entry.polls_from.is_some() {
            self.found(slot);
        }
    }

    fn found(&mut self, slot: u32) {
        let entry = &self.slots[slot as usize];
        let at = entry.device_done.max(entry.polls_from.unwrap_or(Nanos::ZERO));
        let (io, issue, slept) = (entry.io, entry.issue, entry.slept);
        let notify = self.host.found(usize::from(io.cpu), at, io.op, slept);
        self.host.learn(self.now, io.op, io.sectors, at.since(issue));
        self.events.push(notify, EventKind::Reply(slot));
    }

    /// The application was notified of a single I/O and continues while it has the CPU.
    pub(super) fn replied(&mut self, slot: u32) {
        let cpu = usize::from(self.slots[slot as usize].io.cpu);
        let thread = self.notify(slot);
        if !self.turns.exclusive {
            self.pump(thread);
            return;
        }
        let queue = &self.turns.cpus[cpu];
        if !queue.waiting.is_empty() && self.now.since(queue.since) >= SLICE {
            self.release(cpu);
            self.pump(thread);
            return;
        }
        self.turns.continuing = Some(cpu);
        self.pump(thread);
        if self.turns.continuing.take().is_some() {
            self.release(cpu);
        }
    }

    /// The thread of a ring waits for a completion. Polling rings share a CPU without turns: their work is
    /// booked in order. `leaves`: the thread has the CPU until now.
    pub(super) fn ring_waits(&mut self, thread: u32, leaves: bool) {
        let state = &mut self.threads[thread as usize];
        let cpu = usize::from(state.running.thread.cpu);
        state.asleep = true;
        let completion = self.host.completion();
        state.cold = completion.sleeps();
        match completion {
            Completion::Interrupt => {
                if leaves {
                    self.host.sleep(cpu, self.now);
                }
            }
            _ if state.running.outstanding == 0 => {}
            Completion::Poll | Completion::Sqpoll => {
                state.polls = true;
                self.host.start_poll(cpu, self.now);
            }
            Completion::Hybrid | Completion::HybridFixed(_) => {
                let sleep = match completion {
                    Completion::HybridFixed(time) => time,
                    _ => state.ring.sleep(),
                };
                state.slept = sleep;
                if sleep == Nanos::ZERO {
                    state.polls = true;
                    self.host.start_poll(cpu, self.now);
                } else {
                    state.asleep = false;
                    state.rests = true;
                    let fires = self.host.sleep_for(cpu, self.now, sleep);
                    self.events.push(fires, EventKind::Rested(thread));
                }
            }
        }
    }

    /// The thread of a ring that slept starts to poll.
    pub(super) fn rested(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        let cpu = usize::from(state.running.thread.cpu);
        state.rests = false;
        self.host.timer(cpu, self.now);
        let at = self.host.switch_in(cpu, self.now);
        if let Some(slot) = state.ready.front() {
            let issue = self.slots[*slot as usize].issue;
            state.ring.record(at.since(issue), state.slept);
            self.look(thread);
        } else if !state.prepared.is_empty() {
            self.submit_prepared(thread);
        } else {
            (state.asleep, state.polls) = (true, true);
            self.host.start_poll(cpu, at);
        }
    }

    /// The device has completed an I/O of a ring whose thread waits; returns the time at which the thread is notified.
    pub(super) fn ring_wakes(&mut self, thread: u32, done: Nanos, op: Op) -> Nanos {
        let state = &mut self.threads[thread as usize];
        let cpu = usize::from(state.running.thread.cpu);
        if !std::mem::take(&mut state.polls) {
            return self.host.interrupt(cpu, done, op);
        }
        if let Some(slot) = state.ready.front() {
            let issue = self.slots[*slot as usize].issue;
            state.ring.record(done.since(issue), state.slept);
        }
        let slept = state.slept > Nanos::ZERO;
        self.host.found(cpu, done, op, slept)
    }

    /// The thread of a ring stops polling.
    pub(super) fn stop_polling(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        if std::mem::take(&mut state.polls) {
            self.host.stop_poll(usize::from(state.running.thread.cpu), self.now);
        }
    }
}
