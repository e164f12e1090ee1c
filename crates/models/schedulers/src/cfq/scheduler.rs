//! The calls of the block layer.

use dumbwaiter_block::{
    Context, Event, Io, Join, MergeIndex, Nanos, Next, Place, Replayable, RequestId, Scheduler, Side, Traits, Tunable,
};

use super::queue::{NONE, rank_of};
use super::settings::{self, TUNABLES};
use super::{A_CFQ_TUNABLES, Cfq, RequestState, anticipation};

impl Cfq {
    /// The queue that an arrival would join, if it exists.
    fn queue_of(&self, io: &Io) -> Option<u32> {
        let sync = dumbwaiter_block::Request::new(*io, Nanos::ZERO).sync();
        let q = if sync {
            self.processes.get(io.task.0 as usize)?.queue
        } else {
            let group = self.tenants.get(io.tenant.0 as usize).copied().filter(|g| *g != NONE)?;
            let (group, place) = self.async_place(group, rank_of(io.ioprio));
            self.groups[group as usize].asyncs[place]
        };
        (q != NONE).then_some(q)
    }
}

impl Scheduler for Cfq {
    fn traits(&self) -> Traits {
        Traits { single_queue: true, priority_of_task: true, ..Traits::default() }
    }

    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        if id.index() >= self.entries.len() {
            self.entries.resize(id.index() + 1, RequestState::default());
        }
        match place {
            Place::Tail => self.arrive(id, ctx),
            Place::Head => {
                // A requeued request is still counted with its queue.
                if !self.entries[id.index()].in_flight {
                    self.entries[id.index()] = RequestState::default();
                }
                self.first.push_front(&mut self.links, id);
            }
        }
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        self.rq_queued > 0 || !self.first.is_empty()
    }

    fn next(&mut self, _hw_queue: usize, ctx: &Context<'_>) -> Next {
        match self.first.pop_front(&mut self.links) {
            Some(id) => Next::Dispatch(id),
            None => self.dispatch(ctx),
        }
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        self.done(id, ctx);
        self.rq_queued > 0
    }

    fn issued(&mut self, id: RequestId, ctx: &Context<'_>) {
        self.head = ctx.requests[id].end();
        if let Some(entry) = self.entries.get_mut(id.index()).filter(|e| !e.in_driver) {
            entry.in_driver = true;
            self.in_driver += 1;
        }
    }

    fn requeued(&mut self, id: RequestId, _ctx: &Context<'_>) {
        if let Some(entry) = self.entries.get_mut(id.index()).filter(|e| e.in_driver) {
            entry.in_driver = false;
            self.in_driver -= 1;
        }
    }

    fn merge(&mut self, io: &Io, index: &MergeIndex, ctx: &Context<'_>) -> Option<Join> {
        if let Some(join) = index.lookup(io, ctx)
            && self.allow_merge(join.into, io, ctx)
        {
            return Some(join);
        }
        let q = self.queue_of(io)?;
        let end = io.sector + u64::from(io.sectors);
        let into = self.by_sector.first_from(&self.queues[q as usize].requests, end)?;
        let into = RequestId(into).some().filter(|r| self.by_sector.key(r.0) == end)?;
        dumbwaiter_block::merge::compatible(&ctx.requests[into], io).then_some(Join { into, side: Side::Front })
    }

    /// Only within a queue, so never a synchronous with an asynchronous request.
    fn allow_merge(&self, queued: RequestId, io: &Io, _ctx: &Context<'_>) -> bool {
        self.queued(queued) && self.queue_of(io) == Some(self.entries[queued.index()].queue)
    }

    fn merged(&mut self, join: Join, ctx: &Context<'_>) {
        if join.side != Side::Front || !self.queued(join.into) {
            return;
        }
        let q = self.entries[join.into.index()].queue;
        let queue = &mut self.queues[q as usize];
        self.by_sector.remove(&mut queue.requests, join.into.0);
        self.by_sector.insert(&mut queue.requests, join.into.0, ctx.requests[join.into].sector);
        let next = self.better(self.queues[q as usize].next, join.into.0, self.head, ctx);
        self.queues[q as usize].next = next;
        self.reposition(q);
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        let (mine, other) = (self.entries[survivor.index()], self.entries[absorbed.index()]);
        let q = other.queue;
        if self.queued(survivor) && mine.queue == q {
            let queue = &mut self.queues[q as usize];
            if other.deadline < mine.deadline {
                self.entries[survivor.index()].deadline = other.deadline;
                queue.fifo.remove(&mut self.links, survivor);
                queue.fifo.insert_before(&mut self.links, survivor, absorbed);
            }
            if queue.next == absorbed.0 {
                queue.next = survivor.0;
                self.reposition(q);
            }
        }
        self.take_out(q, absorbed, ctx);
        self.tenant_lost_one(self.queues[q as usize].group);
        let queue = &self.queues[q as usize];
        if queue.is_empty() && q != self.active {
            self.leave_line(q);
            self.release_queue(q);
        }
    }

    fn former(&self, id: RequestId) -> Option<RequestId> {
        self.queued(id).then(|| self.by_sector.previous(id.0))?.map(RequestId)
    }

    fn latter(&self, id: RequestId) -> Option<RequestId> {
        self.queued(id).then(|| self.by_sector.next(id.0))?.map(RequestId)
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        match event {
            Event::Timer if self.idle_timer.is_some_and(|t| t <= ctx.now) => {
                let now = self.clock.count(ctx.now);
                self.idle_timer_fires(now);
            }
            Event::TaskExited(task) => self.task_ends(task, ctx.now),
            Event::TenantAdded(_) => self.tenant_added(ctx),
            Event::TenantChanged(tenant) => self.tenant_changed(tenant, ctx),
            Event::TenantRetired(tenant) => self.tenant_retired(tenant, ctx.now),
            Event::RotationalChanged(rotational) => self.rotational = rotational,
            Event::WriterPaused => {}
            // A task's new priority comes with its next request.
            Event::Timer | Event::TaskAdded(_) | Event::TaskChanged(_) | Event::DepthChanged { .. } => {}
        }
    }

    fn timer(&self) -> Option<Nanos> {
        self.idle_timer
    }

    fn tunables(&self) -> &'static [Tunable] {
        if self.anticipation.is_some() { A_CFQ_TUNABLES } else { TUNABLES }
    }

    fn get(&self, name: &str) -> Option<i128> {
        let own = crate::settings::get(&settings::SETTINGS, &self.set, name);
        own.or_else(|| crate::settings::get(&anticipation::SETTINGS, self.anticipation.as_ref()?, name))
    }

    fn set(&mut self, name: &str, value: i128) {
        crate::settings::set(&settings::SETTINGS, &mut self.set, name, value);
        if let Some(anticipation) = &mut self.anticipation {
            crate::settings::set(&anticipation::SETTINGS, anticipation, name, value);
        }
    }

    fn replayable(&mut self) -> Option<&mut dyn Replayable> {
        Some(self)
    }

    fn describe(&self, ctx: &Context<'_>) -> String {
        let active = match self.queues.get(self.active as usize) {
            Some(q) => format!(
                "active {} group {} class {} level {} queued {} in-flight {}",
                self.active,
                q.group,
                q.class,
                q.level,
                q.requests.len(),
                q.in_flight
            ),
            None => "active none".into(),
        };
        format!(
            "{active}\nqueued {} busy {} sync {} in-flight {} {} ncq {} timer {} now {}",
            self.rq_queued,
            self.busy_queues,
            self.busy_sync,
            self.in_flight[0],
            self.in_flight[1],
            self.depth.tag,
            self.idle_timer.map_or("off".into(), |t| t.to_string()),
            ctx.now
        )
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}

impl Replayable for Cfq {
    fn take(&mut self, id: RequestId, _hw_queue: usize, ctx: &Context<'_>) {
        if self.queued(id) {
            self.force(id, ctx);
        } else {
            self.first.remove(&mut self.links, id);
        }
    }
}
