//! The way through the corridor: what I/Os ask, what controllers hear, and what goes on.

use std::cmp::Reverse;

use crate::controller::{Adjustment, BioAnswer, RequestAnswer};
use crate::finished::Finished;
use crate::layer::corridor::Corridor;
use crate::layer::{BlockLayer, Fault};
use crate::request::{Request, State};
use crate::scheduler::Event;
use crate::sequence::Sequence;
use crate::{Context, Errno, Flags, Io, Nanos, Op, RequestId};

/// Calls a hook of every controller, in the order of the chain.
macro_rules! each_controller {
    ($layer:ident, $now:expr, |$controller:ident, $ctx:ident, $out:ident| $call:expr) => {{
        let $ctx = Context { now: $now, requests: &$layer.requests, tenants: &$layer.tenants, busy: false };
        let $ctx = &$ctx;
        let Corridor { links, effects, .. } = &mut $layer.corridor;
        for link in links {
            let ($controller, $out) = (&mut link.controller, &mut *effects);
            $call;
        }
    }};
}

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
    fn ask_bio(&mut self, now: Nanos, io: &Io, from: usize) -> Option<(usize, BioAnswer)> {
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

    fn park(&mut self, now: Nanos, id: RequestId, at: usize) {
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
        let link = &mut self.corridor.links[at];
        let key = link.key;
        link.controller.parked(id, &ctx);
        self.corridor.wait_mut(id).gate = key;
    }

    /// An I/O was submitted and not refused.
    #[inline]
    pub(super) fn admitted(&mut self, now: Nanos, io: &Io) {
        if !self.corridor.is_empty() {
            each_controller!(self, now, |controller, ctx, _out| controller.admitted(io, ctx));
        }
    }

    /// An I/O that all controllers let pass was not submitted after all.
    pub(super) fn withdraw(&mut self, now: Nanos, io: &Io) {
        each_controller!(self, now, |controller, ctx, _out| controller.withdrawn(io, ctx));
    }

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

/// Notifications of controllers.
impl BlockLayer {
    #[inline]
    pub(super) fn controllers_see_arrival(&mut self, now: Nanos, io: &Io) {
        if !self.corridor.is_empty() {
            each_controller!(self, now, |controller, ctx, _out| controller.arrives(io, ctx));
        }
    }

    #[inline]
    pub(super) fn controllers_see_merge(&mut self, now: Nanos, io: &Io, into: RequestId) {
        if !self.corridor.is_empty() {
            each_controller!(self, now, |controller, ctx, out| controller.merged(io, into, ctx, out));
        }
    }

    #[inline]
    pub(super) fn controllers_see_drop(&mut self, now: Nanos, id: RequestId, into: Option<RequestId>) {
        if !self.corridor.is_empty() {
            each_controller!(self, now, |controller, ctx, out| controller.dropped(id, into, ctx, out));
        }
    }

    #[inline]
    pub(super) fn controllers_see_issue(&mut self, now: Nanos, id: RequestId) {
        if !self.corridor.is_empty() && self.flush.request != Some(id) {
            each_controller!(self, now, |controller, ctx, out| controller.issued(id, ctx, out));
        }
    }

    #[inline]
    pub(super) fn controllers_see_completion(&mut self, now: Nanos, id: RequestId) {
        if !self.corridor.is_empty() {
            each_controller!(self, now, |controller, ctx, out| controller.completed(id, ctx, out));
        }
    }

    #[inline]
    pub(super) fn controllers_see_end(&mut self, now: Nanos, io: &Finished) {
        if !self.corridor.is_empty() {
            each_controller!(self, now, |controller, ctx, out| controller.finished(io, ctx, out));
        }
    }

    pub(super) fn controllers_see_event(&mut self, now: Nanos, event: Event) {
        each_controller!(self, now, |controller, ctx, out| controller.event(event, ctx, out));
    }

    pub(super) fn controllers_see_exchange(&mut self, now: Nanos) {
        let traits = self.traits;
        each_controller!(self, now, |controller, ctx, out| controller.exchanged(&traits, ctx, out));
    }

    /// Lets controllers look whose time has come.
    pub(super) fn tick_controllers(&mut self, now: Nanos) {
        each_controller!(self, now, |controller, ctx, out| {
            if controller.timer().is_some_and(|at| at <= now) {
                controller.tick(ctx, out);
            }
        });
    }
}

/// Effects of controllers.
impl BlockLayer {
    /// Carries out what controllers asked for.
    #[inline]
    pub(super) fn settle(&mut self, now: Nanos) {
        if !self.corridor.is_empty() && !self.corridor.effects.is_empty() {
            self.carry_out(now);
        }
    }

    fn carry_out(&mut self, now: Nanos) {
        loop {
            if let Some(id) = self.corridor.effects.released.pop_front() {
                self.release_held(now, id);
            } else if let Some(adjustment) = self.corridor.effects.adjustments.pop_front() {
                self.adjust(now, adjustment);
            } else {
                return;
            }
        }
    }

    /// Wakes the tasks that sleep until now.
    pub(super) fn wake_sleepers(&mut self, now: Nanos) {
        while let Some(Reverse((at, sleep, id))) = self.corridor.sleepers.peek().copied()
            && at <= now
        {
            self.corridor.sleepers.pop();
            // Its controller may have been removed since, which woke it.
            let wait = self.corridor.wait(id);
            if wait.gate != 0 && wait.sleep == sleep {
                self.release_held(now, id);
            }
        }
    }

    /// A controller lets an I/O go on.
    fn release_held(&mut self, now: Nanos, id: RequestId) {
        if self.corridor.wait(id).gate == 0 {
            return self.set_fault_about(id, Fault::WrongRelease);
        }
        let gate = std::mem::take(&mut self.corridor.wait_mut(id).gate);
        let at = self.corridor.position(gate);
        self.go_on(now, id, at + 1, at);
    }

    /// A parked I/O asks the links from `from` on. A task that sleeps wakes up; it will ask those before `before`.
    pub(super) fn go_on(&mut self, now: Nanos, id: RequestId, from: usize, before: usize) {
        match self.requests[id].state {
            State::Parked => self.unpark(now, id, from),
            _ => {
                let next = before.checked_sub(1).and_then(|at| self.corridor.links.get(at));
                let next_gate = next.map_or(0, |link| link.key);
                let wait = self.corridor.wait_mut(id);
                (wait.next_gate, wait.woken) = (next_gate, true);
                self.wake(id);
            }
        }
    }

    fn unpark(&mut self, now: Nanos, id: RequestId, from: usize) {
        let Request { io, submit, parent, sequence, .. } = self.requests[id];
        if let Some(parent) = parent.some() {
            return self.unpark_rest(now, id, parent, sequence, from);
        }
        match self.ask_bio(now, &io, from) {
            Some((at, BioAnswer::Park)) => self.park(now, id, at),
            Some((_, BioAnswer::Refuse(why))) => self.abandon_parked(id, why),
            None | Some((_, BioAnswer::Pass)) => {
                self.corridor.parked -= 1;
                self.requests.remove(id);
                // Nobody waits in a call for it.
                let io = Io { flags: io.flags.without(Flags::NOWAIT).with(Flags::PACED), ..io };
                let nothing_to_flush = io.op == Op::Flush && !self.config.volatile_cache;
                if self.freeze.is_some() && !nothing_to_flush {
                    self.hold_back(submit, io, true);
                } else {
                    self.by_worker = true;
                    self.enter_path(now, submit, io, None);
                    self.by_worker = false;
                }
            }
        }
    }

    /// The rest of a split I/O goes on. What went before it has entered, so that it does not wait for an exchange.
    fn unpark_rest(&mut self, now: Nanos, id: RequestId, parent: RequestId, sequence: Sequence, from: usize) {
        let Request { io, .. } = self.requests[id];
        self.corridor.parked -= 1;
        self.requests.remove(id);
        if self.rest_passes(now, parent, &io, sequence, from) {
            self.by_worker = true;
            self.submit_pieces(now, parent, io, sequence, None);
            self.by_worker = false;
        }
    }

    /// A parked I/O completes with an error, by the next [`BlockLayer::finish_idle`].
    pub(super) fn abandon_parked(&mut self, id: RequestId, why: Errno) {
        self.corridor.parked -= 1;
        let request = &mut self.requests[id];
        request.state = State::Held;
        request.error = Some(why);
        self.refused.push(id);
    }

    fn adjust(&mut self, now: Nanos, adjustment: Adjustment) {
        match adjustment {
            Adjustment::DeviceDepth(depth) => self.set_device_depth(now, depth),
            Adjustment::Weight(id, weight) => {
                if let Some(tenant) = self.tenants.tenant_mut(id)
                    && tenant.weight != weight
                {
                    tenant.weight = weight;
                    self.schedule_event(now, Event::TenantChanged(id));
                }
            }
            Adjustment::Scheduler(scheduler, how) => {
                self.corridor.next_scheduler = Some((scheduler, how));
                self.take_next_scheduler(now);
            }
        }
    }

    /// Begins the exchange that a controller asked for, unless another is under way.
    pub(super) fn take_next_scheduler(&mut self, now: Nanos) {
        if self.freeze.is_none()
            && let Some((scheduler, how)) = self.corridor.next_scheduler.take()
        {
            self.exchange_for(now, scheduler, how);
        }
    }
}
