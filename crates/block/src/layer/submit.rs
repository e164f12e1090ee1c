//! Submission: split, merge, tag, plug, insert.

use crate::Context;
use crate::flush::sequence_of;
use crate::layer::waiting::{TagWaitQueues, wake_batch};
use crate::layer::{BlockLayer, Fault, Held, Submitted};
use crate::merge::{self, Join, Side};
use crate::plug::Plug;
use crate::request::{Request, State};
use crate::request_tags::RequestTags;
use crate::scheduler::{Merging, Place};
use crate::sequence::Sequence;
use crate::{Flags, Io, Nanos, Op, RequestId};

impl BlockLayer {
    /// A task submits `io` at `now`, within its plug if it has one. If the task [sleeps](Submitted::Asleep), it submits nothing
    /// else before the I/O has its request. An I/O that would miss its [deadline](BlockLayer::set_deadline) is refused: it is finished, with `EBUSY`,
    /// by the next [`BlockLayer::finish_idle`]. An I/O that [may not sleep](Flags::NOWAIT) leaves no trace if it would have to.
    pub fn submit(&mut self, now: Nanos, io: Io, plug: Option<&mut Plug>) -> Submitted {
        let may_sleep = !io.flags.any(Flags::NOWAIT);
        let nothing_to_flush = io.op == Op::Flush && !self.config.volatile_cache;
        if !nothing_to_flush && self.freeze.is_some() {
            if !may_sleep {
                return Submitted::WouldBlock;
            }
            self.count_submission(&io);
            self.admitted(now, &io);
            self.hold_back(now, io);
            if let Some(plug) = plug {
                self.let_go(now, plug, false);
            }
            return Submitted::Asleep;
        }
        if self.refuses(now, &io) {
            self.count_submission(&io);
            self.keep_refused(now, io);
            return Submitted::Entered;
        }
        let outcome = self.enter_path(now, now, io, plug);
        if outcome != Submitted::WouldBlock {
            self.count_submission(&io);
            self.admitted(now, &io);
        }
        outcome
    }

    fn count_submission(&mut self, io: &Io) {
        self.ledger.submitted += 1;
        self.ledger.sectors_submitted += u64::from(io.sectors);
        self.population.begins(io.task, io.tenant);
    }

    /// An I/O submitted at `submitted` enters the path at `now`.
    #[inline(always)]
    pub(super) fn enter_path(&mut self, now: Nanos, submitted: Nanos, io: Io, plug: Option<&mut Plug>) -> Submitted {
        let (sequence, wanted) = sequence_of(io, self.config.volatile_cache, self.config.fua);
        if sequence == Sequence::NONE && io.op == Op::Flush {
            // Nothing is volatile: it is done as soon as it is asked for, on the next poll.
            let id = self.allocate(submitted, wanted);
            self.requests[id].state = State::Held;
            self.done_at_once.push(id);
            return Submitted::Entered;
        }
        if self.config.limits.fitting(&wanted) < wanted.sectors {
            if io.flags.any(Flags::NOWAIT) {
                return Submitted::WouldBlock;
            }
            let parent = self.allocate(submitted, wanted);
            self.requests[parent].state = State::Held;
            self.carried += 1;
            // One more than there are, so that the parent cannot finish while pieces are being made.
            self.requests[parent].pieces = 1;
            return self.submit_pieces(now, parent, wanted, sequence, plug);
        }
        self.submit_one(now, submitted, wanted, sequence, RequestId::NIL, plug)
    }

    /// Cuts pieces from the front of `rest`, the end of `parent`'s I/O; each enters the path before the next is cut.
    fn submit_pieces(
        &mut self,
        now: Nanos,
        parent: RequestId,
        rest: Io,
        sequence: Sequence,
        mut plug: Option<&mut Plug>,
    ) -> Submitted {
        let submitted = self.requests[parent].submit;
        let mut rest = rest;
        while rest.sectors > 0 {
            let sectors = self.config.limits.fitting(&rest);
            let last = sectors == rest.sectors;
            let flags = if last { rest.flags } else { rest.flags.with(Flags::NOMERGE) };
            self.requests[parent].pieces += 1;
            self.ledger.pieces += 1;
            let piece = Io { sectors, flags, ..rest };
            if self.submit_one(now, submitted, piece, sequence, parent, plug.as_deref_mut()) == Submitted::Asleep {
                return Submitted::Asleep;
            }
            rest.sector = rest.sector.saturating_add(u64::from(sectors));
            rest.sectors -= sectors;
        }
        self.requests[parent].pieces -= 1;
        Submitted::Entered
    }

