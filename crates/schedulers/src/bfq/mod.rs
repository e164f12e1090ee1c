//! `bfq`: one queue a process, each served for a budget of sectors, in shares by weight.
//!
//! A request joins the queue of its process (`arrival`). The queue in service sends its requests in sector order
//! (`dispatch`) until its budget or its time is used up or it runs dry; then `expiry` charges it and sets its next
//! budget, and B-WF2Q+ ([`crate::mechanisms::wf2q`]) says who follows. A queue that runs dry may be waited for
//! (`idling`): the device is kept idle so that a process that reads on keeps its slot; meanwhile others are served in
//! small doses (`injection`). Queues of what seems interactive or soft real-time weigh more for a while (`raising`),
//! unless many start at once (`bursts`). Processes that read next to each other share a queue (`merging`).
//! `rate` measures how much a slot can move; `completion` learns about the device and the processes.
//!
//! Source: Valente, Avanzini 2015 (the generations' story); Linux 6.12 and 6.18 for what is followed.

mod arrival;
mod bursts;
mod completion;
mod dispatch;
mod expiry;
mod idling;
mod injection;
mod merging;
mod queue;
mod raising;
mod rate;
mod settings;

use dumbwaiter_block::{
    Context, Event, Io, Join, MergeIndex, Nanos, Next, Op, Place, RequestId, Scheduler, Setup, Side, TickClock, Tunable,
};

pub use settings::TUNABLES;

use crate::mechanisms::list::{Links, List};
use crate::mechanisms::ordered::Forest;
use crate::mechanisms::wf2q::{Class, Rules as EngineRules, ServiceTree};
use bursts::Burst;
use injection::Sampling;
use queue::{Group, NONE, Process, Queue, QueueId};
use rate::PeakRate;
use settings::{Mechanisms, Values};

/// Largest budget before the device's rate is known, sectors.
const DEFAULT_MAX_BUDGET: u64 = 16384;
/// Requests farther apart are random, sectors; on flash only small ones.
const FAR_SECTORS: u64 = 800;
const SMALL_ON_FLASH: u32 = 64;

/// The time of a call.
#[derive(Clone, Copy, Debug, Default)]
struct Now {
    at: Nanos,
    tick: i64,
}

/// Constants that differ between generations.
#[derive(Clone, Copy, Debug)]
struct Rules {
    weight_per_level: u32,
    default_weight: u32,
    raise_coeff: u32,
    async_charge: u64,
}

impl Rules {
    const MAINLINE: Rules = Rules { weight_per_level: 10, default_weight: 40, raise_coeff: 30, async_charge: 3 };
}

/// What is kept of a request.
#[derive(Clone, Copy, Debug)]
struct Entry {
    queue: QueueId,
    task: u32,
    sectors: u32,
    deadline: Nanos,
    sync: bool,
    meta: bool,
    at_head: bool,
    /// In its queue's order.
    queued: bool,
}

impl Entry {
    const NEW: Entry = Entry {
        queue: NONE,
        task: 0,
        sectors: 0,
        deadline: Nanos::ZERO,
        sync: false,
        meta: false,
        at_head: false,
        queued: false,
    };
}

/// See the module.
#[derive(Clone)]
pub struct Bfq {
    clock: TickClock,
    rotational: bool,
    /// What it was at the start: estimates of the peak rate begin there.
    rotational_at_start: bool,
    /// Flash that queues commands: idling never helps its throughput.
    nonrot_queueing: bool,
    rules: Rules,
    values: Values,
    engine: ServiceTree,
    queues: Vec<Queue>,
    free_queues: Vec<QueueId>,
    processes: Vec<Process>,
    groups: Vec<Group>,
    /// Group of each tenant.
    tenants: Vec<u32>,
    entries: Vec<Entry>,
    links: Links,
    /// Requests by sector, one tree a queue.
    sorted: Forest,
    /// Queues by the sector of their next request, one tree a group.
    positions: Forest,
    /// Requests that go before all others.
    head: List,
    queued_head: u32,

