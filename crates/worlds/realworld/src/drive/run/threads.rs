//! The threads of a run: what they submit and when, and how their completions are measured.

use std::cmp::Reverse;

use dumbwaiter_block::{Nanos, Op, SECTOR_BYTES};
use dumbwaiter_measure::{Completed, Unfinished};
use dumbwaiter_path::Data;
use dumbwaiter_scenario::load::lowest_stage;
use dumbwaiter_workloads::{Next, Want};

use super::Run;
use super::slot::Slot;
use crate::drive::Error;
use crate::drive::record::Record;

/// A batch of more than this many I/Os is plugged (Linux: io_submit, io_uring).
const PLUG_OVER: u32 = 2;

impl Run<'_> {
    /// Starts the lowest stage of which a thread has not ended, unless it goes on already.
    pub(super) fn start_stage(&mut self) {
        let Some(stage) = lowest_stage(self.threads.iter().map(|t| &t.running)) else { return };
        if self.stage == Some(stage) {
            return;
        }
        self.stage = Some(stage);
        for thread in 0..self.threads.len() as u32 {
            if self.threads[thread as usize].running.thread.stage == stage {
                let state = &mut self.threads[thread as usize];
                let start = state.running.thread.start;
                state.polled = self.now.max(start);
                if start <= self.now {
                    self.make_ready(thread);
                } else {
                    state.wake_at = start;
                    self.wakes.push(Reverse((start, thread)));
                }
            }
        }
    }

    pub(super) fn make_ready(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        if !std::mem::replace(&mut state.ready, true) {
            self.ready.push(thread);
        }
    }

    /// Threads whose time has come may submit.
    pub(super) fn wake_due(&mut self) {
        while let Some(Reverse((at, thread))) = self.wakes.peek().copied() {
            if at > self.now {
                return;
            }
            self.wakes.pop();
            let state = &mut self.threads[thread as usize];
            if state.wake_at == at {
                state.wake_at = Nanos::MAX;
                self.make_ready(thread);
            }
        }
    }

    /// When the next thread wakes up by itself.
    pub(super) fn next_wake(&mut self) -> Option<Nanos> {
        while let Some(Reverse((at, thread))) = self.wakes.peek().copied() {
            if self.threads[thread as usize].wake_at == at {
                return Some(at);
            }
            self.wakes.pop();
        }
        None
    }

    /// Lets every ready thread submit.
    pub(super) fn pump_ready(&mut self) -> Result<(), Error> {
        // Threads that become ready meanwhile (a stage that starts) come too.
        let mut i = 0;
        while i < self.ready.len() {
            let thread = self.ready[i];
            self.threads[thread as usize].ready = false;
            self.pump(thread)?;
            i += 1;
        }
        self.ready.clear();
        Ok(())
    }

    /// Submits what a thread wants, up to its depth.
    fn pump(&mut self, thread: u32) -> Result<(), Error> {
        let now = self.now;
        let state = &self.threads[thread as usize];
        let plugged =
            state.running.thread.mode.queues() && state.running.thread.depth - state.running.outstanding > PLUG_OVER;
        loop {
            let state = &mut self.threads[thread as usize];
            if !self.open || state.running.done || self.submitted >= self.limit.ios {
                break;
            }
            if state.running.outstanding >= state.running.thread.depth {
                state.running.late = !state.running.thread.closed;
                break;
            }
            let elsewhere_until = state.running.elsewhere_until;
            if now < elsewhere_until {
                if elsewhere_until < state.wake_at {
                    state.wake_at = elsewhere_until;
                    self.wakes.push(Reverse((elsewhere_until, thread)));
                }
                break;
            }
            // An open loop is polled as of the time that it named: its I/O was due then, and the latency counts from
            // there, however late the poll is.
            let at = if state.running.thread.closed || state.running.late { now } else { state.polled.min(now) };
            match state.running.thread.workload.next(at) {
                Next::Issue(want) => {
                    self.issued_late += u64::from(state.running.late);
                    self.submit(thread, want, at, plugged)?;
                }
                Next::Wait(due) if due < Nanos::MAX => {
                    let due = due.max(at + Nanos(1));
                    state.running.late = false;
                    state.polled = due;
                    if due <= now {
                        continue;
                    }
                    if due < state.wake_at {
                        state.wake_at = due;
                        self.wakes.push(Reverse((due, thread)));
                    }
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
        self.disk.unplug();
        self.may_exit(thread);
        Ok(())
    }

    fn submit(&mut self, thread: u32, want: Want, submit: Nanos, plugged: bool) -> Result<(), Error> {
        let want = self.permitted(thread, want)?;
        let token = self.free.pop().unwrap_or(self.slots.len() as u32);
        let io = self.threads[thread as usize].running.ask(self.now, &want, u64::from(token), self.disk.layer_mut());
        let slot = Slot { submit, thread, number: want.task, op: io.op, task: io.task, tenant: io.tenant };
        match self.slots.get_mut(token as usize) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        self.submitted += 1;
        match plugged {
            true => self.disk.submit_plugged(io, Data::Scratch)?,
            false => self.disk.submit(io, Data::Scratch)?,
        }
        Ok(())
    }

    /// The thread's next I/O in whole blocks, if the target allows it.
    fn permitted(&mut self, thread: u32, want: Want) -> Result<Want, Error> {
        let options = self.target.options();
        if !options.allow_writes && !matches!(want.op, Op::Read | Op::Flush) {
            return Err(Error::WritesNotAllowed {
                task: self.task_name(thread),
                op: want.op,
                path: self.target.path().to_owned(),
            });
        }
        let block = u64::from(self.target.facts().logical_block) / SECTOR_BYTES;
        // A block is a power of two.
        if (want.sector | u64::from(want.sectors)) & (block - 1) == 0 {
            return Ok(want);
        }
        if !options.round_out {
            return Err(Error::Unaligned {
                task: self.task_name(thread),
                op: want.op,
                bytes: u64::from(want.sectors) * SECTOR_BYTES,
                at: want.sector * SECTOR_BYTES,
                block: block * SECTOR_BYTES,
                path: self.target.path().to_owned(),
            });
        }
        self.rounded += 1;
        let sector = want.sector / block * block;
        let end = (want.sector + u64::from(want.sectors)).next_multiple_of(block).min(self.target.sectors());
        Ok(Want { sector, sectors: (end - sector) as u32, ..want })
    }

    fn task_name(&self, thread: u32) -> String {
        let task = self.threads[thread as usize].running.thread.task.0 as usize;
        self.task_specs.get(task).map_or_else(String::new, |spec| spec.name.clone())
    }

    /// Measures what finished in this turn.
    pub(super) fn measure(&mut self) {
        for i in 0..self.unmeasured.len() {
            let (done, task) = self.unmeasured[i];
            self.recorder.record(&done);
            self.log(task, &done);
        }
        self.unmeasured.clear();
    }

    fn log(&mut self, task: u16, done: &Completed) {
        let Completed { op, sector, submit, issue, complete, .. } = *done;
        self.write_record(&Record { op, task, sector, bytes: done.bytes as u32, submit, issue, complete });
    }

    /// Counts and logs what is unfinished when the run ends.
    pub(super) fn measure_unfinished(&mut self) {
        let mut waits = vec![true; self.slots.len()];
        for token in &self.free {
            waits[*token as usize] = false;
        }
        for token in (0..waits.len()).filter(|token| waits[*token]) {
            let Slot { submit, number, op, task, tenant, .. } = self.slots[token];
            self.recorder.unfinished(Unfinished { op, task, tenant, submit, end: self.now });
            self.write_record(&Record::unfinished(op, number, submit));
        }
    }

    fn write_record(&mut self, record: &Record) {
        let Some(records) = &mut self.records else { return };
        if let Err(e) = record.write(records) {
            self.failure.get_or_insert_with(|| format!("the log of completed I/Os cannot be written: {e}"));
            self.stopping = true;
        }
    }
}