    /// The next request whose task was woken because a tag was freed: the driver lets the task run and calls
    /// [`BlockLayer::run_queue_of`] and [`BlockLayer::retry`]. Only where [tasks sleep](crate::layer::Config::tasks_sleep).
    pub fn next_woken(&mut self) -> Option<RequestId> {
        self.woken.pop_front()
    }

    /// A task that was woken first runs the hardware queue: the driver polls, then calls [`BlockLayer::retry`] (Linux: `blk_mq_get_tag`).
    /// So the scheduler is asked again although nothing arrived, which ends many a wait after it had nothing to send.
    pub fn run_queue_of(&mut self, id: RequestId) {
        if !self.traits.single_queue {
            self.run(self.hw_of(id));
        }
    }

    /// The next I/O, by its token, that entered the path after its task slept through an exchange of the scheduler.
    pub fn next_entered(&mut self) -> Option<u64> {
        self.entered.pop_front()
    }

    /// A task that was woken tries again to get the request `id`. It may have to sleep on, or sleep for the next piece of a split
    /// I/O. An `id` that does not wait for a tag is a [`Fault`].
    pub fn retry(&mut self, now: Nanos, id: RequestId, mut plug: Option<&mut Plug>) -> Submitted {
        if !self.expect_state(id, State::Waiting, Fault::WrongCompletion) {
            return Submitted::Asleep;
        }
        let queue = self.queue_after_sleep(id);
        if !self.take_tag(id) {
            if let Some(plug) = plug {
                self.let_go(now, plug, false);
            }
            let pool = self.pool_of(id);
            let queue = queue.unwrap_or_else(|| self.waiting[pool].next_queue());
            self.waiting[pool].push(id, queue);
            return Submitted::Asleep;
        }
        let Request { parent, sequence, io, .. } = self.requests[id];
        self.admit(now, id, plug.as_deref_mut());
        let Some(parent) = parent.some() else { return Submitted::Entered };
        // Pieces are cut in order, so the one that slept was the last so far.
        let whole = self.requests[parent].io;
        let end = io.sector + u64::from(io.sectors);
        let sectors = (whole.sector + u64::from(whole.sectors) - end) as u32;
        self.submit_pieces(now, parent, Io { sector: end, sectors, ..whole }, sequence, plug)
    }

    /// Lets all tasks that were woken try again at once.
    pub(super) fn retry_woken(&mut self, now: Nanos) {
        for _ in 0..self.woken.len() {
            if let Some(id) = self.woken.pop_front() {
                self.retry(now, id, None);
            }
        }
    }

    fn allocate(&mut self, submitted: Nanos, io: Io) -> RequestId {
        let mut request = Request::new(io, submitted);
        request.segments = self.config.limits.segments(&io);
        let id = self.enter(request);
        self.parts_begin(id);
        id
    }

    /// Gives a request its slot.
    #[inline(always)]
    pub(super) fn enter(&mut self, request: Request) -> RequestId {
        let id = self.requests.insert(request);
        if id.index() >= self.held.len() {
            self.held.resize(id.index() + 1, Held::NONE);
        }
        self.held[id.index()] = Held::NONE;
        id
    }

    fn submit_one(
        &mut self,
        now: Nanos,
        submitted: Nanos,
        io: Io,
        sequence: Sequence,
        parent: RequestId,
        mut plug: Option<&mut Plug>,
    ) -> Submitted {
        if sequence == Sequence::NONE && self.try_merge(now, submitted, &io, parent, plug.as_deref_mut()) {
            return Submitted::Entered;
        }
        let id = self.allocate(submitted, io);
        self.requests[id].parent = parent;
        self.requests[id].sequence = sequence;
        self.requests[id].sealed = sequence != Sequence::NONE;
        if !self.lets_others_first(id) && self.take_tag(id) {
            self.admit(now, id, plug);
            return Submitted::Entered;
        }
        if io.flags.any(Flags::NOWAIT) {
            self.requests.remove(id);
            return Submitted::WouldBlock;
        }
        // Sleeping for a tag lets the plug go first.
        if let Some(plug) = plug {
            self.let_go(now, plug, false);
        }
        if self.config.tasks_sleep {
            self.run_queue_of(id);
        }
        self.wait_for_tag(id);
        Submitted::Asleep
    }

