//! Weight raising: interactive and soft real-time queues get many times their weight for a while.

use super::queue::{QueueId, Raise};
use super::{Bfq, Now};

const SOFT_RT_FACTOR: u32 = 100;
const SOFT_RT_MS: u64 = 300;
/// Sectors per second that a soft real-time queue may need.
const SOFT_RT_RATE: u64 = 7000;
/// Sectors after which an interactive raise ends.
const INTERACTIVE_SECTORS: u64 = 120_000;

impl Bfq {
    /// How long an interactive raise lasts on this device, in ticks.
    pub(super) fn raise_ticks(&self) -> i64 {
        let hz = self.clock.per_second() as u64;
        let (rate, ms) = if self.rotational_at_start { (14_000, 7000) } else { (33_000, 2500) };
        let ticks = (rate * (ms * hz / 1000) / self.peak.rate.max(1)) as i64;
        ticks.clamp(self.clock.from_ms(3000), self.clock.from_ms(25_000))
    }

    fn soft_rt_ticks(&self) -> i64 {
        self.clock.from_ms(SOFT_RT_MS)
    }

    /// Is this an arrival of something interactive, of something soft real-time?
    pub(super) fn judge_arrival(&self, q: QueueId, now: Now) -> (bool, bool) {
        let queue = &self.queues[q as usize];
        let default_weight = self.engine.entity(queue.entity).wanted_weight == self.rules.default_weight;
        let in_burst = queue.large_burst;
        let interactive = !in_burst && self.idle_long(q, now, 2000) && default_weight;
        let soft_rt = self.values.on.soft_rt
            && !queue.totally_seeky()
            && !in_burst
            && now.tick > queue.soft_rt_next_start
            && queue.in_flight == 0
            && default_weight;
        (interactive, soft_rt)
    }

    /// Nothing in flight and inactive for longer than this.
    pub(super) fn idle_long(&self, q: QueueId, now: Now, ms: u64) -> bool {
        let queue = &self.queues[q as usize];
        queue.in_flight == 0 && now.tick > queue.budget_deadline + self.clock.from_ms(ms)
    }

    /// Starts, renews or ends a raise at idle→busy.
    pub(super) fn raise_on_arrival(&mut self, q: QueueId, now: Now, deserves: bool, interactive: bool, soft_rt: bool) {
        let duration = self.raise_ticks();
        let soft_ticks = self.soft_rt_ticks();
        let min_budget = self.min_budget();
        let coeff = self.rules.raise_coeff;
        let queue = &mut self.queues[q as usize];
        let raise = &mut queue.raise;
        let old = raise.coeff;
        if old == 1 && deserves {
            raise.served = 0;
            if interactive {
                (raise.coeff, raise.max_time, raise.soft_rt) = (coeff, duration, false);
            } else {
                raise.interactive_start = super::queue::LONG_AGO;
                (raise.coeff, raise.max_time, raise.soft_rt) = (coeff * SOFT_RT_FACTOR, soft_ticks, true);
            }
            let budget = self.engine.entity(queue.entity).budget.min(2 * min_budget);
            self.engine.set_budget(queue.entity, budget);
        } else if old > 1 {
            if interactive {
                (raise.coeff, raise.max_time, raise.soft_rt) = (coeff, duration, false);
            } else if queue.large_burst {
                raise.coeff = 1;
            } else if soft_rt {
                if !raise.soft_rt {
                    raise.interactive_start = raise.start_or_end;
                    (raise.coeff, raise.max_time, raise.soft_rt) = (coeff * SOFT_RT_FACTOR, soft_ticks, true);
                }
                raise.start_or_end = now.tick;
            }
        }
        if self.queues[q as usize].raise.coeff != old {
            self.raise_changed(q);
        }
    }

    /// A busy async queue is raised as if interactive.
    pub(super) fn raise_async(&mut self, q: QueueId) {
        let duration = self.raise_ticks();
        let raise = &mut self.queues[q as usize].raise;
        (raise.coeff, raise.max_time, raise.soft_rt) = (self.rules.raise_coeff, duration, false);
        self.raised_busy += 1;
        self.raise_changed(q);
    }

