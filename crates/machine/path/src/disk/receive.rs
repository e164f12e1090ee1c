//! From the device: completion entries become completed I/Os and ready descriptors.

use dumbwaiter_block::{Errno, Finished, Io, Nanos, RequestId, SECTOR_BYTES};

use super::Disk;
use super::event::{Event, Outcome, RequestFailure};
use super::in_device::InDevice;
use crate::Error;
use crate::user_data::UserData;

/// The part of a new service time in the mean: one over this.
const SMOOTHING: u64 = 64;

impl Disk {
    /// Takes what is completed.
    pub(super) fn reap(&mut self, events: &mut Vec<Event>) -> Result<(), Error> {
        let (done, watches) = (&mut self.done, &mut self.watches);
        let (receives, commands) = (&mut self.receives, &mut self.commands);
        self.rings.reap(|answered, result, more| match answered {
            UserData::Request(id) => done.push((id.0, result)),
            UserData::Watch { index, generation } => watches.fired(index, generation, result, more),
            UserData::Receive(index) => receives.completed(index, result),
            UserData::Command(index) => commands.completed(index, result),
            UserData::None => {}
        });
        if let Some(writer) = &mut self.writer {
            writer.reap(&mut self.done);
        }
        let mut done = std::mem::take(&mut self.done);
        self.all_sent &= done.is_empty();
        for (id, result) in done.drain(..) {
            self.completed(RequestId(id), result, events);
        }
        self.done = done;
        self.deliver(events);
        self.watches.report(events);
        self.receives.report(events);
        self.commands.report(events);
        self.check_fault()
    }

    /// The device answered a request.
    pub(super) fn completed(&mut self, id: RequestId, result: i32, events: &mut Vec<Event>) {
        let now = self.now;
        let held = self.held[id.index()];
        self.held[id.index()].number = 0;
        let outcome = outcome_of(&held, result);
        self.observe_completion(&held, outcome.is_none());
        if held.gathered {
            for part in self.layer.parts(id) {
                self.slots.returns(part.io.token as u32);
            }
        }
        if let (Some(slot), Some(arena)) = (held.scratch(), &mut self.arena) {
            arena.put(slot);
        }
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
                self.learn(now, &held);
                Ok(())
            }
        };
        self.layer.complete(now, id, result, &mut self.finished);
    }

    /// A request was served in this time.
    fn learn(&mut self, now: Nanos, held: &InDevice) {
        if !held.op.carries_data() {
            return;
        }
        let took = now.since(held.issue);
        self.service = self.service - self.service / SMOOTHING + took.0 / SMOOTHING;
        if let Some(sleeper) = &mut self.sleeper {
            sleeper.completed(now, held.op, (held.bytes / SECTOR_BYTES) as u32, took);
        }
    }

    fn observe_completion(&mut self, held: &InDevice, ok: bool) {
        let Some(observer) = &mut self.observer else { return };
        let data: &[u8] = match (&mut self.arena, held.scratch(), held.gathered) {
            (Some(arena), Some(slot), false) => arena.bytes(slot, held.bytes as usize),
            _ => &[],
        };
        observer.completed(&held.transfer(), held.mark, ok, data);
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
