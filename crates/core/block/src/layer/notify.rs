//! What controllers and the scheduler hear of.

use crate::finished::Finished;
use crate::layer::BlockLayer;
use crate::layer::corridor::Corridor;
use crate::scheduler::Event;
use crate::{Context, Io, Nanos, RequestId};

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

impl BlockLayer {
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

    /// Passes an event on to controllers and scheduler that lets nothing go.
    pub(super) fn notify_scheduler(&mut self, now: Nanos, event: Event) {
        self.controllers_see_event(now, event);
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.scheduler.event(event, &ctx);
    }

    /// Passes an event on to the scheduler and runs its queues.
    pub(super) fn schedule_event(&mut self, now: Nanos, event: Event) {
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.scheduler.event(event, &ctx);
        self.hw.run_all(|hw| self.scheduler.has_work(hw));
    }
}
