//! The threads of a run: what they submit and when, and how their completions are measured.

use dumbwaiter_block::{Event, Io, Nanos, Op, SECTOR_BYTES};
use dumbwaiter_measure::{Completed, Unfinished};
use dumbwaiter_path::Data;
use dumbwaiter_scenario::load::{Step, Thread};
use dumbwaiter_workloads::Want;

use super::Run;
use super::slot::Slot;
use crate::drive::Error;
use crate::drive::record::Record;

/// A batch of more than this many I/Os is plugged (Linux: io_submit, io_uring).
const PLUG_OVER: u32 = 2;

impl Run<'_> {
    /// Lets every ready thread submit.
    pub(super) fn pump_ready(&mut self) -> Result<(), Error> {
        // Threads that become ready meanwhile (a stage that starts) come too.
        while let Some(thread) = self.wakes.next_ready() {
            self.pump(thread)?;
        }
        Ok(())
    }

    /// Submits what a thread wants, up to its depth.
    fn pump(&mut self, thread: u32) -> Result<(), Error> {
        let Thread { mode, depth, .. } = *self.load.thread(thread);
        let plugged = mode.queues() && depth - self.load.outstanding(thread) > PLUG_OVER;
        loop {
            match self.load.next(thread, self.now) {
                Step::Submit { want, due } => self.submit(thread, want, due, plugged)?,
                Step::Wake(at) => {
                    self.wakes.wake(thread, at);
                    break;
                }
                Step::Pause(at) => {
                    self.wakes.wake(thread, at);
                    self.disk.layer_mut().event(self.now, Event::WriterPaused);
                    break;
                }
                Step::Wait => break,
            }
        }
        self.disk.unplug();
        self.may_exit(thread);
        Ok(())
    }

    fn submit(&mut self, thread: u32, want: Want, submit: Nanos, plugged: bool) -> Result<(), Error> {
        let want = self.permitted(thread, want)?;
        let (mut io, layer) = (Io::default(), std::slice::from_mut(self.disk.layer_mut()));
        self.slots.insert_with(|token| {
            io = self.load.io(thread, self.now, &want, u64::from(token), layer);
            Slot { submit, thread, number: want.task, op: io.op, task: io.task, tenant: io.tenant }
        });
        match plugged {
            true => self.disk.submit_plugged(io, Data::Scratch)?,
            false => self.disk.submit(io, Data::Scratch)?,
        }
        Ok(())
    }

    /// Makes the changes that are due.
    pub(super) fn change_due(&mut self) {
        while let Some(change) = self.load.due_change(self.now) {
            let layer = std::slice::from_mut(self.disk.layer_mut());
            if let Some(thread) = self.load.change(self.now, change, layer, &mut self.recorder, &mut self.schedulers) {
                self.may_exit(thread);
            }
        }
    }

    /// Tasks of a thread that will submit nothing more exit when all their I/O is done; then the next stage may start.
    fn may_exit(&mut self, thread: u32) {
        let Some(tasks) = self.load.exits(thread) else { return };
        for task in tasks {
            self.disk.layer_mut().event(self.now, Event::TaskExited(*task));
        }
        self.wakes.start_stage(&mut self.load, self.now);
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
        let task = self.load.thread(thread).task.0 as usize;
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
        let unfinished: Vec<Slot> = self.slots.used().map(|(_, slot)| *slot).collect();
        for Slot { submit, number, op, task, tenant, .. } in unfinished {
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
