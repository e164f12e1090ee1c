//! The choice of a queue, whether it may dispatch, and which of its requests.

use dumbwaiter_block::{Context, Nanos, Next, RequestId};

use super::queue::{IDLE, NONE};
use super::{Cfq, Version};

/// The queue to dispatch from.
enum Pick {
    Queue(u32),
    /// None: the device idles for a queue or a tenant.
    Wait(Nanos),
    None,
}

impl Cfq {
    /// The next request, if any may go.
    pub(super) fn dispatch(&mut self, ctx: &Context<'_>) -> Next {
        let now = self.clock.count(ctx.now);
        if self.idle_timer.is_some_and(|t| t <= ctx.now) {
            self.idle_timer_fires(now);
        }
        let q = match self.select(now, ctx.now) {
            Pick::Queue(q) => q,
            Pick::Wait(at) => return Next::WaitUntil(at),
            Pick::None => return Next::Empty,
        };
        let mut late = None;
        if self.version == Version::K420 {
            late = self.late_request(q, now);
            self.queues[q as usize].must_dispatch |= late.is_some();
        }
        if !self.may_dispatch(q, now) {
            // Only a completion can change that.
            return Next::WaitUntil(Nanos::MAX);
        }
        if self.version != Version::K420 {
            late = self.late_request(q, now);
        }
        let id = late.unwrap_or(RequestId(self.queues[q as usize].next));
        self.send(q, id, now, ctx);
        Next::Dispatch(id)
    }

    fn select(&mut self, now: i64, at: Nanos) -> Pick {
        if self.rq_queued == 0 {
            return Pick::None;
        }
        if let Some(until) = self.hold_turn(now, at) {
            return Pick::Wait(until);
        }
        let mut supplied = None;
        if self.active != NONE {
            match self.keep_active(now) {
                Some(Pick::Queue(q)) if q != self.active => supplied = Some(q),
                Some(pick) => return pick,
                None => {}
            }
            self.expire(false, now);
        }
        let chosen = match supplied {
            Some(q) => Some(q),
            None => self.choose_queue(now),
        };
        let Some(q) = chosen else { return Pick::None };
        self.activate(q, now);
        Pick::Queue(q)
    }

    /// The active queue continues, or the device idles for it, or another takes over directly; `None`: its slice is over.
    fn keep_active(&mut self, now: i64) -> Option<Pick> {
        let q = self.active;
        let queue = &self.queues[q as usize];
        let alone = self.groups[queue.group as usize].queues == 1;
        let empty = queue.is_empty();
        if queue.wait_busy && !empty {
            return None;
        }
        if queue.slice_used(now) && !queue.must_dispatch {
            if alone && empty && queue.in_flight > 0 && self.should_idle(q) {
                return Some(Pick::Wait(Nanos::MAX));
            }
            return self.group_idles(q);
        }
        if !empty {
            return Some(Pick::Queue(q));
        }
        if let Some(other) = self.close_cooperator(q) {
            if self.queues[q as usize].merge_into == NONE {
                self.plan_merge(q, other);
            }
            return Some(Pick::Queue(other));
        }
        if let Some(until) = self.idle_timer {
            return Some(Pick::Wait(until));
        }
        let queue = &mut self.queues[q as usize];
        let early = queue.slice_new || queue.slice_end - now > now - queue.slice_start;
        if queue.idle_window && early && queue.seeky() {
            queue.deep = false;
            queue.idle_window = false;
        }
        if self.queues[q as usize].in_flight > 0 && self.should_idle(q) {
            return Some(Pick::Wait(Nanos::MAX));
        }
        self.group_idles(q)
    }

    /// Does the device idle because a lone queue's group has requests in it? The next may arrive when they are done. (A+CFQ
    /// has another rule.)
    fn group_idles(&self, q: u32) -> Option<Pick> {
        let group = &self.groups[self.queues[q as usize].group as usize];
        let waits = self.anticipation.is_none()
            && self.set.group_idle > 0
            && group.queues == 1
            && group.in_flight > 0
            && !group.think.big(self.set.group_idle);
        waits.then_some(Pick::Wait(Nanos::MAX))
    }

