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
        if let Some(id) = self.requests.pop_head() {
            self.send(id);
            return Next::Dispatch(id);
        }
        if self.counts.total() == 0 {
            return Next::Empty;
        }
        if self.values.strict_guarantees && self.device.in_driver > 0 {
            return Next::WaitUntil(dumbwaiter_block::Nanos::MAX);
        }
        match self.select(now) {
            Selection::Serve(q) => {
                let id = RequestId(self.queues[q].next);
                self.serve(q, id, now);
                Next::Dispatch(id)
            }
            Selection::Idle => Next::WaitUntil(self.slot.idle_until.unwrap_or(dumbwaiter_block::Nanos::MAX)),
            Selection::Nothing => Next::Empty,
        }
    }

    fn select(&mut self, now: Now) -> Selection {
        if let Some(q) = self.slot.queue
            && self.may_expire_for_time(q, now)
            && !self.must_idle(q)
        {
            self.expire(q, Reason::BudgetTimeout, false, now);
        }
        loop {
            let q = match self.slot.queue {
                Some(q) => q,
                None => match self.next_slot(now) {
                    Some(q) => q,
                    None => return Selection::Nothing,
                },
            };
            self.look_at_oldest(q, now);
            let queue = &self.queues[q];
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
        let queue = &mut self.queues[q];
        if self.constants.generation == Generation::Mainline || std::mem::replace(&mut queue.fifo_checked, true) {
            return;
        }
        if let Some(oldest) = queue.fifo.front()
            && self.requests[oldest.0].deadline <= now.at
            && queue.next != oldest.0
        {
            queue.next = oldest.0;
            self.move_position(q);
        }
    }

    /// Does the queue in service have as many requests in the device as it may?
    fn outstanding_enough(&self, q: QueueId) -> bool {
        let queue = &self.queues[q];
        let quantum = if queue.sync { self.constants.sync_quantum } else { self.constants.async_quantum };
        let limit = if self.counts.total() == 1 { quantum * ALONE } else { quantum };
        queue.in_flight >= limit || (!queue.sync && !self.is(Generation::Mainline) && self.device.sync_in_driver > 0)
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
        self.queues[q].fifo_checked = false;
        self.estimate.slot_begins();
        self.shift_soft_rt(q, now);
        self.queues[q].slots += 1;
        let unstarted = !self.is(Generation::Mainline);
        self.slot.begin(q, unstarted);
        self.start_slot_clock(q, now);
        if unstarted {
            self.queues[q].budget_deadline = i64::MAX / 4;
        }
    }

    pub(super) fn start_slot_clock(&mut self, q: QueueId, now: Now) {
        let queue = &mut self.queues[q];
        let entity = self.engine.entity(queue.entity);
        let mainline_soft_rt = queue.raise.soft_rt && self.constants.generation == Generation::Mainline;
        let stretched = self.values.on.raised_timeout && !mainline_soft_rt;
        let raised = entity.weight != u64::from(entity.base_weight);
        let stretch = if stretched && raised { entity.weight / u64::from(entity.base_weight.max(1)) } else { 1 };
        let timeout = match self.constants.timeout_async_ms {
            Some(ms) if !queue.sync => self.time.clock.from_ms(ms),
            _ => self.values.timeout,
        };
        queue.budget_deadline = now.tick + timeout * stretch as i64;
        self.slot.start = now.at;
    }

    /// Sends a queued request of a queue, in service or injected.
    pub(super) fn serve(&mut self, q: QueueId, id: RequestId, now: Now) {
        let cost = self.cost(q, id.0);
        self.account(q, cost);
        let serving = self.slot.serves(q);
        if serving {
            self.sample_on_dispatch(id);
        }
        let (sector, sectors) = (self.requests.sorted.key(id.0), self.requests[id.0].sectors);
        let near = !self.device.far(self.device.head_pos, sector, sectors);
        if self.is(Generation::Mainline)
            && self.estimate.peak.dispatched(
                now.at.0,
                sectors,
                self.device.in_driver > 0,
                self.device.last_completion,
                near,
            )
        {
            self.retune();
        }
        self.device.head_pos = sector + u64::from(sectors);
        if serving {
            self.slot.last_pos = self.device.head_pos;
        }
        self.queues[q].in_flight += 1;
        self.detach(q, id, sector, now);
        if serving {
            self.update_raise(q, now);
            self.slot.requests += 1;
            let queue = &self.queues[q];
            let round_over =
                !queue.sync && !self.is(Generation::V7r8) && self.slot.requests >= self.constants.async_quantum;
            if (round_over || self.class_of(q) == Class::Idle) && self.counts.total() > 1 {
                self.expire(q, Reason::BudgetExhausted, false, now);
            }
        }
        self.device.send(self.requests[id.0].sync);
    }

    /// Sends a request that bypasses the order of queues.
    fn send(&mut self, id: RequestId) {
        let q = self.requests[id.0].queue;
        self.queues[q].in_flight += 1;
        self.device.send(self.requests[id.0].sync);
    }

    /// For replays: does the device idle for the queue in service, so that a request of another one is an injected one?
    fn waits_beside_others(&self, serving: QueueId) -> bool {
        let queue = &self.queues[serving];
        let waited_for = queue.waiting || (queue.in_flight > 0 && self.deserves_idling(serving));
        queue.is_empty() && waited_for && (self.admits_injection(serving) || self.injected_relation(serving).is_some())
    }

    /// For replays: dispatches this request, whatever the policy would choose.
    pub(super) fn force(&mut self, id: RequestId, now: Now) {
        let q = self.requests[id.0].queue;
        if self.requests[id.0].at_head {
            self.requests.remove_head(id);
            return self.send(id);
        }
        match self.slot.queue {
            Some(serving) if serving == q => {}
            Some(serving) if self.waits_beside_others(serving) => return self.serve(q, id, now),
            other => {
                if let Some(serving) = other {
                    let reason = if self.queues[serving].is_empty() {
                        Reason::NoMoreRequests
                    } else if self.timed_out(serving, now) {
                        Reason::BudgetTimeout
                    } else {
                        Reason::BudgetExhausted
                    };
                    self.expire(serving, reason, false, now);
                }
                let entity = self.queues[q].entity;
                self.engine.at_tick(now.tick);
                self.engine.select_this(entity);
                self.begin_slot(q, now);
            }
        }
        self.stop_waiting(q);
        self.serve(q, id, now);
    }
}
