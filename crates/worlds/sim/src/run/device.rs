//! Dispatch to the device and completions from it.

use dumbwaiter_block::{Errno, Flags, Nanos, RequestId};
use dumbwaiter_devices::{Command, Submitted};

use super::Run;
use crate::events::EventKind;

impl Run<'_> {
    /// Dispatches requests to the device while it accepts them.
    pub(super) fn serve(&mut self) {
        let now = self.now;
        if self.next_cost.is_some() && !self.layer.freezing() {
            self.host.set_scheduler_cost(self.next_cost.take());
        }
        if self.switches != self.layer.switches().count {
            self.switches = self.layer.switches().count;
            self.device.set_class_weights(self.layer.scheduler().class_weights());
        }
        while let Some(id) = self.layer.poll(now) {
            let request = self.layer.request(id);
            let command = Command {
                tag: id.0,
                op: request.io.op,
                fua: request.io.flags.any(Flags::FUA),
                sector: request.sector,
                sectors: request.sectors,
                queue: self.layer.hw_queue(id),
                tenant: request.io.tenant,
            };
            let class = self.layer.scheduler().device_class(id);
            if self.device.submit_in_class(now, &command, class) == Submitted::Busy {
                self.layer.refused(now, id);
            }
        }
        self.layer.finish_idle(now, &mut self.finished);
        self.deliver(now);
        self.wake_tasks(now);
        if self.open {
            self.recorder.depth(now, self.layer.queued(), self.layer.in_device());
        }
        if let Some(at) = self.layer.next_timer()
            && at < self.timer_at
        {
            self.timer_at = at.max(Nanos(now.0 + 1));
            self.events.push(self.timer_at, EventKind::Timer);
        }
    }

    pub(super) fn device_done(&mut self, now: Nanos) {
        let mut completions = std::mem::take(&mut self.completions);
        self.device.advance(now, &mut completions);
        for completion in completions.drain(..) {
            let result = if completion.failed { Err(Errno::EIO) } else { Ok(()) };
            self.layer.complete(completion.at, RequestId(completion.tag), result, &mut self.finished);
            self.send_later(completion.at);
            // Those that sleep for a tag run before the task whose I/O this is submits the next.
            self.wake_tasks(completion.at);
            self.deliver(completion.at);
        }
        self.completions = completions;
        if !self.sends {
            self.serve();
        }
    }

    /// A completion that lets the scheduler send more wakes the kernel's worker, which does so.
    fn send_later(&mut self, done: Nanos) {
        if !self.sends && self.layer.to_send() {
            self.sends = true;
            let at = self.host.worker_after_interrupt(0, done);
            self.events.push(at.max(self.now), EventKind::Send);
        }
    }

    /// Hands completed I/Os to the host, which notifies the threads.
    pub(super) fn deliver(&mut self, done: Nanos) {
        for i in 0..self.finished.len() {
            let finished = self.finished[i];
            let slot = finished.io.token as u32;
            let entry = &mut self.slots[slot as usize];
            entry.insert = finished.insert;
            entry.issue = finished.issue;
            entry.device_done = done;
            entry.failed = finished.result.is_err();
            let (cpu, op) = (usize::from(entry.io.cpu), entry.io.op);
            let thread = entry.thread;
            let state = &mut self.threads[thread as usize];
            if finished.result == Err(Errno::EBUSY) {
                state.running.refused(done);
            }
            match state.running.thread.mode.queues() {
                false if self.turns.exclusive => self.done_by_device(slot),
                false => {
                    let at = self.host.interrupt(cpu, done, op);
                    self.events.push(at, EventKind::Reply(slot));
                }
                true => {
                    let first = state.ready.is_empty();
                    state.ready.push_back(slot);
                    if state.asleep {
                        state.asleep = false;
                        state.reaping = true;
                        let at = self.ring_wakes(thread, done, op);
                        self.events.push(at, EventKind::Reap(thread));
                    } else {
                        self.host.note_completion(cpu, done, op, first);
                        if self.may_sleep(thread) {
                            // The thread is busy, or sleeps for a request, and reaps it later than it could. What a kernel's
                            // thread writes is complete without it.
                            self.slots[slot as usize].posted = done;
                            self.record(slot, done);
                        }
                    }
                }
            }
        }
        self.finished.clear();
    }
}
