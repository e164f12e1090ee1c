//! Merging: an I/O joins a request, a request joins its neighbour.

use crate::Context;
use crate::layer::{BlockLayer, Fault};
use crate::merge::{self, Join, Side};
use crate::plug::Plug;
use crate::request::State;
use crate::scheduler::Merging;
use crate::sequence::Sequence;
use crate::{Flags, Io, Nanos, RequestId};

impl BlockLayer {
    /// Tries to make `io` part of a request that exists; `true` if it is now.
    pub(super) fn try_merge(
        &mut self,
        now: Nanos,
        submitted: Nanos,
        io: &Io,
        parent: RequestId,
        plug: Option<&mut Plug>,
    ) -> bool {
        if self.config.nomerges >= 2 || !io.op.mergeable() || io.flags.any(Flags::NOMERGE) {
            return false;
        }
        if let Some(plug) = plug {
            let reach = if self.traits.single_queue { plug.list.len() } else { 1 };
            for i in (plug.list.len().saturating_sub(reach)..plug.list.len()).rev() {
                let into = plug.list[i];
                let request = &self.requests[into];
                let Some(side) = merge::touching(request, io, &self.config.limits) else { continue };
                if merge::compatible(request, io) && self.join(now, submitted, Join { into, side }, io, parent) {
                    return true;
                }
            }
        }
        self.controllers_see_arrival(now, io);
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
        let found = match self.traits.merging {
            Merging::None => None,
            Merging::Own => self.scheduler.merge(io, &self.index, &ctx),
            Merging::Index if self.config.nomerges == 1 => {
                self.index.lookup_cache(io, &ctx).filter(|join| self.scheduler.allow_merge(join.into, io, &ctx))
            }
            Merging::Index => self.scheduler.merge(io, &self.index, &ctx),
        };
        let Some(join) = found else { return false };
        if !self.may_join(join, io) || !self.join(now, submitted, join, io, parent) {
            return false;
        }
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.scheduler.merged(join, &ctx);
        if self.uses_index() {
            self.index.grown(join.into, self.requests[join.into].end());
            self.join_neighbour(now, join);
        }
        true
    }

    /// Does the scheduler hold the request it named, and does `io` belong there?
    fn may_join(&mut self, join: Join, io: &Io) -> bool {
        if !self.expect_state(join.into, State::Queued, Fault::WrongMerge) {
            return false;
        }
        let request = &self.requests[join.into];
        if !merge::touches(request, io, join.side, &self.config.limits) {
            self.set_fault_about(join.into, Fault::WrongMerge);
            return false;
        }
        merge::compatible(request, io)
    }

    /// Grows `join.into` by `io` if the limits allow; else seals it.
    fn join(&mut self, now: Nanos, submitted: Nanos, join: Join, io: &Io, parent: RequestId) -> bool {
        let segments = self.config.limits.segments(io);
        let request = &mut self.requests[join.into];
        if !merge::fits(request, io.sector, io.sectors, segments, &self.config.limits) {
            request.sealed = true;
            return false;
        }
        self.controllers_see_merge(now, io, join.into);
        let request = &mut self.requests[join.into];
        request.sectors += io.sectors;
        request.segments = request.segments.saturating_add(segments);
        if join.side == Side::Front {
            request.sector = io.sector;
        }
        let id = self.allocate(submitted, *io);
        self.carried += 1;
        self.requests[id].state = State::Merged;
        self.requests[id].parent = parent;
        self.requests[id].merged = self.requests[join.into].merged;
        self.requests[join.into].merged = id;
        match join.side {
            Side::Front => self.slots.join_parts(id, join.into, join.into),
            Side::Back | Side::Range => self.slots.join_parts(join.into, id, join.into),
        }
        *match join.side {
            Side::Back => &mut self.ledger.merged_back,
            Side::Front => &mut self.ledger.merged_front,
            Side::Range => &mut self.ledger.merged_ranges,
        } += 1;
        true
    }

