//! Which request goes next.

use dumbwaiter_block::{Next, RequestId};

use super::generation::ALONE;
use super::queue::{NONE, QueueId};
use super::reason::Reason;
use super::{Bfq, Generation, Now};
use crate::mechanisms::wf2q::Class;

/// The outcome of choosing a queue.
enum Selection {
    Serve(QueueId),
    Idle,
    Nothing,
}

impl Bfq {
    pub(super) fn choose(&mut self, now: Now) -> Next {
        if let Some(id) = self.head.pop_front(&mut self.links) {
            self.queued_head -= 1;
            self.send(id);
            return Next::Dispatch(id);
        }
        if self.busy_total() == 0 {
            return Next::Empty;
        }
        if self.values.strict_guarantees && self.in_driver > 0 {
            return Next::WaitUntil(dumbwaiter_block::Nanos::MAX);
        }
        match self.select(now) {
            Selection::Serve(q) => {
                let id = RequestId(self.queues[q as usize].next);
                self.serve(q, id, now);
                Next::Dispatch(id)
            }
            Selection::Idle => Next::WaitUntil(self.idle_until.unwrap_or(dumbwaiter_block::Nanos::MAX)),
            Selection::Nothing => Next::Empty,
        }
    }

    fn select(&mut self, now: Now) -> Selection {
        if let Some(q) = self.in_service
            && self.may_expire_for_time(q, now)
            && !self.must_idle(q)
        {
            self.expire(q, Reason::BudgetTimeout, false, now);
        }
        loop {
            let q = match self.in_service {
                Some(q) => q,
                None => match self.next_slot(now) {
                    Some(q) => q,
                    None => return Selection::Nothing,
                },
            };
            self.look_at_oldest(q, now);
            let queue = &self.queues[q as usize];
            if queue.next != NONE {
                if self.outstanding_enough(q) {
                    return Selection::Idle;
                }
                if self.cost(q, queue.next) > self.engine.entity(queue.entity).left() {
                    self.expire(q, Reason::BudgetExhausted, false, now);
                    continue;
                }
                if queue.waiting {
                    self.stop_waiting(q);
                }
                return Selection::Serve(q);
            }
            if queue.waiting || (queue.in_flight > 0 && self.deserves_idling(q)) {
                return self.injected(q).map_or(Selection::Idle, Selection::Serve);
            }
            self.expire(q, Reason::NoMoreRequests, false, now);
        }
    }

    /// Before mainline: once in a slot the oldest request goes first if it is late.
    fn look_at_oldest(&mut self, q: QueueId, now: Now) {
        let queue = &mut self.queues[q as usize];
        if self.constants.generation == Generation::Mainline || std::mem::replace(&mut queue.fifo_checked, true) {
            return;
        }
        if let Some(oldest) = queue.fifo.front()
            && self.entries[oldest.index()].deadline <= now.at
            && queue.next != oldest.0
        {
            queue.next = oldest.0;
            self.move_position(q);
        }
    }

    /// Does the queue in service have as many requests in the device as it may?
    fn outstanding_enough(&self, q: QueueId) -> bool {
        let queue = &self.queues[q as usize];
        let quantum = if queue.sync { self.constants.sync_quantum } else { self.constants.async_quantum };
        let limit = if self.busy_total() == 1 { quantum * ALONE } else { quantum };
        queue.in_flight >= limit || (!queue.sync && !self.is(Generation::Mainline) && self.sync_in_driver > 0)
    }

    /// Asks the engine for the next queue.
    fn next_slot(&mut self, now: Now) -> Option<QueueId> {
        self.engine.at_tick(now.tick);
        let entity = self.engine.select()?;
        let q = self.engine.entity(entity).owner;
        self.begin_slot(q, now);
        Some(q)
    }

