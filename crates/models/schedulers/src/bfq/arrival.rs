//! A request arrives: its queue, what it shows about that queue, and whether the slot in service ends.

use dumbwaiter_block::{Context, Flags, IoClass, Ioprio, Nanos, RequestId, TaskId};

use super::queue::{NEVER, NONE, Queue, QueueId, SeekMean};
use super::reason::Reason;
use super::requests::RequestState;
use super::{Bfq, Generation, Now};
use crate::mechanisms::wf2q::{Class, EntityId};

/// A request of fewer sectors, alone, does not end the wait for more.
const SMALL_SECTORS: u32 = 32;
const IO_BOUND_WINDOW_NS: u64 = 200_000_000;
/// This many prompt arrivals in a row make a queue I/O-bound (before mainline).
const PROMPT: u32 = 120;

impl Bfq {
    /// A request enters at the tail.
    pub(super) fn arrive(&mut self, id: RequestId, ctx: &Context<'_>, now: Now) {
        let mut q = self.queue_of(id, ctx, now);
        let request = &ctx.requests[id];
        let task = request.io.task.0;
        if self.queues[q].sync {
            q = self.redirect(q, task, request.sector, now);
        }
        self.own(id, q);
        self.note_think_time(q, now);
        self.note_position(q, request.sector, request.sectors, now);
        self.add(id, q, request.sector, now);
        let queue = &mut self.queues[q];
        let entry = &mut self.requests[id.0];
        let sync = usize::from(entry.sync);
        entry.deadline = now.at + Nanos(self.values.fifo_expire[sync]);
        queue.fifo.push_back(&mut self.requests.links, id);
        queue.last_pos = request.end();
        if self.slot.serves(q) && queue.waiting {
            let small = queue.queued[sync] == 1 && request.sectors < SMALL_SECTORS;
            let timed_out = self.timed_out(q, now);
            let wait_on = self.values.on.small_requests && small && !timed_out;
            if wait_on && (!self.is(Generation::Mainline) || self.idling_boosts(q)) {
                return;
            }
            self.stop_waiting(q);
            if timed_out {
                self.expire(q, Reason::BudgetTimeout, false, now);
            }
        }
    }

    /// Finds or makes the queue of a request.
    pub(super) fn queue_of(&mut self, id: RequestId, ctx: &Context<'_>, now: Now) -> QueueId {
        let request = &ctx.requests[id];
        let io = request.io;
        let task = io.task.0;
        let sync = request.sync();
        let meta = io.flags.any(Flags::META);
        self.requests.admit(id, RequestState { task, sectors: request.sectors, sync, meta, ..RequestState::NEW });
        self.processes.admit(task);
        let prio = match io.ioprio.class() {
            IoClass::None => ctx.tenants.task(TaskId(task)).map_or(Ioprio::DEFAULT, |t| t.ioprio),
            _ => io.ioprio,
        };
        let (class, level) = priority(prio);
        let group = self.group_of(io.tenant.0, ctx);
        if !sync {
            let q = self.async_queue(group, class, level, now);
            self.processes[task].async_queue = q;
            return q;
        }
        let mut q = self.processes[task].queue;
        if q != NONE && self.queues[q].group != group {
            q = self.change_group(task, q, group, now);
        }
        let changed = self.processes[task].prio.replace((class, level)) != Some((class, level));
        let mut split = false;
        if q != NONE && changed {
            self.set_priority(q, class, level);
        }
        if q != NONE {
            let queue = &self.queues[q];
            if queue.coop && queue.split_wanted && !self.processes[task].stably_merged {
                split = true;
                q = self.split(task, now).unwrap_or(NONE);
            }
        }
        if q == NONE {
            q = self.create(task, group, class, level, now);
            if !split {
                q = self.stable_merge(q, task, now);
            }
        }
        if self.queues[q].processes == 1 {
            self.queues[q].task = task;
            if split {
                self.resume(q, task, now);
            }
        }
        if self.queues[q].just_created && self.is(Generation::Mainline) {
            self.join_burst(q, now);
        }
        q
    }

