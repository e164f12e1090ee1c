//! Who may use a CPU: threads that poll keep it, so others that are bound to it wait their turn.
//!
//! A thread that looks for its completion is not preempted until its time slice is over; one that sleeps first, as in hybrid
//! polling, gives the CPU away until its timer fires.

use std::collections::VecDeque;

use dumbwaiter_block::{Nanos, Op};

use super::Run;
use crate::events::What;
use crate::host::Completion;

/// The kernel's time slice.
const SLICE: Nanos = Nanos(3_000_000);

/// What somebody wants a CPU for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// To submit this I/O and wait for it.
    Submit(u32),
    /// To look for the completion of this I/O after a sleep.
    Look(u32),
}

/// The CPUs' run queues; unused where everybody sleeps for interrupts.
pub(super) struct Turns {
    /// Are turns taken at all?
    pub(super) taken: bool,
    cpus: Vec<Queue>,
    /// Whose thread has just been told of an I/O and may go on at once.
    goes_on: Option<usize>,
}

#[derive(Clone, Default)]
struct Queue {
    used: bool,
    since: Nanos,
    waiting: VecDeque<Turn>,
}

impl Turns {
    pub(super) fn new(completion: Completion, cpus: usize) -> Turns {
        let taken = completion != Completion::Interrupt;
        Turns { taken, cpus: vec![Queue::default(); cpus], goes_on: None }
    }
}

impl Run<'_> {
    /// Somebody wants a CPU: now if nobody has it, else in turn.
    pub(super) fn take_turn(&mut self, cpu: usize, turn: Turn) {
        if self.turns.taken {
            let queue = &mut self.turns.cpus[cpu];
            if self.turns.goes_on == Some(cpu) {
                self.turns.goes_on = None;
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
                // An I/O that waited for the CPU was called when its thread wanted it.
                if closed && entry.submit == self.now {
                    entry.submit = called;
                }
                self.events.push(arrives, What::Issue(slot));
            }
            Turn::Look(slot) => {
                let at = self.host.switch_in(cpu, self.now);
                self.poll_for(slot, at);
            }
        }
    }

    /// The CPU is given away; whoever waits longest gets it.
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

    /// An I/O was handed to the block layer by itself; its thread waits for it.
    pub(super) fn wait_for(&mut self, slot: u32) {
        let io = self.slots[slot as usize].io;
        let cpu = usize::from(io.cpu);
        if !self.turns.taken {
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
        self.events.push(fires, What::Slept(slot));
        self.release(cpu);
    }

    pub(super) fn slept(&mut self, slot: u32) {
        let cpu = usize::from(self.slots[slot as usize].io.cpu);
        self.host.timer(cpu, self.now);
        self.take_turn(cpu, Turn::Look(slot));
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

    /// The device has finished an I/O of a thread that takes turns.
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
        let told = self.host.found(usize::from(io.cpu), at, io.op, slept);
        self.host.learn(self.now, io.op, io.sectors, at.since(issue));
        self.events.push(told, What::Reply(slot));
    }

    /// The application knows of an I/O that it submitted by itself, and goes on while it has the CPU.
    pub(super) fn replied(&mut self, slot: u32) {
        let cpu = usize::from(self.slots[slot as usize].io.cpu);
        let thread = self.told(slot);
        if !self.turns.taken {
            self.pump(thread);
            return;
        }
        let queue = &self.turns.cpus[cpu];
        if !queue.waiting.is_empty() && self.now.since(queue.since) >= SLICE {
            self.release(cpu);
            self.pump(thread);
            return;
        }
        self.turns.goes_on = Some(cpu);
        self.pump(thread);
        if self.turns.goes_on.take().is_some() {
            self.release(cpu);
        }
    }

    /// A ring's thread has nothing to do until something completes. Rings that poll share a CPU as they come: their work is
    /// booked in order, and what is left of the CPU polls. `leaves`: it was at work until now.
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
                    self.events.push(fires, What::Rested(thread));
                }
            }
        }
    }

    /// A ring's thread that slept before it looks.
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

    /// The device has finished an I/O of a ring whose thread waits: when does it know?
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

    /// A ring's thread that looked for completions does something else.
    pub(super) fn stop_looking(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        if std::mem::take(&mut state.polls) {
            self.host.stop_poll(usize::from(state.running.thread.cpu), self.now);
        }
    }
}
