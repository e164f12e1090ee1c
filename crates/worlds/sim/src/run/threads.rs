//! Threads of a run: submission, batches and completions.

use dumbwaiter_block::{Flags, Io, Nanos, SECTOR_BYTES, Submitted};
use dumbwaiter_measure::{Completed, Unfinished};
use dumbwaiter_scenario::load::lowest_stage;
use dumbwaiter_workloads::{Next, Want};

use super::Run;
use super::state::{Slot, Turn};
use crate::events::EventKind;

/// A batch of more than this many I/Os is plugged (Linux: io_submit, io_uring).
const PLUG_OVER: u32 = 2;

impl Run<'_> {
    /// Starts the lowest stage with unfinished threads, unless it runs already.
    pub(super) fn start_stage(&mut self) {
        let Some(stage) = lowest_stage(self.threads.iter().map(|t| &t.running)) else { return };
        if self.stage == Some(stage) {
            return;
        }
        self.stage = Some(stage);
        for thread in 0..self.threads.len() as u32 {
            if self.threads[thread as usize].running.thread.stage == stage {
                let start = self.threads[thread as usize].running.thread.start;
                self.wake(thread, self.now.max(start));
            }
        }
    }

    pub(super) fn wake(&mut self, thread: u32, at: Nanos) {
        let state = &mut self.threads[thread as usize];
        if at < state.wake_at {
            state.wake_at = at;
            self.events.push(at, EventKind::Wake(thread));
        }
    }

    /// Lets a thread submit up to its queue depth.
    pub(super) fn pump(&mut self, thread: u32) {
        let now = self.now;
        if self.threads[thread as usize].sleeps_for.is_some() {
            return;
        }
        let batch = self.threads[thread as usize].running.thread.mode.batch();
        loop {
            let state = &mut self.threads[thread as usize];
            if !self.open || state.running.done || self.submitted >= self.until.ios {
                break;
            }
            if state.prepared.len() >= batch {
                break;
            }
            if state.running.outstanding >= state.running.thread.depth {
                state.running.late = !state.running.thread.closed;
                break;
            }
            let elsewhere_until = state.running.elsewhere_until;
            if now < elsewhere_until {
                self.wake(thread, elsewhere_until);
                break;
            }
            match state.running.thread.workload.next(now) {
                Next::Issue(want) => {
                    self.issued_late += u64::from(state.running.late);
                    self.ask(thread, want);
                }
                Next::Wait(at) if at < Nanos::MAX => {
                    state.running.late = false;
                    self.wake(thread, at.max(Nanos(now.0 + 1)));
                    break;
                }
                Next::Wait(_) | Next::Done => {
                    state.running.done = true;
                    self.live -= 1;
                    break;
                }
                Next::Blocked => break,
            }
        }
        self.submit_prepared(thread);
        self.may_exit(thread);
    }

    /// The thread submits an I/O: it takes a slot and, alone or in a batch, the CPU.
    pub(super) fn ask(&mut self, thread: u32, want: Want) {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(Slot::default());
                self.slots.len() as u32 - 1
            }
        };
        let running = &mut self.threads[thread as usize].running;
        let mut io = running.ask(self.now, &want, u64::from(slot), &mut self.layer);
        if want.task != 0 {
            io.cpu = (usize::from(want.task) % self.host.cpus()) as u16;
        }
        self.submitted += 1;
        let queues = running.thread.mode.queues();
        self.slots[slot as usize] = Slot { submit: self.now, io, thread, task: want.task, ..Slot::default() };
        if queues {
            self.threads[thread as usize].prepared.push_back(slot);
        } else if self.sleeps.get(io.task.0 as usize).is_some_and(|sleep| sleep.asleep) {
            self.task_sleep(io.task).behind.push_back(slot);
        } else {
            self.take_turn(usize::from(io.cpu), Turn::Submit(slot));
        }
    }

    /// Starts a batch of a ring, unless one is being submitted.
    pub(super) fn submit_prepared(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        if state.prepared.is_empty() || state.issuing > 0 || state.sleeps_for.is_some() || state.reaping || state.rests
        {
            return;
        }
        self.stop_polling(thread);
        let state = &mut self.threads[thread as usize];
        state.issuing = state.prepared.len() as u32;
        let mut more = std::mem::take(&mut state.owed);
        let mut cold = std::mem::take(&mut state.cold);
        if state.running.thread.mode.reaps() == 1 {
            // libaio takes the whole path for each call, and no two loops of a program take equally long.
            cold = true;
            more += self.cpus.vary(self.host.profile.sub);
        }
        state.asleep = false;
        let slots = &self.slots;
        let ops = state.prepared.iter().map(|slot| slots[*slot as usize].io.op);
        let cpu = usize::from(state.running.thread.cpu);
        let (called, arrives) = self.host.submit_batch(cpu, self.now, more, cold, ops);
        if state.running.thread.closed {
            for slot in &state.prepared {
                self.slots[*slot as usize].submit = called;
            }
        }
        self.events.push(arrives, EventKind::IssueBatch(thread));
    }

    pub(super) fn issue(&mut self, slot: u32) {
        let io = self.slots[slot as usize].io;
        if self.sleeps.get(io.task.0 as usize).is_some_and(|sleep| sleep.asleep) {
            self.task_sleep(io.task).behind.push_back(slot);
            self.release_if_exclusive(usize::from(io.cpu));
            return;
        }
        if self.layer.submit(self.now, io, None) == Submitted::Asleep {
            self.task_sleep(io.task).asleep = true;
            self.host.sleep(usize::from(io.cpu), self.now);
            self.release_if_exclusive(usize::from(io.cpu));
        } else {
            self.wait_for(slot);
            self.submit_behind(io.task);
        }
        self.serve();
    }

    pub(super) fn issue_batch(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        state.plugged = state.issuing > PLUG_OVER;
        self.submit_rest(thread, false);
    }

    /// Submits what is left of a batch; `slept`: since the thread slept for the I/O before.
    pub(super) fn submit_rest(&mut self, thread: u32, slept: bool) {
        let may_sleep = self.may_sleep(thread);
        let plugged = self.threads[thread as usize].plugged;
        while self.threads[thread as usize].issuing > 0 {
            let state = &mut self.threads[thread as usize];
            state.issuing -= 1;
            let slot = state.prepared.pop_front().expect("a batch holds what was prepared");
            if slept && state.running.thread.closed {
                self.slots[slot as usize].submit = self.now;
            }
            let io = self.slots[slot as usize].io;
            let flags = if may_sleep { io.flags } else { io.flags.with(Flags::NOWAIT) };
            match self.layer.submit(self.now, Io { flags, ..io }, plugged.then_some(&mut self.plug)) {
                Submitted::Entered => {}
                Submitted::WouldBlock => state.for_workers.push_back(slot),
                Submitted::Asleep => {
                    state.sleeps_for = Some(slot);
                    break;
                }
            }
        }
        if plugged {
            self.layer.unplug(self.now, &mut self.plug);
        }
        if !self.threads[thread as usize].for_workers.is_empty() {
            self.start_workers(thread);
        }
        self.serve();
        let state = &self.threads[thread as usize];
        if state.sleeps_for.is_some() {
            self.host.sleep(usize::from(state.running.thread.cpu), self.now);
            return;
        }
        if state.running.thread.mode.batch() < usize::MAX {
            self.pump(thread);
        }
        self.go_on(thread, true);
    }

    /// The thread submits its next batch, reaps completions, or waits for one; for that it `leaves` a CPU that it has.
    fn go_on(&mut self, thread: u32, leaves: bool) {
        let state = &self.threads[thread as usize];
        if state.issuing > 0 {
            return;
        }
        if !state.ready.is_empty() {
            self.look(thread);
        } else if !state.prepared.is_empty() {
            self.submit_prepared(thread);
        } else {
            self.ring_waits(thread, leaves);
        }
    }

    pub(super) fn look(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        state.reaping = true;
        let at = self.host.look(usize::from(state.running.thread.cpu), self.now);
        self.events.push(at, EventKind::Reap(thread));
    }

    pub(super) fn reap(&mut self, thread: u32) {
        let mut taken = 0;
        let most = self.threads[thread as usize].running.thread.mode.reaps() as u64;
        while taken < most
            && let Some(slot) = self.threads[thread as usize].ready.pop_front()
        {
            self.notify(slot);
            taken += 1;
        }
        let warm = self.host.profile.cpl_warm;
        let state = &mut self.threads[thread as usize];
        state.reaping = false;
        state.owed += warm * (taken - 1u64.min(taken));
        self.pump(thread);
        self.go_on(thread, false);
    }

    /// Records an I/O that its thread could see complete at `complete`.
    pub(super) fn record(&mut self, slot: u32, complete: Nanos) {
        let entry = &self.slots[slot as usize];
        if !self.open || entry.failed {
            return;
        }
        let io = &entry.io;
        let done = Completed {
            op: io.op,
            task: io.task,
            tenant: io.tenant,
            sector: io.sector,
            bytes: u64::from(io.sectors) * SECTOR_BYTES,
            submit: entry.submit,
            insert: entry.insert,
            issue: entry.issue,
            device_done: entry.device_done,
            complete,
        };
        if let Some(period) = &mut self.period {
            period.record(&done, self.layer.queued(), self.layer.in_device());
        }
        self.recorder.record(&done);
    }

    /// Records what is unfinished at the end.
    pub(super) fn record_unfinished(&mut self, end: Nanos) {
        let mut waits = vec![true; self.slots.len()];
        for slot in &self.free {
            waits[*slot as usize] = false;
        }
        let closed = |slot: &u32| self.threads[self.slots[*slot as usize].thread as usize].running.thread.closed;
        let prepared = self.threads.iter().flat_map(|state| &state.prepared);
        let behind = self.sleeps.iter().flat_map(|sleep| &sleep.behind);
        // Their latency will count from when the call that submits them reaches them.
        let mut later = vec![false; self.slots.len()];
        for slot in prepared.chain(behind).filter(|slot| closed(slot)) {
            later[*slot as usize] = true;
        }
        for (number, slot) in self.slots.iter().enumerate().filter(|(number, _)| waits[*number]) {
            if slot.posted == Nanos::ZERO {
                let (op, task, tenant) = (slot.io.op, slot.io.task, slot.io.tenant);
                let submit = if later[number] { end } else { slot.submit };
                self.recorder.unfinished(Unfinished { op, task, tenant, submit, end });
            }
        }
    }

    /// Notifies the application of a completion, which is recorded unless that was done, and frees the slot.
    pub(super) fn notify(&mut self, slot: u32) -> u32 {
        let entry = self.slots[slot as usize];
        self.free.push(slot);
        if entry.posted == Nanos::ZERO {
            self.record(slot, self.now);
        }
        let state = &mut self.threads[entry.thread as usize];
        state.running.outstanding -= 1;
        state.running.thread.workload.completed(self.now, entry.task, self.now.since(entry.submit));
        entry.thread
    }
}
