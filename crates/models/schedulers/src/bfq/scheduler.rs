//! The calls of the block layer.

use dumbwaiter_block::{
    Context, Event, Io, Join, MergeIndex, Nanos, Next, Place, Replayable, RequestId, Scheduler, Side, Traits, Tunable,
};

use super::limits::is_sync;
use super::queue::NONE;
use super::{Bfq, Generation, arrival, settings};

impl Scheduler for Bfq {
    fn traits(&self) -> Traits {
        // Those before mainline are schedulers of the single-queue block layer.
        Traits {
            single_queue: !self.is(Generation::Mainline),
            throttles_writeback: true,
            priority_of_task: true,
            ..Traits::default()
        }
    }

    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        let now = self.time.at(ctx.now);
        match place {
            Place::Tail => self.arrive(id, ctx, now),
            Place::Head => {
                let q = self.queue_of(id, ctx, now);
                self.own(id, q);
                self.requests.push_head(id);
            }
        }
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        self.requests.any()
    }

    fn next(&mut self, _hw_queue: usize, ctx: &Context<'_>) -> Next {
        let now = self.time.at(ctx.now);
        if self.slot.idle_until.is_some_and(|t| t <= now.at) {
            self.idled_out(now);
        }
        self.choose(now)
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        let now = self.time.at(ctx.now);
        if self.requests.get(id).is_none_or(|e| e.queue == NONE) {
            return false;
        }
        self.finish(id, now)
    }

    fn requeued(&mut self, id: RequestId, ctx: &Context<'_>) {
        self.complete(id, ctx);
    }

    fn allow_merge(&self, queued: RequestId, io: &Io, ctx: &Context<'_>) -> bool {
        self.may_join(io, queued, ctx)
    }

    fn merge(&mut self, io: &Io, index: &MergeIndex, ctx: &Context<'_>) -> Option<Join> {
        let join = index.lookup(io, ctx).or_else(|| {
            let process = self.processes.get(io.task.0)?;
            let queue = self.queues.get(process.queue_for(is_sync(io)))?;
            let end = io.sector + u64::from(io.sectors);
            let into = self
                .requests
                .sorted
                .first_from(&queue.sorted, end)
                .filter(|id| self.requests.sorted.key(*id) == end)?;
            let into = RequestId(into);
            dumbwaiter_block::merge::compatible(&ctx.requests[into], io).then_some(Join { into, side: Side::Front })
        })?;
        self.may_join(io, join.into, ctx).then_some(join)
    }

    fn merged(&mut self, join: Join, ctx: &Context<'_>) {
        self.time.at(ctx.now);
        let id = join.into;
        let request = &ctx.requests[id];
        self.requests[id.0].sectors = request.sectors;
        if self.requests[id.0].at_head || join.side != Side::Front {
            return;
        }
        let q = self.requests[id.0].queue;
        let overtakes =
            self.requests.sorted.previous(id.0).is_some_and(|p| self.requests.sorted.key(p) > request.sector);
        let queue = &mut self.queues[q];
        self.requests.sorted.rekey(&mut queue.sorted, id.0, request.sector);
        if !overtakes {
            return;
        }
        if self.consider(q, id) {
            self.fit_budget(q);
            self.move_position(q);
        }
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        let now = self.time.at(ctx.now);
        self.requests[survivor.0].sectors = ctx.requests[survivor].sectors;
        let (mine, other) = (self.requests[survivor.0], self.requests[absorbed.0]);
        if other.at_head {
            self.requests.remove_head(absorbed);
        } else {
            if mine.queue == other.queue && !mine.at_head && other.deadline < mine.deadline {
                self.requests[survivor.0].deadline = other.deadline;
                let fifo = &mut self.queues[mine.queue].fifo;
                fifo.remove(&mut self.requests.links, survivor);
                fifo.insert_before(&mut self.requests.links, survivor, absorbed);
            }
            if mine.queue == other.queue && !mine.at_head && self.queues[other.queue].next == absorbed.0 {
                self.queues[other.queue].next = survivor.0;
                self.move_position(other.queue);
            }
            let sector = self.requests.sorted.key(absorbed.0);
            self.detach(other.queue, absorbed, sector, now);
        }
        self.forget_request(absorbed);
    }

    fn former(&self, id: RequestId) -> Option<RequestId> {
        self.requests.is_sorted(id).then(|| self.requests.sorted.previous(id.0))?.map(RequestId)
    }

    fn latter(&self, id: RequestId) -> Option<RequestId> {
        self.requests.is_sorted(id).then(|| self.requests.sorted.next(id.0))?.map(RequestId)
    }

    fn limit(&self, io: &Io, nr_requests: u32) -> u32 {
        if self.values.on.depth_limits { self.limit_of(io, nr_requests) } else { nr_requests }
    }

    fn smallest_limit(&self, nr_requests: u32) -> u32 {
        if self.values.on.depth_limits { self.device.part_of_slots(3, nr_requests) } else { nr_requests }
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        match event {
            Event::Timer => {
                if let Some(due) = self.slot.idle_until.filter(|t| *t <= ctx.now) {
                    let now = self.time.at(due);
                    self.idled_out(now);
                    self.time.at(ctx.now);
                }
            }
            Event::TaskExited(task) => {
                let now = self.time.at(ctx.now);
                self.task_exited(task.0, now);
            }
            Event::TaskChanged(task) => {
                let q = self.processes.get(task.0).map_or(NONE, |p| p.queue);
                if q != NONE
                    && let Some(own) = ctx.tenants.task(task)
                {
                    let (class, level) = arrival::priority(own.ioprio);
                    self.set_priority(q, class, level);
                }
            }
            Event::TenantAdded(_) => self.tenant_added(ctx),
            Event::TenantChanged(tenant) => self.tenant_changed(tenant, ctx),
            Event::TenantRetired(tenant) => {
                let now = self.time.at(ctx.now);
                self.tenant_retired(tenant, now);
            }
            Event::RotationalChanged(rotational) => self.device.rotational = rotational,
            Event::WriterPaused => {}
            Event::TaskAdded(_) | Event::DepthChanged { .. } => {}
        }
    }

    fn timer(&self) -> Option<Nanos> {
        self.slot.idle_until
    }

    fn tunables(&self) -> &'static [Tunable] {
        settings::tunables(self.constants.generation, self.values.history.is_some())
    }

    fn get(&self, name: &str) -> Option<i128> {
        self.values.get(name)
    }

    fn set(&mut self, name: &str, value: i128) {
        let low_latency = self.values.low_latency;
        if self.get(name) == Some(value) {
            return;
        }
        self.values.set(name, value);
        if low_latency && !self.values.low_latency {
            self.end_all_raises();
        }
        match name {
            "max_budget" if self.values.max_budget > 0 => self.estimate.max_budget = self.values.max_budget,
            "max_budget" => self.retune(),
            "timeout_sync" if self.values.max_budget == 0 => self.retune(),
            "group_double_charge" => self.engine.options_mut().group_double_charge = value != 0,
            "idle_look_in" => self.engine.options_mut().idle_class_look_in = value != 0,
            "group_weights" => {
                for group in self.groups.iter() {
                    if let Some(entity) = group.entity {
                        self.engine.set_weight(entity, self.group_weight(group.weight));
                    }
                }
            }
            _ => {}
        }
    }

    fn replayable(&mut self) -> Option<&mut dyn Replayable> {
        Some(self)
    }

    fn describe(&self, ctx: &Context<'_>) -> String {
        let mut text = format!(
            "tick {}: in service {:?}, waiting until {:?}, {} queued, {} in the driver, hw_tag {}, max budget {}, peak rate {}\n",
            self.time.clock.ticks(ctx.now),
            self.slot.queue,
            self.slot.idle_until.map(|t| t.0),
            self.requests.queued,
            self.device.in_driver,
            self.device.hw_tag,
            self.estimate.max_budget,
            self.estimate.peak.rate
        );
        for (q, queue) in self.queues.live() {
            let entity = self.engine.entity(queue.entity);
            text += &format!(
                "queue {q}: task {} {} {:?} weight {} queued {:?} in flight {} S {} F {} V {} used {} of {} (max {}) busy {} waiting {} short_think {} io_bound {} seeky {} coop {} mean think {:?} injection {:?} raise {:?} deadline tick {} next {}\n",
                queue.task as i32,
                if queue.sync { "sync" } else { "async" },
                entity.class,
                entity.weight,
                queue.queued,
                queue.in_flight,
                entity.start,
                entity.finish,
                self.engine.virtual_time(queue.entity),
                entity.used,
                entity.budget,
                queue.max_budget,
                queue.busy,
                queue.waiting,
                queue.short_think,
                queue.io_bound,
                queue.seek_bits.count_ones(),
                queue.coop,
                queue.think.mean(),
                queue.injection,
                queue.raise,
                queue.budget_deadline,
                queue.next as i32
            );
        }
        text
    }

    fn counters(&self, count: &mut dyn FnMut(&'static str, u64)) {
        self.tally.report(count);
        let ticks = u64::try_from(self.raise_ticks()).unwrap_or(0);
        count("raise_length_ms", ticks * 1000 / self.time.spans.second.max(1));
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}

impl Replayable for Bfq {
    fn take(&mut self, id: RequestId, _hw_queue: usize, ctx: &Context<'_>) {
        let now = self.time.at(ctx.now);
        self.force(id, now);
    }
}

impl Bfq {
    /// Only I/O of a request's own queue may join it.
    fn may_join(&self, io: &Io, into: RequestId, ctx: &Context<'_>) -> bool {
        let sync = is_sync(io);
        if sync && !ctx.requests[into].sync() {
            return false;
        }
        let Some(process) = self.processes.get(io.task.0) else { return false };
        let q = process.queue_for(sync);
        self.requests.get(into).is_some_and(|e| e.queue == q && q != NONE)
    }
}
