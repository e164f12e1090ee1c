//! From the device: completion entries become completed I/Os and ready descriptors.

use dumbwaiter_block::{Errno, Finished, Io, RequestId};

use super::Disk;
use super::event::{Event, Outcome, RequestFailure};
use super::in_device::InDevice;
use crate::Error;
use crate::user_data::UserData;

impl Disk {
    /// Takes what is completed.
    pub(super) fn reap(&mut self, events: &mut Vec<Event>) -> Result<(), Error> {
        let (done, listeners) = (&mut self.held.done, &mut self.listeners);
        self.rings.reap(|answered, result, more| match answered {
            UserData::Request(id) => done.push((id.0, result)),
            other => listeners.answered(other, result, more),
        });
        self.page_cache.reap(&mut self.held.done);
        let mut done = std::mem::take(&mut self.held.done);
        self.all_sent &= done.is_empty();
        for (id, result) in done.drain(..) {
            self.completed(RequestId(id), result, events);
        }
        self.held.done = done;
        self.deliver(events);
        self.listeners.report(events);
        self.check_fault()
    }

    /// The device answered a request.
    pub(super) fn completed(&mut self, id: RequestId, result: i32, events: &mut Vec<Event>) {
        let now = self.now;
        let held = self.held.take(id);
        let outcome = outcome_of(&held, result);
        self.observe_completion(&held, outcome.is_none());
        self.return_data(id, &held);
        self.scratch.put(held.scratch());
        if matches!(-result, libc::EAGAIN | libc::EINTR) {
            self.layer.requeue(now, id);
            return;
        }
        let result = match outcome {
            Some(outcome) => {
                let failure = RequestFailure { op: held.op, sector: held.sector, bytes: held.bytes, outcome };
                events.push(Event::RequestFailed(failure));
                Err(failure.errno())
            }
            None => {
                self.waiter.served(now, &held);
                Ok(())
            }
        };
        self.layer.complete(now, id, result, &mut self.finished);
    }

    fn observe_completion(&mut self, held: &InDevice, ok: bool) {
        let Some(observer) = &mut self.observer else { return };
        let slot = held.scratch().filter(|_| !held.gathered);
        observer.completed(&held.transfer(), held.mark, ok, self.scratch.bytes(slot, held.bytes));
    }

    /// Hands finished I/Os back to their submitters.
    pub(super) fn deliver(&mut self, events: &mut Vec<Event>) {
        for finished in &self.finished {
            let (token, data) = self.slots.take(finished.io.token as u32);
            let io = Io { token, ..finished.io };
            events.push(Event::Completed { finished: Finished { io, ..*finished }, data });
        }
        self.finished.clear();
    }
}

/// The error in an answer, if there is one.
fn outcome_of(held: &InDevice, result: i32) -> Option<Outcome> {
    match u64::try_from(result) {
        Err(_) => Some(Outcome::Error(Errno(-result))),
        Ok(moved) if held.op.carries_data() && moved != held.bytes => Some(Outcome::Short(moved as u32)),
        Ok(_) => None,
    }
}
