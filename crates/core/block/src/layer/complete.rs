//! Completion: tags, the flush sequence, and the I/Os that finish with a request.

use crate::Context;
use crate::finished::Finished;
use crate::layer::fault::FailedAttempts;
use crate::layer::{BlockLayer, Fault};
use crate::request::{Request, State};
use crate::scheduler::Place;
use crate::sequence::Sequence;
use crate::{Errno, Nanos, RequestId};

impl BlockLayer {
    /// The device finished request `id` at `now`, with success or an error. Appends every I/O that is finished by it. An `id`
    /// that is not in the device finishes nothing and is a [`Fault`].
    pub fn complete(&mut self, now: Nanos, id: RequestId, result: Result<(), Errno>, out: &mut Vec<Finished>) {
        if !self.expect_state(id, State::Issued, Fault::WrongCompletion) {
            return;
        }
        self.checks.failed_attempts = FailedAttempts::default();
        self.completion = now;
        let hw = self.hw_of(id);
        self.ledger.finished += 1;
        let flushed = self.flush.request == Some(id);
        if !self.traits.direct || flushed {
            self.release_driver_tag(id);
        }
        if flushed {
            self.flush.request = None;
            self.requests.remove(id);
            self.flush_done(now, result, out);
        } else {
            let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
            if self.known_to_scheduler(id) && self.scheduler.complete(id, &ctx) {
                self.hw.run_all(|hw| self.scheduler.has_work(hw));
            }
            self.controllers_see_completion(now, id);
            if self.requests[id].sequence == Sequence::NONE {
                self.release(id);
                self.finish(id, result, out);
            } else {
                self.data_done(now, id, result, out);
            }
        }
        if self.hw[hw].restart {
            self.hw[hw].restart = false;
            self.hw.run(hw);
        }
        if self.tags.drivers.len() == 1 {
            self.hw.run_others(hw);
        }
        self.hw.run_starved(|hw| self.scheduler.has_work(hw));
        if self.some_leave() {
            self.give_up_ids(now);
        }
        if self.exchanges.freeze.is_some() {
            self.end_freeze(now);
        }
        self.settle(now);
    }

    /// Appends I/Os that need nothing from the device: a flush where nothing is volatile, and refused ones.
    pub fn finish_idle(&mut self, now: Nanos, out: &mut Vec<Finished>) {
        self.completion = now;
        self.finish_refused(out);
        out.append(&mut self.ended.dropped);
        while let Some(id) = self.ended.withdrawn.pop() {
            let why = self.requests[id].error.map_or(Ok(()), Err);
            self.release(id);
            self.finish(id, why, out);
        }
        while let Some(id) = self.ended.done_at_once.pop() {
            self.finish(id, Ok(()), out);
        }
        if self.some_leave() {
            self.give_up_ids(now);
        }
        self.settle(now);
    }

    /// Reports the refused I/Os.
    fn finish_refused(&mut self, out: &mut Vec<Finished>) {
        while let Some(id) = self.ended.refused.pop() {
            // One that was parked first had been admitted.
            let admitted = self.corridor.wait(id).by_worker;
            let Request { io, submit, error, .. } = self.requests.remove(id);
            self.ledger.completed += 1;
            self.ledger.rejected += u64::from(!admitted);
            self.ledger.failed += u64::from(admitted);
            self.ledger.sectors_completed += u64::from(io.sectors);
            let result = error.map_or(Ok(()), Err);
            let finished = Finished { io, submit, insert: submit, issue: submit, merged: false, result };
            out.push(finished);
            self.population.ends(io.task, io.tenant);
            if admitted {
                self.controllers_see_end(self.completion, &finished);
            }
        }
    }

    /// Reports a request and all that merged into it, and frees them.
    fn finish(&mut self, id: RequestId, result: Result<(), Errno>, out: &mut Vec<Finished>) {
        let times = (self.requests[id].insert, self.requests[id].issue);
        let mut at = id;
        loop {
            let request = self.requests.remove(at);
            self.carried -= u64::from(at != id);
            self.report(&request, times, at != id, result, out);
            match request.merged.some() {
                Some(next) => at = next,
                None => return,
            }
        }
    }

    /// `times`: when the request that carried it was inserted and issued.
    #[inline]
    fn report(
        &mut self,
        request: &Request,
        times: (Nanos, Nanos),
        merged: bool,
        result: Result<(), Errno>,
        out: &mut Vec<Finished>,
    ) {
        if let Some(parent) = request.parent.some() {
            return self.report_piece(parent, times, result, out);
        }
        let (insert, issue) = times;
        self.ledger.completed += 1;
        self.ledger.failed += u64::from(result.is_err());
        self.ledger.sectors_completed += u64::from(request.io.sectors);
        out.push(Finished { io: request.io, submit: request.submit, insert, issue, merged, result });
        self.population.ends(request.io.task, request.io.tenant);
        if let Some(finished) = out.last() {
            self.controllers_see_end(self.completion, finished);
        }
    }

    /// A piece of `parent` is done, and with the last one the parent.
    fn report_piece(
        &mut self,
        parent: RequestId,
        times: (Nanos, Nanos),
        result: Result<(), Errno>,
        out: &mut Vec<Finished>,
    ) {
        let whole = &mut self.requests[parent];
        whole.pieces -= 1;
        // A whole that fails in part fails with the first error; its times are those of its last piece.
        whole.error = whole.error.or(result.err());
        (whole.insert, whole.issue) = times;
        if whole.pieces == 0 {
            let whole = self.requests.remove(parent);
            self.carried -= 1;
            self.report(&whole, times, false, whole.error.map_or(Ok(()), Err), out);
        }
    }

    /// The flush is done: each request that it served takes its next step.
    fn flush_done(&mut self, now: Nanos, result: Result<(), Errno>, out: &mut Vec<Finished>) {
        let served = std::mem::take(&mut self.flush.running);
        for id in &served {
            let sequence = self.requests[*id].sequence;
            let rest = sequence.rest();
            self.requests[*id].sequence = rest;
            if rest.step() == Some(Sequence::DATA) && result.is_ok() {
                self.flush.data_in_flight += 1;
                self.insert(now, *id, Place::Head, false);
            } else {
                if sequence.step() == Some(Sequence::PRE) {
                    self.controllers_see_drop(now, *id, None);
                }
                self.release(*id);
                self.finish(*id, result, out);
            }
        }
        self.flush.running = served;
        self.flush.running.clear();
        self.start_flush(now);
    }

    /// The data step is done: wait for the flush behind it, or finish.
    fn data_done(&mut self, now: Nanos, id: RequestId, result: Result<(), Errno>, out: &mut Vec<Finished>) {
        self.flush.data_in_flight -= 1;
        let rest = self.requests[id].sequence.rest();
        self.requests[id].sequence = rest;
        if rest.step() == Some(Sequence::POST) && result.is_ok() {
            self.requests[id].state = State::Held;
            let hw = self.hw_of(id);
            self.leave_device(hw, id);
            self.flush.pending.push_back((now, id));
        } else {
            self.release(id);
            self.finish(id, result, out);
        }
        self.start_flush(now);
    }
}