    in_service: Option<QueueId>,
    slot_start: Nanos,
    slot_last_pos: u64,
    idle_until: Option<Nanos>,
    idle_since: Nanos,
    queued: u32,
    in_driver: u32,
    busy: [u32; 3],
    raised_busy: u32,
    /// Weights of un-raised queues that are busy or have requests in flight, ascending, with their numbers.
    weight_counts: Vec<(u64, u32)>,
    groups_pending: u32,
    budgets_assigned: u32,
    max_budget: u64,
    head_pos: u64,
    last_completion: u64,
    last_completed: QueueId,
    /// −1 unknown, 0 the device serves one at a time, 1 it queues.
    hw_tag: i8,
    hw_tag_samples: u32,
    max_in_driver: u32,
    peak: PeakRate,
    burst: Burst,
    sampling: Sampling,
    last_seen: Now,
}

impl Bfq {
    /// A new one.
    pub fn new(setup: Setup) -> Bfq {
        let hz = setup.clock.per_second() as u64;
        Bfq {
            clock: setup.clock,
            rotational: setup.rotational,
            rotational_at_start: setup.rotational,
            nonrot_queueing: !setup.rotational,
            rules: Rules::MAINLINE,
            values: Values::new(&setup.clock, Mechanisms::MAINLINE),
            engine: ServiceTree::new(EngineRules::MAINLINE, hz),
            queues: Vec::new(),
            free_queues: Vec::new(),
            processes: Vec::new(),
            groups: Vec::new(),
            tenants: Vec::new(),
            entries: Vec::new(),
            links: Links::default(),
            sorted: Forest::default(),
            positions: Forest::default(),
            head: List::default(),
            queued_head: 0,
            in_service: None,
            slot_start: Nanos::ZERO,
            slot_last_pos: 0,
            idle_until: None,
            idle_since: Nanos::ZERO,
            queued: 0,
            in_driver: 0,
            busy: [0; 3],
            raised_busy: 0,
            weight_counts: Vec::with_capacity(16),
            groups_pending: 0,
            budgets_assigned: 0,
            max_budget: DEFAULT_MAX_BUDGET,
            head_pos: 0,
            last_completion: 0,
            last_completed: NONE,
            hw_tag: -1,
            hw_tag_samples: 0,
            max_in_driver: 0,
            peak: PeakRate::new(if setup.rotational { 14_000 } else { 33_000 }),
            burst: Burst::default(),
            sampling: Sampling::default(),
            last_seen: Now::default(),
        }
    }

    fn at(&mut self, at: Nanos) -> Now {
        self.last_seen = Now { at, tick: self.clock.ticks(at) };
        self.last_seen
    }

    fn timeout_ms(&self) -> u64 {
        self.values.timeout as u64 * self.clock.period.0 / 1_000_000
    }

    fn busy_total(&self) -> u32 {
        self.busy.iter().sum()
    }

    fn class_of(&self, q: QueueId) -> Class {
        self.engine.entity(self.queues[q as usize].entity).class
    }

    fn wanted_class(&self, q: QueueId) -> Class {
        self.engine.entity(self.queues[q as usize].entity).wanted_class
    }

    /// Is a request far from a position? Position 0 is near to everything.
    fn far(&self, from: u64, sector: u64, sectors: u32) -> bool {
        from != 0 && from.abs_diff(sector) > FAR_SECTORS && (self.rotational || sectors < SMALL_ON_FLASH)
    }

    /// Sectors that a request costs its queue.
    fn cost(&self, q: QueueId, id: u32) -> u64 {
        let queue = &self.queues[q as usize];
        let sectors = u64::from(self.entries[id as usize].sectors);
        if queue.sync || queue.raise.coeff > 1 || self.asymmetric(Some(q)) {
            sectors
        } else {
            sectors * self.rules.async_charge
        }
    }

