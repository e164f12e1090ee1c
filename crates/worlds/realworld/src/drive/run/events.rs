//! Between the threads and the disk: what the disk reports, and when it must come back at the latest.

use dumbwaiter_block::{Errno, Nanos, SECTOR_BYTES};
use dumbwaiter_measure::Completed;
use dumbwaiter_path::{Event, Outcome, RequestFailure};

use super::{CONTROL_POLL_INTERVAL, END_NEAR, Run};
use crate::drive::Error;

impl Run<'_> {
    /// Hands the device what may go now.
    pub(super) fn send(&mut self) -> Result<(), Error> {
        let sent = self.disk.send(&mut self.events);
        sent.map_err(|error| self.broken(error))?;
        self.take_events();
        if self.load.is_open() {
            let layer = self.disk.layer();
            self.recorder.depth(self.now, layer.queued(), layer.in_device());
        }
        Ok(())
    }

    /// Waits until something happens or is due.
    pub(super) fn wait(&mut self) -> Result<(), Error> {
        let deadline = self.deadline();
        let turned = self.disk.turn(deadline, &mut self.events);
        turned.map_err(|error| self.broken(error))?;
        self.now = self.disk.now();
        self.take_events();
        Ok(())
    }

    /// When something happens that the disk does not know of; `now` if at once.
    fn deadline(&mut self) -> Option<Nanos> {
        if self.wakes.has_ready() {
            return Some(self.now);
        }
        let idle = self.disk.layer().in_device() == 0;
        let open = self.load.is_open();
        let near = open && (idle || self.limit.time.since(self.now) < END_NEAR);
        let end = (near && self.limit.time < Nanos::MAX).then_some(self.limit.time);
        let wake = if open { self.wakes.next_wake(&self.load) } else { None };
        let due = [wake, self.load.next_change(), end].into_iter().flatten().min();
        if idle && (due.is_some() || self.disk.layer().next_timer().is_some()) {
            // Completions do not remind the loop to look whether it was cancelled.
            let look = self.now + CONTROL_POLL_INTERVAL;
            return Some(due.map_or(look, |due| due.min(look)));
        }
        due
    }

    /// The threads take their completions, and failures are counted.
    fn take_events(&mut self) {
        if self.events.is_empty() {
            return;
        }
        let mut events = std::mem::take(&mut self.events);
        for event in &events {
            match event {
                Event::Completed { finished, .. } => self.deliver(finished),
                Event::RequestFailed(failure) => self.failed(failure),
                Event::Ready { .. } | Event::Received { .. } | Event::Commanded { .. } | Event::Woken => {}
            }
        }
        events.clear();
        self.events = events;
    }

    fn deliver(&mut self, finished: &dumbwaiter_block::Finished) {
        let (now, io) = (self.now, &finished.io);
        let number = io.token as u32;
        let slot = self.slots[number];
        self.slots.remove(number);
        if self.load.is_open() && finished.result.is_ok() {
            let done = Completed {
                op: io.op,
                task: io.task,
                tenant: io.tenant,
                sector: io.sector,
                bytes: u64::from(io.sectors) * SECTOR_BYTES,
                submit: slot.submit,
                insert: finished.insert,
                issue: finished.issue,
                device_done: now,
                complete: now,
            };
            self.unmeasured.push((done, slot.number));
        }
        if finished.result == Err(Errno::EBUSY) {
            self.load.refused(slot.thread, now);
        }
        self.load.completed(slot.thread, now, slot.number, now.since(slot.submit));
        self.wakes.make_ready(slot.thread);
    }

    #[cold]
    fn failed(&mut self, failure: &RequestFailure) {
        let (why, kind, advice) = match failure.outcome {
            Outcome::Error(errno) => {
                (std::io::Error::from_raw_os_error(errno.0).to_string(), errno.to_string(), advice(errno.0))
            }
            Outcome::Short(moved) => (
                format!("short: {moved} of {} bytes", failure.bytes),
                "short".to_owned(),
                " (the file was cut off, or the medium ends)",
            ),
        };
        *self.failures.entry(kind).or_insert(0) += 1;
        if self.failure.is_none() {
            let meaning = if self.target.disk().is_gone() { " (the device is gone)" } else { advice };
            let at = failure.at();
            self.failure = Some(format!("{} of {} bytes at byte {at}: {why}{meaning}", failure.op, failure.bytes));
        }
        self.stopping |= !self.target.options().keep_going;
    }

    /// An error of the disk, with the target's name. The scheduler's is added by the caller of the run.
    fn broken(&self, error: dumbwaiter_path::Error) -> Error {
        let (target, scheduler) = (self.target.path().display().to_string(), String::new());
        match error {
            dumbwaiter_path::Error::Stalled { queued } => Error::Stalled { target, scheduler, waiting: queued },
            dumbwaiter_path::Error::Fault(fault) => Error::Fault { target, scheduler, fault },
            other => Error::Path(other),
        }
    }
}

/// A hint about an error, beside its text.
fn advice(errno: i32) -> &'static str {
    match errno {
        libc::ENOSPC => " (the file system, or the thin device below, is full)",
        libc::EFBIG => " (a limit on the size of files: `ulimit -f`, or the file system's own)",
        libc::ENODEV | libc::ENXIO => " (the device is gone)",
        libc::EOPNOTSUPP => " (the device or file system cannot do this)",
        libc::ENODATA => " (the medium is bad there: the drive cannot read or write it)",
        libc::EILSEQ => " (the data does not fit its protection information)",
        libc::EINVAL => " (the device does not take this size or position)",
        _ => "",
    }
}