    /// Must it wait behind others although there may be a tag? Only in the single-queue layer, which keeps its slots for those
    /// that wait (Linux up to 4.20: a full queue admits only tasks that were woken).
    fn lets_others_first(&mut self, id: RequestId) -> bool {
        if !self.traits.single_queue {
            return false;
        }
        let pool = self.pool_of(id);
        self.add_pools(pool);
        self.waiting[pool].any() || !self.woken.is_empty()
    }

    /// The task of a request sleeps until a tag is freed.
    fn wait_for_tag(&mut self, id: RequestId) {
        let pool = self.pool_of(id);
        let queue = self.waiting[pool].next_queue();
        self.waiting[pool].push(id, queue);
    }

    /// The wait queue of a task that was woken, should it find no tag. Linux's takes it before it tries, so each sleep takes
    /// up two queues: where tasks sleep again and again they share every second queue, and those that have one for themselves
    /// get more tags.
    fn queue_after_sleep(&mut self, id: RequestId) -> Option<usize> {
        let pool = self.pool_of(id);
        let takes = self.config.tasks_sleep && !self.traits.single_queue;
        takes.then(|| self.waiting[pool].next_queue())
    }

    /// The scheduler's limit for this request. It is asked once, when the request first needs a tag: what its task held then
    /// keeps limiting it while it sleeps.
    fn limit_of(&mut self, id: RequestId) -> u32 {
        let held = &mut self.held[id.index()];
        if held.limit == 0 {
            let io = &self.requests[id].io;
            let nr_requests = self.config.setup.nr_requests;
            let limit = if io.op == Op::Flush { u32::MAX } else { self.scheduler.limit(io, nr_requests).max(1) };
            held.limit = if limit < nr_requests { limit } else { u32::MAX };
        }
        held.limit
    }

    /// A scheduler tag, or under `none` a driver tag.
    fn take_tag(&mut self, id: RequestId) -> bool {
        if self.traits.direct {
            let hw = self.hw_of(id);
            self.held[id.index()].driver_tag = self.hw[hw].take_tag();
            return self.held[id.index()].driver_tag;
        }
        let limit = self.limit_of(id);
        let pool = self.pool_of(id);
        self.add_pools(pool);
        match self.tags[pool].take(limit) {
            Some(tag) => {
                let held = &mut self.held[id.index()];
                (held.tag, held.pool) = (tag, pool as u32);
                true
            }
            None => false,
        }
    }

    /// The scheduler was exchanged while a request waited: it waits in its turn for a tag of the new kind, or tries again if there
    /// may be one.
    pub(super) fn wait_again(&mut self, id: RequestId) {
        let pool = self.pool_of(id);
        self.add_pools(pool);
        let free = if self.traits.direct { self.hw[pool].tag_free() } else { self.tags[pool].has_free() };
        if free {
            self.woken.push_back(id);
        } else {
            self.wait_for_tag(id);
        }
    }

    /// The pool of tags that a request needs one of: that of its hardware queue, where a request takes a driver tag on its way
    /// in; or its tenant's; or the one of all.
    pub(super) fn pool_of(&self, id: RequestId) -> usize {
        if self.traits.direct {
            return self.hw_of(id);
        }
        let request = &self.requests[id];
        let tenant = request.io.tenant.0 as usize;
        if self.traits.single_queue && request.sync() && tenant < self.tenants.tenant_slots() { 1 + tenant } else { 0 }
    }

    /// Makes the pools up to `last`, each with its wait queues.
    pub(super) fn add_pools(&mut self, last: usize) {
        if last >= self.tags.len() {
            self.tags.resize(last + 1, RequestTags::new(self.config.setup.nr_requests));
            self.waiting.resize_with(last + 1, TagWaitQueues::default);
        }
    }

    /// Freed tags that wake as many sleeping tasks at once.
    pub(super) fn wake_batch_now(&self) -> u32 {
        let nr_requests = self.config.setup.nr_requests;
        if self.traits.single_queue {
            1
        } else if self.traits.direct {
            wake_batch(self.hw[0].tags, u32::MAX)
        } else {
            let at_attach = nr_requests.min(2 * self.config.setup.device_depth.clamp(1, 128));
            wake_batch(nr_requests, self.scheduler.smallest_limit(at_attach))
        }
    }