    /// Charges service to a queue.
    fn account(&mut self, q: QueueId, sectors: u64) {
        let tick = self.last_seen.tick;
        let queue = &mut self.queues[q as usize];
        if queue.served_since_backlogged == 0 {
            queue.first_io = tick;
        }
        if queue.raise.coeff > 1 {
            queue.raise.served += sectors;
        }
        queue.served_since_backlogged += sectors;
        self.engine.charge(queue.entity, sectors);
    }

    /// The queue has work: into the engine and the counters. Its budget is set.
    fn make_busy(&mut self, q: QueueId, now: Now) {
        let queue = &mut self.queues[q as usize];
        let back_shift = std::mem::take(&mut queue.waiting_no_idle);
        let entity = queue.entity;
        queue.busy = true;
        self.engine.at_tick(now.tick);
        self.engine.activate(entity, back_shift);
        let class = self.class_of(q) as usize;
        self.busy[class] += 1;
        let queue = &mut self.queues[q as usize];
        queue.busy_class = class as u8;
        if queue.in_flight == 0 {
            self.set_pending(q, true);
            if self.queues[q as usize].raise.coeff == 1 {
                self.count(q);
            }
        }
        self.recount();
        if self.queues[q as usize].raise.coeff > 1 {
            self.raised_busy += 1;
        }
        self.woke(q);
    }

    /// The queue has no work: out of the counters; the engine is told by the caller.
    fn not_busy(&mut self, q: QueueId) {
        let queue = &mut self.queues[q as usize];
        queue.busy = false;
        self.busy[usize::from(queue.busy_class)] -= 1;
        let (idle, raised) = (queue.in_flight == 0, queue.raise.coeff > 1);
        if idle {
            self.set_pending(q, false);
            self.uncount(q);
        }
        if raised {
            self.raised_busy -= 1;
        }
    }

    fn set_pending(&mut self, q: QueueId, pending: bool) {
        let queue = &mut self.queues[q as usize];
        if queue.pending == pending {
            return;
        }
        queue.pending = pending;
        let group = &mut self.groups[queue.group as usize];
        if pending {
            group.pending += 1;
            self.groups_pending += u32::from(group.pending == 1);
        } else {
            group.pending -= 1;
            self.groups_pending -= u32::from(group.pending == 0);
        }
    }

    fn count(&mut self, q: QueueId) {
        let queue = &mut self.queues[q as usize];
        if queue.counted.is_some() {
            return;
        }
        let weight = self.engine.entity(queue.entity).weight;
        queue.counted = Some(weight);
        match self.weight_counts.binary_search_by_key(&weight, |w| w.0) {
            Ok(i) => self.weight_counts[i].1 += 1,
            Err(i) => self.weight_counts.insert(i, (weight, 1)),
        }
    }

    fn uncount(&mut self, q: QueueId) {
        let Some(weight) = self.queues[q as usize].counted.take() else { return };
        if let Ok(i) = self.weight_counts.binary_search_by_key(&weight, |w| w.0) {
            self.weight_counts[i].1 -= 1;
            if self.weight_counts[i].1 == 0 {
                self.weight_counts.remove(i);
            }
        }
    }

    /// Follows changes of effective weights and classes in the engine.
    fn recount(&mut self) {
        while let Some((entity, _)) = self.engine.take_reweighed() {
            let entity = self.engine.entity(entity);
            let q = entity.owner;
            self.uncount(q);
            if self.queues[q as usize].raise.coeff == 1 {
                self.count(q);
            }
        }
    }

    fn allocate(&mut self, q: QueueId, by: i32) {
        let queue = &mut self.queues[q as usize];
        queue.allocated = queue.allocated.wrapping_add_signed(by);
        let mut at = Some(queue.group);
        while let Some(group) = at {
            let group = &mut self.groups[group as usize];
            group.allocated = group.allocated.wrapping_add_signed(by);
            at = group.parent;
        }
    }