    /// Tells the engine.
    pub(super) fn raise_changed(&mut self, q: QueueId) {
        let queue = &self.queues[q as usize];
        self.engine.set_raise(queue.entity, queue.raise.coeff);
    }

    /// Ends a raise.
    pub(super) fn end_raise(&mut self, q: QueueId, now: Now) {
        let queue = &mut self.queues[q as usize];
        if queue.busy && queue.raise.coeff > 1 {
            self.raised_busy -= 1;
        }
        if !queue.raise.soft_rt {
            queue.soft_rt_next_start = now.tick;
        }
        queue.raise = Raise { coeff: 1, max_time: 0, soft_rt: false, start_or_end: now.tick, ..queue.raise };
        self.raise_changed(q);
    }

    /// After soft real-time, back to the interactive raise it interrupted.
    pub(super) fn back_to_interactive(&mut self, q: QueueId) {
        let duration = self.raise_ticks();
        let raise = &mut self.queues[q as usize].raise;
        (raise.coeff, raise.max_time, raise.soft_rt) = (self.rules.raise_coeff, duration, false);
        raise.start_or_end = raise.interactive_start;
        self.raise_changed(q);
    }

    /// Has the interactive raise that a soft real-time one interrupted run out?
    pub(super) fn interrupted_is_over(&self, q: QueueId, now: Now) -> bool {
        now.tick > self.queues[q as usize].raise.interactive_start + self.raise_ticks()
    }

    /// After a dispatch of the queue in service: is the raise over?
    pub(super) fn update_raise(&mut self, q: QueueId, now: Now) {
        let queue = &self.queues[q as usize];
        let raise = queue.raise;
        if raise.coeff > 1 {
            if queue.large_burst {
                self.end_raise(q, now);
            } else if now.tick > raise.start_or_end + raise.max_time {
                if !raise.soft_rt || self.interrupted_is_over(q, now) {
                    self.end_raise(q, now);
                } else {
                    self.back_to_interactive(q);
                }
            }
            let raise = self.queues[q as usize].raise;
            if raise.coeff > 1 && !raise.soft_rt && raise.served > INTERACTIVE_SECTORS {
                self.end_raise(q, now);
            }
        }
        let queue = &self.queues[q as usize];
        let entity = self.engine.entity(queue.entity);
        if (entity.weight > u64::from(entity.base_weight)) != (queue.raise.coeff > 1) {
            self.engine.apply_raise(queue.entity);
            self.recount();
        }
    }

    /// When a request may next start a soft real-time raise.
    pub(super) fn soft_rt_start(&self, q: QueueId, now: Now) -> i64 {
        let queue = &self.queues[q as usize];
        let hz = self.clock.per_second() as u64;
        let served = (hz * queue.served_since_backlogged / SOFT_RT_RATE) as i64;
        let idle = (self.values.slice_idle / self.clock.period.0.max(1)) as i64;
        queue.soft_rt_next_start.max(queue.last_backlogged + served).max(now.tick + idle + 4)
    }

    /// Raised waiting out of service does not count as raised time.
    pub(super) fn shift_soft_rt(&mut self, q: QueueId, now: Now) {
        let queue = &mut self.queues[q as usize];
        let raise = &mut queue.raise;
        if raise.coeff > 1 && raise.soft_rt && now.tick > raise.start_or_end && now.tick > queue.budget_deadline {
            if queue.budget_deadline > raise.start_or_end {
                raise.start_or_end += now.tick - queue.budget_deadline;
            } else {
                raise.start_or_end = now.tick;
            }
        }
    }

    /// `low_latency` was switched off: everything weighs what it did.
    pub(super) fn end_all_raises(&mut self) {
        for q in 0..self.queues.len() as QueueId {
            if self.queues[q as usize].live && self.queues[q as usize].raise.coeff > 1 {
                let now = self.last_seen;
                self.end_raise(q, now);
            }
        }
    }
}