    /// Counts a request to its queue and process.
    pub(super) fn own(&mut self, id: RequestId, q: QueueId) {
        let entry = &mut self.requests[id.0];
        entry.queue = q;
        self.processes[entry.task].requests += 1;
        self.allocate(q, 1);
    }

    /// A queue was created, or, before mainline, became busy.
    fn join_burst(&mut self, q: QueueId, now: Now) {
        if self.values.on.bursts {
            let alone = self.counts.total() == 0 || !self.is(Generation::Mainline);
            self.bursts.join(q, alone, &mut self.queues, now, (&self.constants, &self.time.spans));
        }
    }

    fn create(&mut self, task: u32, group: u32, class: Class, level: u8, now: Now) -> QueueId {
        let q = self.new_queue(group, true, class, level, now);
        let queue = &mut self.queues[q];
        queue.task = task;
        queue.processes = 1;
        self.processes[task].queue = q;
        q
    }

    fn new_queue(&mut self, group: u32, sync: bool, class: Class, level: u8, now: Now) -> QueueId {
        let node = self.groups[group].node;
        let q = self.queues.next_id();
        let entity = self.engine.add_leaf(node, q, self.weight_of(level), class);
        self.groups[group].references += 1;
        let mut queue = Queue::new(entity, group, sync, now.at, now.tick);
        queue.level = level;
        queue.short_think = sync && class != Class::Idle;
        queue.max_budget = self.first_budget();
        queue.idle_flag = sync && class != Class::Idle;
        if !self.is(Generation::Mainline) {
            queue.seek_mean = Some(SeekMean::default());
            queue.soft_rt_next_start = NEVER;
        }
        queue.injection.limit = u32::from(!queue.short_think);
        self.queues.add(queue);
        q
    }

    fn async_queue(&mut self, group: u32, class: Class, level: u8, now: Now) -> QueueId {
        let slot = match class {
            Class::Realtime => usize::from(level),
            Class::BestEffort => 8 + usize::from(level),
            Class::Idle => 16,
        };
        let q = self.groups[group].async_queues[slot];
        if q != NONE {
            return q;
        }
        let q = self.new_queue(group, false, class, level, now);
        self.queues[q].held = 1;
        self.groups[group].async_queues[slot] = q;
        q
    }

    fn weight_of(&self, level: u8) -> u32 {
        (8 - u32::from(level.min(7))) * self.constants.weight_per_level
    }

    /// A queue's priority changed; the engine follows at its next stamp.
    pub(super) fn set_priority(&mut self, q: QueueId, class: Class, level: u8) {
        let weight = self.weight_of(level);
        let queue = &mut self.queues[q];
        queue.level = level;
        let entity = self.engine.entity(queue.entity);
        if entity.wanted_weight != weight {
            self.engine.set_weight(queue.entity, weight);
        }
        if self.engine.entity(queue.entity).wanted_class != class {
            self.engine.set_class(queue.entity, class);
        }
    }

    fn note_think_time(&mut self, q: QueueId, now: Now) {
        let slice_idle = self.values.slice_idle;
        let mainline = self.is(Generation::Mainline);
        let queue = &mut self.queues[q];
        let every_arrival = self.constants.generation == Generation::V7r8;
        if every_arrival || (queue.in_flight == 0 && !queue.busy) {
            queue.think.sample(now.at.0, slice_idle, mainline);
        }
        let idle_class = self.class_of(q) == Class::Idle;
        self.note_idle_flag(q, idle_class);
        let queue = &mut self.queues[q];
        if !queue.sync || idle_class || slice_idle == 0 || now.tick <= queue.split + self.time.spans.ms_2000 {
            return;
        }
        let short = queue.processes > 0 && !queue.think.longer_than(slice_idle / 2);
        let changed = std::mem::replace(&mut queue.short_think, short) != short;
        if changed
            && queue.injection.base == 0
            && (!short || now.tick > queue.injection.lowered_at + self.time.spans.ms_100)
        {
            self.reset_injection(q, now);
        }
    }