    fn free_if_unused(&mut self, q: QueueId) {
        let queue = &self.queues[q as usize];
        if !queue.live
            || queue.processes > 0
            || queue.allocated > 0
            || queue.held > 0
            || queue.busy
            || self.in_service == Some(q)
        {
            return;
        }
        let (entity, group, merge_into) = (queue.entity, queue.group as usize, queue.merge_into);
        self.set_pending(q, false);
        self.uncount(q);
        self.forget_relations(q);
        self.leave_burst(q);
        if self.queues[q as usize].by_position {
            self.positions.remove(&mut self.groups[group].positions, q);
        }
        if self.groups[group].last_created == q {
            self.groups[group].last_created = NONE;
        }
        self.queues[q as usize].live = false;
        self.engine.remove_leaf(entity);
        self.free_queues.push(q);
        if merge_into != NONE {
            self.queues[merge_into as usize].held -= 1;
            self.free_if_unused(merge_into);
        }
    }

    fn task_exited(&mut self, task: u32, now: Now) {
        let Some(process) = self.processes.get_mut(task as usize) else { return };
        let (q, candidate) = (process.queue, process.stable_candidate);
        let requests = process.requests;
        *process = Process { requests, ..Process::NEW };
        if candidate != NONE {
            self.queues[candidate as usize].held -= 1;
            self.free_if_unused(candidate);
        }
        if q != NONE {
            if self.queues[q as usize].task == task {
                self.queues[q as usize].task = NONE;
            }
            if self.in_service == Some(q)
                && self.queues[q as usize].is_empty()
                && self.queues[q as usize].processes == 1
            {
                self.expire(q, expiry::Reason::NoMoreRequests, false, now);
            }
            self.release(q, now);
        }
    }

    /// Is the queue of this kind of I/O, or a group around it, at its share of `limit` slots?
    fn over_share(&self, io: &Io, sync: bool, limit: u32) -> bool {
        let Some(process) = self.processes.get(io.task.0 as usize) else { return false };
        let q = if sync { process.queue } else { process.async_queue };
        let Some(queue) = self.queues.get(q as usize).filter(|queue| queue.live) else { return false };
        // Shares multiply along the path; from the leaf up each level's own share is what the levels above leave.
        let share = |id| {
            let entity = self.engine.entity(id);
            (entity.weight, self.engine.weights(entity.node).max(entity.weight))
        };
        let mut limit = u64::from(limit);
        let mut groups = [None; 8];
        let (mut depth, mut at) = (0, Some(queue.group));
        while let Some(group) = at.filter(|_| depth < groups.len()) {
            groups[depth] = Some(group);
            depth += 1;
            at = self.groups[group as usize].parent;
        }
        for group in groups[..depth].iter().rev().flatten() {
            let group = &self.groups[*group as usize];
            if let Some(entity) = group.entity.filter(|e| self.engine.entity(*e).known()) {
                let (weight, all) = share(entity);
                limit = (limit * weight + all / 2) / all;
                if u64::from(group.allocated) >= limit {
                    return true;
                }
            }
        }
        if !self.engine.entity(queue.entity).known() {
            return false;
        }
        let (weight, all) = share(queue.entity);
        u64::from(queue.allocated) >= (limit * weight + all / 2) / all
    }
}