    /// After a request grew it may touch its neighbour: then the two become one.
    fn join_neighbour(&mut self, now: Nanos, join: Join) {
        let pair = match join.side {
            Side::Back => self.scheduler.latter(join.into).map(|next| (join.into, next)),
            Side::Front => self.scheduler.former(join.into).map(|previous| (previous, join.into)),
            Side::Range => None,
        };
        if let Some((survivor, absorbed)) = pair
            && self.expect_state(survivor, State::Queued, Fault::WrongMerge)
            && self.expect_state(absorbed, State::Queued, Fault::WrongMerge)
            && self.absorb(survivor, absorbed)
        {
            let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
            self.scheduler.absorbed(survivor, absorbed, &ctx);
            self.absorbed_leaves(now, survivor, absorbed);
        }
    }

    /// An arriving request that a queued one ends before: it is appended, again and again (insert-time merge).
    pub(super) fn merge_inserted(&mut self, now: Nanos, id: RequestId) -> bool {
        if self.config.nomerges >= 2
            || !self.requests[id].io.op.mergeable()
            || self.requests[id].sequence != Sequence::NONE
        {
            return false;
        }
        let cached = self.index.cached().filter(|c| self.requests[*c].end() == self.requests[id].sector);
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
        if let Some(survivor) = cached.filter(|c| self.scheduler.allow_merge(*c, &self.requests[id].io, &ctx))
            && self.absorb(survivor, id)
        {
            self.append_on_insert(now, survivor, id);
            return true;
        }
        if self.config.nomerges == 1 {
            return false;
        }
        let mut current = id;
        let mut any = false;
        loop {
            let probe = Io { sector: self.requests[current].sector, ..self.requests[current].io };
            let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
            let found = self.index.ending_at(&probe, &ctx).filter(|s| *s != current);
            let Some(survivor) = found.filter(|s| self.scheduler.allow_merge(*s, &probe, &ctx)) else { break };
            if !self.absorb(survivor, current) {
                break;
            }
            if current == id {
                self.append_on_insert(now, survivor, id);
            } else {
                let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
                self.scheduler.absorbed(survivor, current, &ctx);
                self.absorbed_leaves(now, survivor, current);
            }
            current = survivor;
            any = true;
        }
        any
    }

    /// `id`, not yet in the scheduler, has been appended to `survivor`, which is.
    fn append_on_insert(&mut self, now: Nanos, survivor: RequestId, id: RequestId) {
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.scheduler.merged(Join { into: survivor, side: Side::Back }, &ctx);
        self.absorbed_leaves(now, survivor, id);
    }

    /// Merges the requests that the scheduler wants to send along with its choice into that choice.
    #[inline]
    pub(super) fn join_followers(&mut self, now: Nanos, chosen: RequestId) {
        loop {
            let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
            let Some(next) = self.scheduler.follower(chosen, &ctx) else { return };
            if !self.expect_state(next, State::Queued, Fault::WrongMerge) || !self.absorb(chosen, next) {
                return;
            }
            let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy: false };
            self.scheduler.absorbed(chosen, next, &ctx);
            self.absorbed_leaves(now, chosen, next);
        }
    }

    /// Makes `next` part of `survivor`, both being requests, if rules and limits allow.
    fn absorb(&mut self, survivor: RequestId, next: RequestId) -> bool {
        let other = self.requests[next];
        let request = &self.requests[survivor];
        if !merge::joinable(request, &other)
            || !merge::fits(request, other.sector, other.sectors, other.segments, &self.config.limits)
        {
            return false;
        }
        let request = &mut self.requests[survivor];
        request.sectors += other.sectors;
        request.segments = request.segments.saturating_add(other.segments);
        request.start = request.start.min(other.start);
        // The absorbed one's own list goes behind it, then the whole before the survivor's.
        let mut tail = next;
        while let Some(following) = self.requests[tail].merged.some() {
            tail = following;
        }
        self.requests[tail].merged = self.requests[survivor].merged;
        self.requests[survivor].merged = next;
        self.requests[next].state = State::Merged;
        self.slots.join_parts(survivor, next, survivor);
        self.carried += 1;
        self.ledger.joined += 1;
        true
    }

    /// The absorbed request gives up its tag and its place in the index.
    fn absorbed_leaves(&mut self, now: Nanos, survivor: RequestId, absorbed: RequestId) {
        self.controllers_see_drop(now, absorbed, Some(survivor));
        self.index.remove(absorbed);
        self.index.grown(survivor, self.requests[survivor].end());
        self.release(absorbed);
    }
}