    fn begin_slot(&mut self, q: QueueId, now: Now) {
        self.queues[q as usize].fifo_checked = false;
        self.budgets_assigned = (self.budgets_assigned * 7 + 256) / 8;
        self.shift_soft_rt(q, now);
        let queue = &mut self.queues[q as usize];
        queue.slots += 1;
        self.slot_requests = 0;
        self.slot_unstarted = self.constants.generation < Generation::Mainline;
        self.start_slot_clock(q, now);
        if self.slot_unstarted {
            self.queues[q as usize].budget_deadline = i64::MAX / 4;
        }
        self.slot_last_pos = 0;
        self.in_service = Some(q);
    }

    pub(super) fn start_slot_clock(&mut self, q: QueueId, now: Now) {
        let queue = &mut self.queues[q as usize];
        let entity = self.engine.entity(queue.entity);
        let mainline_soft_rt = queue.raise.soft_rt && self.constants.generation == Generation::Mainline;
        let stretched = self.values.on.raised_timeout && !mainline_soft_rt;
        let raised = entity.weight != u64::from(entity.base_weight);
        let stretch = if stretched && raised { entity.weight / u64::from(entity.base_weight.max(1)) } else { 1 };
        let timeout = match self.constants.timeout_async_ms {
            Some(ms) if !queue.sync => self.clock.from_ms(ms),
            _ => self.values.timeout,
        };
        queue.budget_deadline = now.tick + timeout * stretch as i64;
        self.slot_start = now.at;
    }

    /// Sends a queued request of a queue, in service or injected.
    pub(super) fn serve(&mut self, q: QueueId, id: RequestId, now: Now) {
        let cost = self.cost(q, id.0);
        self.account(q, cost);
        let serving = self.in_service == Some(q);
        if serving {
            self.sample_on_dispatch(id);
        }
        let (sector, sectors) = (self.sorted.key(id.0), self.entries[id.index()].sectors);
        let near = !self.far(self.head_pos, sector, sectors);
        if self.is(Generation::Mainline)
            && self.peak.dispatched(now.at.0, sectors, self.in_driver > 0, self.last_completion, near)
        {
            self.retune();
        }
        self.head_pos = sector + u64::from(sectors);
        if serving {
            self.slot_last_pos = self.head_pos;
        }
        self.queues[q as usize].in_flight += 1;
        self.detach(q, id, sector, now);
        if serving {
            self.update_raise(q, now);
            self.slot_requests += 1;
            let queue = &self.queues[q as usize];
            let round_over =
                !queue.sync && !self.is(Generation::V7r8) && self.slot_requests >= self.constants.async_quantum;
            if (round_over || self.class_of(q) == Class::Idle) && self.busy_total() > 1 {
                self.expire(q, Reason::BudgetExhausted, false, now);
            }
        }
        self.count_in_driver(id);
    }

    fn count_in_driver(&mut self, id: RequestId) {
        self.in_driver += 1;
        self.sync_in_driver += u32::from(self.entries[id.index()].sync);
    }

    /// Sends a request that bypasses the order of queues.
    fn send(&mut self, id: RequestId) {
        let q = self.entries[id.index()].queue;
        self.queues[q as usize].in_flight += 1;
        self.count_in_driver(id);
    }

    /// Takes a request out of its queue.
    pub(super) fn detach(&mut self, q: QueueId, id: RequestId, sector: u64, now: Now) {
        let was_next = self.queues[q as usize].next == id.0;
        if was_next {
            let next = self.next_after(q, id, sector, now);
            self.queues[q as usize].next = next;
        }
        let sync = usize::from(self.entries[id.index()].sync);
        let queue = &mut self.queues[q as usize];
        queue.queued[sync] -= 1;
        self.queued -= 1;
        self.sorted.remove(&mut queue.sorted, id.0);
        self.entries[id.index()].queued = false;
        queue.fifo.remove(&mut self.links, id);
        if was_next {
            self.fit_budget(q);
            self.move_position(q);
        }
        let queue = &self.queues[q as usize];
        if queue.is_empty() && queue.busy && self.in_service != Some(q) {
            self.idle_out_of_service(q, now);
        }
    }

