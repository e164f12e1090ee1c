//! From its tag to the scheduler: flush machine, plug, insert.

use crate::Context;
use crate::layer::BlockLayer;
use crate::plug::Plug;
use crate::request::{Request, State};
use crate::scheduler::Place;
use crate::sequence::Sequence;
use crate::{Io, Nanos, Op, RequestId};

/// Requests that the legacy block layer's plug holds.
const LEGACY_PLUG_REQUESTS: usize = 16;

impl BlockLayer {
    /// The request exists now (it has its tag): flush machine, plug, or insert.
    pub(super) fn admit(&mut self, now: Nanos, id: RequestId, plug: Option<&mut Plug>) {
        self.requests[id].start = now;
        let sequence = self.requests[id].sequence;
        if sequence.has(Sequence::PRE) {
            self.requests[id].state = State::Held;
            self.flush.pending.push_back((now, id));
            self.start_flush(now);
            return;
        }
        if sequence != Sequence::NONE {
            self.flush.data_in_flight += 1;
        }
        match plug {
            Some(plug) => {
                let merging = self.config.nomerges < 2;
                let full = if self.traits.single_queue {
                    plug.len() >= LEGACY_PLUG_REQUESTS
                } else {
                    plug.full(&self.requests, merging)
                };
                if full {
                    self.unplug(now, plug);
                }
                self.requests[id].state = State::Plugged;
                plug.list.push(id);
            }
            None => {
                let idle = self.hw[self.hw_of(id)].busy == 0;
                let straight = idle || (self.config.setup.hw_queues > 1 && self.requests[id].sync());
                self.insert(now, id, Place::Tail, straight);
            }
        }
    }

    /// Sends a flush if one is due.
    pub(super) fn start_flush(&mut self, now: Nanos) {
        if !self.flush.due(now) {
            return;
        }
        let first = self.flush.pending[0].1;
        let io = Io { op: Op::Flush, sector: 0, sectors: 0, ..self.requests[first].io };
        let id = self.enter(Request { state: State::Dispatched, ..Request::new(io, now) });
        self.flush.request = Some(id);
        self.flush.running.extend(self.flush.pending.drain(..).map(|(_, waiter)| waiter));
        self.ledger.flushes += 1;
        let hw = self.hw_of(id);
        self.hw[hw].ready.push_front(id);
        self.hw.run(hw);
    }

    /// The task's batch ends: everything it holds back goes to the scheduler, before that is asked for anything.
    pub fn unplug(&mut self, now: Nanos, plug: &mut Plug) {
        self.flush_plug(now, plug, true);
    }

    /// `straight`: past a scheduler that allows it. Not while the task goes to sleep.
    pub(super) fn flush_plug(&mut self, now: Nanos, plug: &mut Plug, straight: bool) {
        if self.traits.single_queue {
            let requests = &self.requests;
            plug.list.sort_by_key(|id| requests[*id].sector);
        }
        for i in 0..plug.list.len() {
            self.insert(now, plug.list[i], Place::Tail, straight);
        }
        plug.list.clear();
    }

    /// Hands a request to the scheduler, or past one that allows it straight to the device.
    pub(super) fn insert(&mut self, now: Nanos, id: RequestId, place: Place, straight: bool) {
        let hw = self.hw_of(id);
        self.hw.run(hw);
        self.requests[id].insert = now;
        if self.traits.direct && straight {
            self.requests[id].state = State::Dispatched;
            self.slots.note_arrival(id, place, self.exchanges.switches.count);
            self.hw[hw].direct.push_back(id);
            return;
        }
        self.ledger.inserted += 1;
        self.give_to_scheduler(now, id, place);
    }

    /// Hands a request to the scheduler, unless it joins one there.
    pub(super) fn give_to_scheduler(&mut self, now: Nanos, id: RequestId, place: Place) {
        if self.uses_index() && self.merge_inserted(now, id) {
            return;
        }
        let index = self.uses_index() && place == Place::Tail && self.requests[id].io.op.mergeable();
        if index {
            self.index.insert(id, self.requests[id].end());
        }
        self.queue(now, id, place, false);
    }

    /// The scheduler holds the request from now on.
    pub(super) fn queue(&mut self, now: Nanos, id: RequestId, place: Place, busy: bool) {
        self.requests[id].state = State::Queued;
        self.slots.note_arrival(id, place, self.exchanges.switches.count);
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy };
        self.scheduler.insert(id, place, &ctx);
    }
}