    /// May the active queue have one more request in the device?
    fn may_dispatch(&self, q: u32, now: i64) -> bool {
        let queue = &self.queues[q as usize];
        if self.version == Version::K420 && queue.must_dispatch {
            return true;
        }
        if self.in_flight[0] > 0 && self.should_idle(q) {
            return false;
        }
        if self.in_flight[1] > 0 && !queue.sync {
            return false;
        }
        let mut limit = if queue.class == IDLE { 1 } else { (self.set.quantum / 2).max(1) };
        if queue.in_flight >= limit {
            if queue.class == IDLE {
                return false;
            }
            let alone_sync = queue.sync && self.busy_sync == 1;
            let ends_soon = queue.slice_new
                || now + self.set.slice_idle.saturating_mul(i64::from(queue.in_flight)).min(1 << 60) > queue.slice_end;
            if self.busy_queues > 1 && ends_soon && !alone_sync {
                return false;
            }
            limit = if self.busy_queues == 1 || alone_sync { u32::MAX } else { self.set.quantum };
        }
        if !queue.sync && self.set.low_latency {
            // One more for each slice without a delayed synchronous request.
            let depth = ((now - self.last_delayed_sync) / self.set.slice[1].max(1)).clamp(0, i64::from(u32::MAX));
            let depth = if depth == 0 && queue.in_flight == 0 { 1 } else { depth as u32 };
            limit = limit.min(depth);
        }
        queue.in_flight < limit
    }

    /// Once per slice: the oldest request, if its deadline has passed.
    fn late_request(&mut self, q: u32, now: i64) -> Option<RequestId> {
        let queue = &mut self.queues[q as usize];
        if std::mem::replace(&mut queue.fifo_checked, true) {
            return None;
        }
        queue.fifo.front().filter(|id| now >= self.entries[id.index()].deadline)
    }

    /// Dispatches this queued request, as if the policy had chosen it.
    pub(super) fn force(&mut self, id: RequestId, ctx: &Context<'_>) {
        let now = self.clock.count(ctx.now);
        let q = self.entries[id.index()].queue;
        if q != self.active {
            self.expire(false, now);
            let queue = &self.queues[q as usize];
            let (group, class, kind) = (queue.group, queue.class, queue.kind());
            if self.anticipation.as_ref().is_some_and(|a| !a.serves(group)) {
                self.end_turn();
            }
            self.serve_workload(group, class, kind, now);
            self.activate(q, now);
        }
        self.send(q, id, now, ctx);
    }

    fn send(&mut self, q: u32, id: RequestId, now: i64, ctx: &Context<'_>) {
        let request = &ctx.requests[id];
        self.take_out(q, id, ctx);
        self.last_task = request.io.task.0;
        self.entries[id.index()].in_flight = true;
        let queue = &mut self.queues[q as usize];
        queue.dispatched += 1;
        queue.in_flight += 1;
        queue.must_dispatch = false;
        queue.waiting = false;
        self.idle_timer = None;
        let (g, sync, class, level, dispatched) = (queue.group, queue.sync, queue.class, queue.level, queue.dispatched);
        self.groups[g as usize].in_flight += 1;
        self.in_flight[usize::from(sync)] += 1;
        self.tenant_sends(request.sectors, ctx.now);
        let async_done = !sync && dispatched >= self.async_requests(level);
        if self.busy_queues > 1 && (async_done || class == IDLE) {
            self.expire(false, now);
        }
    }

    /// Until when the device idles for the tenant in service, which has nothing to send; `None` if it does not. A slot that
    /// is used up, or for which the device idled in vain, ends here.
    fn hold_turn(&mut self, now: i64, at: Nanos) -> Option<Nanos> {
        let a = self.anticipation.as_ref()?;
        let turn = a.turn?;
        let group = &self.groups[turn.group as usize];
        let slot_sectors = a.slot_sectors;
        let used_up = match slot_sectors {
            0 => now >= turn.end,
            n => turn.sectors >= n.saturating_mul(u64::from(group.weight)),
        };
        if !used_up {
            if group.queued > 0 {
                return None;
            }
            if group.in_flight > 0 {
                let end = if slot_sectors == 0 { self.clock.time_of(turn.end) } else { Nanos::MAX };
                return Some(end.max(Nanos(at.0 + 1)));
            }
            if let Some(deadline) = turn.deadline
                && at < deadline
            {
                return Some(deadline);
            }
        }
        self.expire(used_up, now);
        self.end_turn();
        None
    }
}