    /// Should the device idle for this queue, by its think times and seeks?
    fn note_idle_flag(&mut self, q: QueueId, idle_class: bool) {
        let queue = &self.queues[q];
        let (slice_idle, seeky) = (self.values.slice_idle, queue.seeky());
        let undecided = self.is(Generation::V1) && seeky && !self.used_much(q);
        if !queue.sync || idle_class || undecided {
            return;
        }
        let spares_raised = self.is(Generation::V7r8);
        let queue = &mut self.queues[q];
        let spared = spares_raised && queue.raise.coeff > 1;
        if queue.processes == 0 || slice_idle == 0 || (self.device.hw_tag != 0 && seeky && !spared) {
            queue.idle_flag = false;
        } else if let Some(mean) = queue.think.mean() {
            queue.idle_flag = spared || mean <= slice_idle;
        }
    }

    fn note_position(&mut self, q: QueueId, sector: u64, sectors: u32, now: Now) {
        let far = self.device.far(self.queues[q].last_pos, sector, sectors);
        let queue = &mut self.queues[q];
        queue.seek_bits = queue.seek_bits << 1 | u32::from(far);
        let from = if queue.last_pos == 0 { sector } else { queue.last_pos };
        if let Some(mean) = &mut queue.seek_mean {
            mean.sample(from.abs_diff(sector));
        }
        if queue.constantly_seeky && !queue.seeky() {
            self.counts.set_constantly_seeky(queue, false);
        }
        let mainline = self.is(Generation::Mainline);
        let queue = &self.queues[q];
        if mainline && queue.raise.coeff > 1 && queue.raise.soft_rt && queue.totally_seeky() {
            if self.interrupted_is_over(q, now) {
                self.end_raise(q, now);
            } else {
                self.back_to_interactive(q);
            }
        }
    }

    fn note_io_bound(&mut self, q: QueueId, now: Now) {
        let slice_idle = self.values.slice_idle;
        let mainline = self.is(Generation::Mainline);
        let queue = &mut self.queues[q];
        if !mainline {
            if queue.is_empty() {
                let soon = now.at.0 <= queue.think.last_completion.saturating_add(slice_idle);
                queue.prompt = if soon { queue.prompt + 1 } else { 0 };
                queue.io_bound |= queue.prompt >= PROMPT;
            }
            return;
        }
        let window = now.at.0.saturating_sub(queue.window_start);
        if queue.is_empty() && queue.in_flight == 0 {
            // A new queue has its last completion 1 ns ahead, so that its first pause is -1 ns, which Linux takes without a sign: until
            // a real pause follows, the queue does not count as I/O-bound.
            let pause = now.at.0.wrapping_sub(queue.think.last_completion);
            queue.idle_sum = queue.idle_sum.wrapping_add(pause);
        }
        if queue.just_created {
            return;
        }
        queue.io_bound = queue.idle_sum.wrapping_mul(5) <= window;
        if window > IO_BOUND_WINDOW_NS {
            queue.window_start = now.at.0 - window / 2;
            queue.idle_sum /= 2;
        }
    }

    /// Inserts the request in the queue's order, and makes the queue busy.
    fn add(&mut self, id: RequestId, q: QueueId, sector: u64, now: Now) {
        let entry = self.requests[id.0];
        self.queues[q].queued[usize::from(entry.sync)] += 1;
        self.requests.queued += 1;
        if self.queues[q].sync {
            if self.processes[entry.task].requests <= 1 {
                self.sample_on_arrival(q, now);
            }
            self.note_io_bound(q, now);
        }
        let queue = &mut self.queues[q];
        self.requests.sorted.insert(&mut queue.sorted, id.0, sector);
        self.requests[id.0].queued = true;
        let changed = self.consider(q, id);
        if changed {
            self.move_position(q);
        }
        let old_coeff = self.queues[q].raise.coeff;
        let mut interactive = false;
        if !self.queues[q].busy {
            interactive = self.wake(q, now);
        } else {
            let queue = &self.queues[q];
            let spacing = self.time.spans.ms_500;
            if self.values.low_latency
                && self.values.on.async_raising
                && old_coeff == 1
                && !entry.sync
                && now.tick > queue.raise.start_or_end + spacing
            {
                self.raise_async(q);
            }
            if changed {
                self.fit_budget(q);
            }
        }
        let raise = &mut self.queues[q].raise;
        let stamped = self.values.low_latency && !self.values.on.linear_raise;
        if stamped && (old_coeff == 1 || raise.coeff == 1 || interactive) {
            raise.start_or_end = now.tick;
        }
    }

