//! What an I/O asks the controllers on its way to a request.

use std::cmp::Reverse;

use crate::controller::{BioAnswer, RequestAnswer};
use crate::layer::BlockLayer;
use crate::request::{Request, State};
use crate::sequence::Sequence;
use crate::{Context, Errno, Io, Nanos, RequestId};

/// Admission of I/Os by controllers.
impl BlockLayer {
    /// Gives an I/O the priority that controllers want.
    pub(super) fn prioritize(&self, now: Nanos, io: &mut Io) {
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
        for link in &self.corridor.links {
            io.ioprio = link.controller.prioritize(io, &ctx);
        }
    }

    /// Asks the links from `from` on whether an I/O may pass. Answers with the first that does not let it.
    pub(super) fn ask_bio(&mut self, now: Nanos, io: &Io, from: usize) -> Option<(usize, BioAnswer)> {
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
        let links = self.corridor.links.iter_mut().enumerate().skip(from);
        links.map(|(at, link)| (at, link.controller.submit(io, &ctx))).find(|(_, answer)| *answer != BioAnswer::Pass)
    }

    /// An I/O that is submitted asks all controllers. `true`: it passes; else it is parked or refused, and counted.
    pub(super) fn passes_submission(&mut self, now: Nanos, io: &Io) -> bool {
        match self.ask_bio(now, io, 0) {
            None | Some((_, BioAnswer::Pass)) => true,
            Some((_, BioAnswer::Refuse(why))) => {
                self.count_submission(io);
                self.keep_refused(now, *io, why);
                false
            }
            Some((at, BioAnswer::Park)) => {
                self.count_submission(io);
                self.admitted(now, io);
                let id = self.enter(Request { state: State::Parked, ..Request::new(*io, now) });
                self.corridor.wait_mut(id).by_worker = true;
                self.corridor.parked += 1;
                self.park(now, id, at);
                false
            }
        }
    }

    pub(super) fn count_submission(&mut self, io: &Io) {
        self.ledger.submitted += 1;
        self.ledger.sectors_submitted += u64::from(io.sectors);
        self.population.begins(io.task, io.tenant);
    }

    /// An I/O that was refused completes by the next call of [`BlockLayer::finish_idle`].
    fn keep_refused(&mut self, now: Nanos, io: Io, why: Errno) {
        let id = self.enter(Request { state: State::Held, error: Some(why), ..Request::new(io, now) });
        self.ended.refused.push(id);
    }

    /// The rest of an I/O whose front went on, if any, asks the links from `from` on. `false`: it is parked.
    #[inline]
    pub(super) fn rest_passes(
        &mut self,
        now: Nanos,
        parent: RequestId,
        rest: &Io,
        sequence: Sequence,
        from: usize,
    ) -> bool {
        if rest.sectors == 0 || self.corridor.is_empty() {
            return true;
        }
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
        let links = self.corridor.links.iter_mut().enumerate().skip(from);
        let mut answers = links.map(|(at, link)| (at, link.controller.rest_passes(rest, &ctx)));
        let Some((at, _)) = answers.find(|(_, passes)| !passes) else { return true };
        let submitted = self.requests[parent].submit;
        let id = self.enter(Request { state: State::Parked, parent, sequence, ..Request::new(*rest, submitted) });
        self.corridor.wait_mut(id).by_worker = true;
        self.corridor.parked += 1;
        self.park(now, id, at);
        false
    }

    pub(super) fn park(&mut self, now: Nanos, id: RequestId, at: usize) {
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
        let link = &mut self.corridor.links[at];
        let key = link.key;
        link.controller.parked(id, &ctx);
        self.corridor.wait_mut(id).gate = key;
    }
}

/// Requests that ask for a tag.
impl BlockLayer {
    /// A new request asks the controllers, the last one first. `false`: its task sleeps.
    #[inline]
    pub(super) fn passes_request(&mut self, now: Nanos, id: RequestId) -> bool {
        self.corridor.is_empty() || self.ask_request(now, id, self.corridor.links.len())
    }

    /// Asks the links before `end` whether a request may pass, the last one first.
    fn ask_request(&mut self, now: Nanos, id: RequestId, end: usize) -> bool {
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
        for at in (0..end).rev() {
            let link = &mut self.corridor.links[at];
            let (key, mut sleep) = (link.key, 0);
            match link.controller.request(id, &ctx) {
                RequestAnswer::Pass => continue,
                RequestAnswer::Hold => {}
                RequestAnswer::HoldUntil(until) => {
                    self.corridor.sleeps += 1;
                    sleep = self.corridor.sleeps;
                    self.corridor.sleepers.push(Reverse((until.max(now), sleep, id)));
                }
            }
            let wait = self.corridor.wait_mut(id);
            (wait.gate, wait.sleep) = (key, sleep);
            return false;
        }
        true
    }

    /// A request whose task a controller let sleep, and that was woken, asks those that it has not met yet.
    pub(super) fn passes_rest(&mut self, now: Nanos, id: RequestId) -> bool {
        let next = std::mem::take(&mut self.corridor.wait_mut(id).next_gate);
        // One that was removed meanwhile was the next to be asked: those before it are not asked either.
        let end = self.corridor.links.iter().position(|link| link.key == next).map_or(0, |at| at + 1);
        self.ask_request(now, id, end)
    }
}