    /// A tag of a pool was freed. No task sleeps on when all tags are free: nobody would wake it.
    pub(super) fn note_freed(&mut self, pool: usize) {
        let Some(waiting) = self.waiting.get_mut(pool).filter(|waiting| waiting.any()) else { return };
        waiting.freed(self.wake_batch, &mut self.woken);
        let used = if self.traits.direct { self.hw[pool].tags_used } else { self.tags[pool].used() };
        if used == 0 && self.woken.is_empty() {
            waiting.wake_all(&mut self.woken);
        }
    }

    /// More tags may be free than one completion gives back.
    pub(super) fn wake_all(&mut self) {
        for waiting in &mut self.waiting {
            waiting.wake_all(&mut self.woken);
        }
    }

    /// The request exists now (it has its tag): flush machine, plug, or insert.
    fn admit(&mut self, now: Nanos, id: RequestId, plug: Option<&mut Plug>) {
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

    /// The task's batch ends: everything it holds back goes to the scheduler, before that is asked for anything.
    pub fn unplug(&mut self, now: Nanos, plug: &mut Plug) {
        self.let_go(now, plug, true);
    }

    /// `straight`: past a scheduler that allows it. Not while the task goes to sleep.
    fn let_go(&mut self, now: Nanos, plug: &mut Plug, straight: bool) {
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
        self.run(hw);
        self.requests[id].insert = now;
        if self.traits.direct && straight {
            self.requests[id].state = State::Dispatched;
            self.note_arrival(id, place);
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
        self.note_arrival(id, place);
        let ctx = Context { now, requests: &self.requests, tenants: &self.tenants, busy };
        self.scheduler.insert(id, place, &ctx);
    }

    fn note_arrival(&mut self, id: RequestId, place: Place) {
        self.arrivals += 1;
        let held = &mut self.held[id.index()];
        held.at_head = place == Place::Head;
        held.owner = self.switches.count as u32;
        held.arrival = self.arrivals;
    }

    /// Tries to make `io` part of a request that exists; `true` if it is now.
    fn try_merge(&mut self, now: Nanos, submitted: Nanos, io: &Io, parent: RequestId, plug: Option<&mut Plug>) -> bool {
        if self.config.nomerges >= 2 || !io.op.mergeable() || io.flags.any(Flags::NOMERGE) {
            return false;
        }
        if let Some(plug) = plug {
            let reach = if self.traits.single_queue { plug.list.len() } else { 1 };
            for i in (plug.list.len().saturating_sub(reach)..plug.list.len()).rev() {
                let into = plug.list[i];
                let request = &self.requests[into];
                let Some(side) = merge::touching(request, io, &self.config.limits) else { continue };
                if merge::compatible(request, io) && self.join(submitted, Join { into, side }, io, parent) {
                    return true;
                }
            }
        }
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
        if !self.may_join(join, io) || !self.join(submitted, join, io, parent) {
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
    fn join(&mut self, submitted: Nanos, join: Join, io: &Io, parent: RequestId) -> bool {
        let segments = self.config.limits.segments(io);
        let request = &mut self.requests[join.into];
        if !merge::fits(request, io.sector, io.sectors, segments, &self.config.limits) {
            request.sealed = true;
            return false;
        }
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
            Side::Front => self.parts_join(id, join.into, join.into),
            Side::Back | Side::Range => self.parts_join(join.into, id, join.into),
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
            self.absorbed_leaves(survivor, absorbed);
        }
    }

    /// An arriving request that a queued one ends before: it is appended, again and again (insert-time merge).
    fn merge_inserted(&mut self, now: Nanos, id: RequestId) -> bool {
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
                self.absorbed_leaves(survivor, current);
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
        self.absorbed_leaves(survivor, id);
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
        self.parts_join(survivor, next, survivor);
        self.carried += 1;
        self.ledger.joined += 1;
        true
    }

    /// The absorbed request gives up its tag and its place in the index.
    fn absorbed_leaves(&mut self, survivor: RequestId, absorbed: RequestId) {
        self.index.remove(absorbed);
        self.index.grown(survivor, self.requests[survivor].end());
        self.release(absorbed);
    }
}

/// Requests that the legacy block layer's plug holds.
const LEGACY_PLUG_REQUESTS: usize = 16;