    /// A queue that is not in service ran empty.
    pub(super) fn idle_out_of_service(&mut self, q: QueueId, now: Now) {
        self.not_busy(q);
        let entity = self.queues[q as usize].entity;
        self.engine.at_tick(now.tick);
        self.engine.deactivate(entity, true);
        self.engine.set_budget(entity, 0);
        self.engine.set_used(entity, 0);
    }

    /// The queue's next request after `id` has left it.
    fn next_after(&mut self, q: QueueId, id: RequestId, sector: u64, now: Now) -> u32 {
        let mainline = self.is(Generation::Mainline);
        let queue = &mut self.queues[q as usize];
        if mainline
            && !std::mem::replace(&mut queue.fifo_checked, true)
            && let Some(oldest) = queue.fifo.front()
            && oldest != id
            && self.entries[oldest.index()].deadline <= now.at
        {
            return oldest.0;
        }
        let queue = &self.queues[q as usize];
        let next = self.sorted.next(id.0).or_else(|| queue.sorted.first()).filter(|n| *n != id.0);
        let previous = self.sorted.previous(id.0);
        self.better(next.unwrap_or(NONE), previous.unwrap_or(NONE), sector)
    }

    /// The better of two requests for a head at `head`: sync, then metadata, then position, with limited seeks back.
    pub(super) fn better(&self, a: u32, b: u32, head: u64) -> u32 {
        if a == NONE || b == NONE || a == b {
            return if a == NONE { b } else { a };
        }
        let (x, y) = (&self.entries[a as usize], &self.entries[b as usize]);
        if x.sync != y.sync {
            return if x.sync { a } else { b };
        }
        if x.meta != y.meta {
            return if x.meta { a } else { b };
        }
        let (s, t) = (self.sorted.key(a), self.sorted.key(b));
        let back = self.values.back_seek_max * 2;
        let penalty = self.values.back_seek_penalty;
        let distance = |p: u64| match p {
            p if p >= head => Some(p - head),
            p if p + back >= head => Some((head - p).saturating_mul(penalty)),
            _ => None,
        };
        match (distance(s), distance(t)) {
            (Some(d), Some(e)) if d != e => {
                if d < e {
                    a
                } else {
                    b
                }
            }
            (Some(_), Some(_)) => {
                if s >= t {
                    a
                } else {
                    b
                }
            }
            (Some(_), None) => a,
            (None, Some(_)) => b,
            (None, None) => {
                if s <= t {
                    a
                } else {
                    b
                }
            }
        }
    }

    /// For replays: does the device idle for the queue in service, so that a request of another one is an injected one?
    fn waits_beside_others(&self, serving: QueueId) -> bool {
        let queue = &self.queues[serving as usize];
        let waited_for = queue.waiting || (queue.in_flight > 0 && self.deserves_idling(serving));
        queue.is_empty() && waited_for && (self.admits_injection(serving) || self.injected_relation(serving).is_some())
    }

    /// For replays: dispatches this request, whatever the policy would choose.
    pub(super) fn force(&mut self, id: RequestId, now: Now) {
        let q = self.entries[id.index()].queue;
        if self.entries[id.index()].at_head {
            self.head.remove(&mut self.links, id);
            self.queued_head -= 1;
            return self.send(id);
        }
        match self.in_service {
            Some(serving) if serving == q => {}
            Some(serving) if self.waits_beside_others(serving) => return self.serve(q, id, now),
            other => {
                if let Some(serving) = other {
                    let reason = if self.queues[serving as usize].is_empty() {
                        Reason::NoMoreRequests
                    } else if self.timed_out(serving, now) {
                        Reason::BudgetTimeout
                    } else {
                        Reason::BudgetExhausted
                    };
                    self.expire(serving, reason, false, now);
                }
                let entity = self.queues[q as usize].entity;
                self.engine.at_tick(now.tick);
                self.engine.select_this(entity);
                self.begin_slot(q, now);
            }
        }
        self.stop_waiting(q);
        self.serve(q, id, now);
    }
}