    /// A queue becomes busy. Returns whether its arrival looks interactive.
    fn wake(&mut self, q: QueueId, now: Now) -> bool {
        let low_latency = self.values.low_latency;
        let idle_long = self.idle_long(q, now, self.time.spans.ms_2000);
        let queue = &self.queues[q];
        let in_time = now.at.0 <= queue.think.last_completion.saturating_add(3 * self.values.slice_idle);
        let (interactive, soft_rt) = self.judge_arrival(q, now);
        let stably = self.processes.get(queue.task).is_none_or(|p| p.stably_merged);
        let raisable = self.values.on.raising && queue.sync && (queue.task != NONE || (queue.coop && stably));
        let deserves = low_latency && (queue.raise.coeff > 1 || (raisable && (interactive || soft_rt)));
        let entity = self.engine.entity(queue.entity);
        let recovers = self.values.on.hole_recovery && queue.waiting_no_idle && in_time && entity.left() > 0;
        let budget =
            if recovers { entity.left().min(queue.max_budget) } else { queue.max_budget.max(self.cost(q, queue.next)) };
        let id = queue.entity;
        self.engine.set_budget(id, budget);
        self.engine.set_used(id, 0);
        self.queues[q].waiting_no_idle = recovers;
        if !self.queues[q].just_created && self.idle_long(q, now, self.time.spans.ms_10_000) && idle_long {
            self.bursts.leave(q, &mut self.queues);
        }
        if !self.is(Generation::Mainline) && self.queues[q].sync {
            if idle_long {
                self.bursts.leave(q, &mut self.queues);
            }
            self.join_burst(q, now);
        }
        self.queues[q].just_created = false;
        if self.values.on.linear_raise {
            self.raise_linearly(q, now);
        } else if low_latency && now.tick > self.queues[q].split + self.time.spans.ms_2000 {
            self.raise_on_arrival(q, now, deserves, interactive, soft_rt);
        }
        let queue = &mut self.queues[q];
        queue.last_backlogged = now.tick;
        queue.served_since_backlogged = 0;
        queue.softrt_update = false;
        self.make_busy(q, now);
        if let Some(serving) = self.slot.queue
            && self.engine.next_at_root() != self.engine.serving_at_root()
            && self.values.on.preemption
            && self.preempts(q, serving, recovers)
        {
            self.expire(serving, Reason::Preempted, false, now);
        }
        interactive
    }

    fn preempts(&self, q: QueueId, serving: QueueId, recovers: bool) -> bool {
        let (mine, other) = (&self.queues[q], &self.queues[serving]);
        (recovers && mine.raise.coeff >= other.raise.coeff)
            || self.outranks(mine.entity, other.entity)
            || !self.deserves_idling(serving)
    }

    /// Does `a` have a higher class, or a larger weight where the two paths part?
    fn outranks(&self, a: EntityId, b: EntityId) -> bool {
        let (x, y) = (self.engine.entity(a), self.engine.entity(b));
        if x.class != y.class {
            return x.class < y.class || x.weight > y.weight;
        }
        if x.node == y.node {
            return x.weight > y.weight;
        }
        let weight = |id: EntityId| {
            let parent = self.engine.parent(id);
            self.engine.entity(parent.unwrap_or(id)).weight
        };
        weight(a) > weight(b)
    }
}

/// Class and level (0 to 7) of a priority; nothing said is best effort, level 4.
pub(super) fn priority(prio: Ioprio) -> (Class, u8) {
    match prio.class() {
        IoClass::Realtime => (Class::Realtime, prio.level().min(7)),
        IoClass::BestEffort => (Class::BestEffort, prio.level().min(7)),
        IoClass::Idle => (Class::Idle, 7),
        IoClass::None => (Class::BestEffort, 4),
    }
}