impl Scheduler for Bfq {
    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        let now = self.at(ctx.now);
        match place {
            Place::Tail => self.arrive(id, ctx, now),
            Place::Head => {
                let q = self.queue_of(id, ctx, now);
                self.own(id, q);
                self.entries[id.index()].at_head = true;
                self.head.push_front(&mut self.links, id);
                self.queued_head += 1;
            }
        }
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        self.queued_head + self.queued > 0
    }

    fn next(&mut self, _hw_queue: usize, ctx: &Context<'_>) -> Next {
        let now = self.at(ctx.now);
        if self.idle_until.is_some_and(|t| t <= now.at) {
            self.idled_out(now);
        }
        self.choose(ctx, now)
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        let now = self.at(ctx.now);
        if self.entries.get(id.index()).is_none_or(|e| e.queue == NONE) {
            return false;
        }
        self.finish(id, now)
    }

    fn requeued(&mut self, id: RequestId, ctx: &Context<'_>) {
        self.complete(id, ctx);
    }

    fn merge(&mut self, io: &Io, index: &MergeIndex, ctx: &Context<'_>) -> Option<Join> {
        let join = index.lookup(io, ctx).or_else(|| {
            let process = self.processes.get(io.task.0 as usize)?;
            let sync = io.op == Op::Read || io.flags.any(dumbwaiter_block::Flags::SYNC);
            let q = if sync { process.queue } else { process.async_queue };
            let queue = self.queues.get(q as usize).filter(|queue| queue.live)?;
            let end = io.sector + u64::from(io.sectors);
            let into = self.sorted.first_from(&queue.sorted, end).filter(|id| self.sorted.key(*id) == end)?;
            let into = RequestId(into);
            dumbwaiter_block::merge::compatible(&ctx.requests[into], io).then_some(Join { into, side: Side::Front })
        })?;
        self.may_join(io, join.into, ctx).then_some(join)
    }

    fn merged(&mut self, join: Join, ctx: &Context<'_>) {
        self.at(ctx.now);
        let id = join.into;
        let request = &ctx.requests[id];
        self.entries[id.index()].sectors = request.sectors;
        if self.entries[id.index()].at_head || join.side != Side::Front {
            return;
        }
        let q = self.entries[id.index()].queue;
        let overtakes = self.sorted.previous(id.0).is_some_and(|p| self.sorted.key(p) > request.sector);
        if !overtakes {
            self.sorted.rekey(id.0, request.sector);
            return;
        }
        let queue = &mut self.queues[q as usize];
        self.sorted.remove(&mut queue.sorted, id.0);
        self.sorted.insert(&mut queue.sorted, id.0, request.sector, 0);
        let before = queue.next;
        let next = self.better(before, id.0, self.head_pos);
        self.queues[q as usize].next = next;
        if next != before {
            self.fit_budget(q);
            self.move_position(q);
        }
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        let now = self.at(ctx.now);
        self.entries[survivor.index()].sectors = ctx.requests[survivor].sectors;
        let (mine, other) = (self.entries[survivor.index()], self.entries[absorbed.index()]);
        if other.at_head {
            self.head.remove(&mut self.links, absorbed);
            self.queued_head -= 1;
        } else {
            if mine.queue == other.queue && !mine.at_head && other.deadline < mine.deadline {
                self.entries[survivor.index()].deadline = other.deadline;
                let fifo = &mut self.queues[mine.queue as usize].fifo;
                fifo.remove(&mut self.links, survivor);
                fifo.insert_before(&mut self.links, survivor, absorbed);
            }
            if mine.queue == other.queue && !mine.at_head && self.queues[other.queue as usize].next == absorbed.0 {
                self.queues[other.queue as usize].next = survivor.0;
                self.move_position(other.queue);
            }
            let sector = self.sorted.key(absorbed.0);
            self.detach(other.queue, absorbed, sector, now);
        }
        self.entries[absorbed.index()].queue = NONE;
        self.processes[other.task as usize].requests -= 1;
        self.allocate(other.queue, -1);
        self.free_if_unused(other.queue);
    }

    fn former(&self, id: RequestId) -> Option<RequestId> {
        self.sorted_at(id).then(|| self.sorted.previous(id.0))?.map(RequestId)
    }

    fn latter(&self, id: RequestId) -> Option<RequestId> {
        self.sorted_at(id).then(|| self.sorted.next(id.0))?.map(RequestId)
    }

    fn limit(&self, io: &Io, nr_requests: u32) -> u32 {
        let sync = io.op == Op::Read || io.flags.any(dumbwaiter_block::Flags::SYNC);
        if !self.values.on.depth_limits {
            return nr_requests;
        }
        let sixteenths = match (sync, io.op == Op::Read, self.raised_busy > 0) {
            (true, true, _) => 16,
            (true, false, false) => 12,
            (true, false, true) => 6,
            (false, _, false) => 8,
            (false, _, true) => 3,
        };
        let limit = (nr_requests * sixteenths / 16).max(1);
        if self.over_share(io, sync, limit) { 1 } else { limit }
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        match event {
            Event::Timer => {
                if let Some(due) = self.idle_until.filter(|t| *t <= ctx.now) {
                    let now = self.at(due);
                    self.idled_out(now);
                    self.at(ctx.now);
                }
            }
            Event::TaskExited(task) => {
                let now = self.at(ctx.now);
                self.task_exited(task.0, now);
            }
            Event::TaskChanged(task) => {
                let q = self.processes.get(task.0 as usize).map_or(NONE, |p| p.queue);
                if q != NONE
                    && let Some(own) = ctx.tenants.tasks.get(task.0 as usize)
                {
                    let (class, level) = arrival::priority(own.ioprio);
                    self.set_priority(q, class, level);
                }
            }
            Event::TenantChanged(tenant) => {
                let group = self.tenants.get(tenant.0 as usize).copied().unwrap_or(NONE);
                if let (Some(group), Some(own)) =
                    (self.groups.get(group as usize), ctx.tenants.tenants.get(tenant.0 as usize))
                    && let Some(entity) = group.entity
                {
                    self.engine.set_weight(entity, own.weight.clamp(1, 1000));
                }
            }
            Event::RotationalChanged(rotational) => self.rotational = rotational,
            Event::DepthChanged(_) => {}
        }
    }

    fn timer(&self) -> Option<Nanos> {
        self.idle_until
    }

    fn tunables(&self) -> &'static [Tunable] {
        TUNABLES
    }

    fn get(&self, name: &str) -> Option<i128> {
        self.values.get(name, &self.clock)
    }

    fn set(&mut self, name: &str, value: i128) {
        let low_latency = self.values.low_latency;
        if self.get(name) == Some(value) {
            return;
        }
        self.values.set(name, value, &self.clock);
        if low_latency && !self.values.low_latency {
            self.end_all_raises();
        }
        match name {
            "max_budget" if self.values.max_budget > 0 => self.max_budget = self.values.max_budget,
            "max_budget" => self.retune(),
            "timeout_sync" if self.values.max_budget == 0 => self.retune(),
            _ => {}
        }
    }

    fn take(&mut self, id: RequestId, _hw_queue: usize, ctx: &Context<'_>) {
        let now = self.at(ctx.now);
        self.force(id, ctx, now);
    }

    fn describe(&self, ctx: &Context<'_>) -> String {
        let mut text = format!(
            "tick {}: in service {:?}, waiting until {:?}, {} queued, {} in the driver, hw_tag {}, max budget {}, peak rate {}\n",
            self.clock.ticks(ctx.now),
            self.in_service,
            self.idle_until.map(|t| t.0),
            self.queued,
            self.in_driver,
            self.hw_tag,
            self.max_budget,
            self.peak.rate
        );
        for (q, queue) in self.queues.iter().enumerate().filter(|(_, q)| q.live) {
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

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}

impl Bfq {
    /// Is it queued in sector order?
    fn sorted_at(&self, id: RequestId) -> bool {
        self.entries.get(id.index()).is_some_and(|e| e.queue != NONE && !e.at_head && e.queued)
    }

    /// Only I/O of a request's own queue may join it.
    fn may_join(&self, io: &Io, into: RequestId, ctx: &Context<'_>) -> bool {
        let sync = io.op == Op::Read || io.flags.any(dumbwaiter_block::Flags::SYNC);
        if sync && !ctx.requests[into].sync() {
            return false;
        }
        let Some(process) = self.processes.get(io.task.0 as usize) else { return false };
        let q = if sync { process.queue } else { process.async_queue };
        self.entries.get(into.index()).is_some_and(|e| e.queue == q && q != NONE)
    }
}
