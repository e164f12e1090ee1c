//! Weight raising: interactive and soft real-time queues get many times their weight for a while.

use super::queue::{QueueId, Raise};
use super::{Bfq, Generation, Now};

const SOFT_RT_MS: u64 = 300;
/// Sectors per second that a soft real-time queue may need.
const SOFT_RT_RATE: u64 = 7000;
/// A linear raise ends after this and comes back after that.
const LINEAR_MS: u64 = 6000;
const LINEAR_SPACING_MS: u64 = 20_000;
/// Reference rates, sectors per µs × 2¹⁶, and durations of v7r8's raises, fast devices and slow: rotational, then flash.
const REFERENCES: [[(u64, u64); 2]; 2] = [[(17_415, 5500), (1536, 2600)], [(34_791, 2000), (10_752, 1000)]];

impl Bfq {
    /// How long an interactive raise lasts on this device, in ticks.
    pub(super) fn raise_ticks(&self) -> i64 {
        let hz = self.time.spans.second;
        if !self.is(Generation::Mainline) {
            let [fast, slow] = REFERENCES[usize::from(!self.device.rotational_at_start)];
            let (rate, ms) = if self.estimate.peak.rate > u64::midpoint(fast.0, slow.0) { fast } else { slow };
            return (rate * (ms * hz / 1000) / self.estimate.peak.rate.max(1)) as i64;
        }
        let (rate, ms) = if self.device.rotational_at_start { (14_000, 7000) } else { (33_000, 2500) };
        let ticks = (rate * (ms * hz / 1000) / self.estimate.peak.rate.max(1)) as i64;
        ticks.clamp(self.time.clock.from_ms(3000), self.time.clock.from_ms(25_000))
    }

    fn soft_rt_ticks(&self) -> i64 {
        self.time.clock.from_ms(SOFT_RT_MS)
    }

    /// Does an arrival make its queue look interactive, or soft real-time?
    pub(super) fn judge_arrival(&self, q: QueueId, now: Now) -> (bool, bool) {
        let queue = &self.queues[q];
        let default_weight = !self.values.on.raise_default_only
            || self.engine.entity(queue.entity).wanted_weight == self.constants.default_weight;
        let in_burst = queue.large_burst;
        let interactive = !in_burst && self.idle_long(q, now, self.time.spans.ms_2000) && default_weight;
        let isochronous = !self.is(Generation::Mainline) || (!queue.totally_seeky() && queue.in_flight == 0);
        let soft_rt =
            self.values.on.soft_rt && isochronous && !in_burst && now.tick > queue.soft_rt_next_start && default_weight;
        (interactive, soft_rt)
    }

    /// Was the queue inactive, with nothing in flight, for longer than this, in ticks?
    pub(super) fn idle_long(&self, q: QueueId, now: Now, ticks: i64) -> bool {
        let queue = &self.queues[q];
        queue.in_flight == 0 && now.tick > queue.budget_deadline + ticks
    }

    /// Starts, renews or ends a raise of a queue that becomes busy.
    pub(super) fn raise_on_arrival(&mut self, q: QueueId, now: Now, deserves: bool, interactive: bool, soft_rt: bool) {
        if self.queues[q].raise.coeff == 1 && !deserves {
            return;
        }
        let duration = if interactive { self.raise_ticks() } else { 0 };
        let soft_ticks = self.soft_rt_ticks();
        let min_budget = self.min_budget(q);
        let coeff = self.values.raise_coeff;
        let soft_coeff = coeff * self.constants.soft_rt_factor;
        let mainline = self.is(Generation::Mainline);
        let queue = &mut self.queues[q];
        let raise = &mut queue.raise;
        let old = raise.coeff;
        let was_soft_rt = old > 1 && raise.soft_rt;
        if old == 1 && deserves {
            raise.served = 0;
            if interactive {
                (raise.coeff, raise.max_time, raise.soft_rt) = (coeff, duration, false);
            } else {
                raise.interactive_start = super::queue::LONG_AGO;
                (raise.coeff, raise.max_time, raise.soft_rt) = (soft_coeff, soft_ticks, true);
            }
            if mainline {
                let budget = self.engine.entity(queue.entity).budget.min(2 * min_budget);
                self.engine.set_budget(queue.entity, budget);
            }
        } else if old > 1 {
            if interactive {
                (raise.coeff, raise.max_time, raise.soft_rt) = (coeff, duration, false);
            } else if queue.large_burst {
                raise.coeff = 1;
            } else if soft_rt && !mainline {
                // Only what would extend the period renews it.
                if now.tick + soft_ticks > raise.start_or_end + raise.max_time {
                    (raise.max_time, raise.soft_rt, raise.start_or_end) = (soft_ticks, true, now.tick);
                }
            } else if soft_rt {
                if !raise.soft_rt {
                    raise.interactive_start = raise.start_or_end;
                    (raise.coeff, raise.max_time, raise.soft_rt) = (soft_coeff, soft_ticks, true);
                }
                raise.start_or_end = now.tick;
            } else if raise.soft_rt && !mainline {
                // It arrived too early for a soft real-time queue.
                (raise.coeff, raise.soft_rt) = (1, false);
            }
        }
        let raise = &self.queues[q].raise;
        let soft_rt = raise.coeff > 1 && raise.soft_rt;
        if soft_rt && !was_soft_rt {
            self.tally.raises[1] += 1;
        } else if old == 1 && raise.coeff > 1 {
            self.tally.raises[0] += 1;
        }
        if raise.coeff != old {
            self.raise_changed(q);
        }
    }

    /// A queue becomes busy, where a raise falls with the service: starts a full raise if the last was long ago.
    pub(super) fn raise_linearly(&mut self, q: QueueId, now: Now) {
        let spacing = self.time.clock.from_ms(LINEAR_SPACING_MS);
        let queue = &mut self.queues[q];
        let due = queue.raise.coeff == 1 && now.tick >= queue.raise.start_or_end + spacing;
        if self.values.low_latency && self.values.on.raising && queue.sync && due {
            queue.raise = Raise { coeff: self.values.raise_coeff, start_or_end: now.tick, served: 0, ..Raise::NO };
            self.raise_changed(q);
        }
    }

    /// Reduces a linear raise after a dispatch.
    fn lower_raise(&mut self, q: QueueId, now: Now) {
        let whole = self.values.raise_sectors.max(1);
        let most = self.values.raise_coeff;
        let raise = &mut self.queues[q].raise;
        let over = now.tick > raise.start_or_end + self.time.clock.from_ms(LINEAR_MS);
        let left = if over { 0 } else { whole.saturating_sub(raise.served) };
        let coeff = 1 + (u64::from(most.max(1) - 1) * left / whole) as u32;
        if coeff == raise.coeff {
            return;
        }
        raise.coeff = coeff;
        self.counts.raise_changed(&self.queues[q], true);
        self.raise_changed(q);
    }

    /// A busy async queue is raised as if interactive.
    pub(super) fn raise_async(&mut self, q: QueueId) {
        if self.values.raise_coeff == 1 {
            return;
        }
        let duration = self.raise_ticks();
        let raise = &mut self.queues[q].raise;
        (raise.coeff, raise.max_time, raise.soft_rt) = (self.values.raise_coeff, duration, false);
        self.counts.raised += 1;
        self.raise_changed(q);
    }

    /// Passes a changed coefficient on to the engine.
    pub(super) fn raise_changed(&mut self, q: QueueId) {
        let queue = &self.queues[q];
        self.engine.set_raise(queue.entity, queue.raise.coeff);
    }

    /// Ends a raise.
    pub(super) fn end_raise(&mut self, q: QueueId, now: Now) {
        let queue = &mut self.queues[q];
        if queue.busy && queue.raise.coeff > 1 {
            self.counts.raised -= 1;
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
        let raise = &mut self.queues[q].raise;
        (raise.coeff, raise.max_time, raise.soft_rt) = (self.values.raise_coeff, duration, false);
        raise.start_or_end = raise.interactive_start;
        self.raise_changed(q);
    }

    /// Has the interactive raise that a soft real-time one interrupted run out?
    pub(super) fn interrupted_is_over(&self, q: QueueId, now: Now) -> bool {
        now.tick > self.queues[q].raise.interactive_start + self.raise_ticks()
    }

    /// After a dispatch of the queue in service: is the raise over?
    pub(super) fn update_raise(&mut self, q: QueueId, now: Now) {
        let queue = &self.queues[q];
        let raise = queue.raise;
        if raise.coeff > 1 && self.values.on.linear_raise {
            self.lower_raise(q, now);
        } else if raise.coeff > 1 {
            if queue.large_burst {
                self.end_raise(q, now);
            } else if now.tick > raise.start_or_end + raise.max_time {
                if !raise.soft_rt || self.interrupted_is_over(q, now) {
                    self.end_raise(q, now);
                } else {
                    self.back_to_interactive(q);
                }
            }
            let raise = self.queues[q].raise;
            let cap = self.values.raise_sectors;
            if raise.coeff > 1 && !raise.soft_rt && cap > 0 && raise.served > cap {
                self.end_raise(q, now);
            }
        }
        let queue = &self.queues[q];
        let entity = self.engine.entity(queue.entity);
        if (entity.weight > u64::from(entity.base_weight)) != (queue.raise.coeff > 1) {
            self.engine.apply_raise(queue.entity);
            self.recount();
        }
    }

    /// When a request may next start a soft real-time raise.
    pub(super) fn soft_rt_start(&self, q: QueueId, now: Now) -> i64 {
        let queue = &self.queues[q];
        let hz = self.time.spans.second;
        let served = (hz * queue.served_since_backlogged / SOFT_RT_RATE) as i64;
        let idle = (self.values.slice_idle / self.time.clock.period.0.max(1)) as i64;
        let earliest = if self.is(Generation::Mainline) { queue.soft_rt_next_start } else { i64::MIN };
        earliest.max(queue.last_backlogged + served).max(now.tick + idle + 4)
    }

    /// Raised waiting out of service does not count as raised time.
    pub(super) fn shift_soft_rt(&mut self, q: QueueId, now: Now) {
        let queue = &mut self.queues[q];
        let raise = &mut queue.raise;
        if raise.coeff > 1 && raise.soft_rt && now.tick > raise.start_or_end && now.tick > queue.budget_deadline {
            if queue.budget_deadline > raise.start_or_end {
                raise.start_or_end += now.tick - queue.budget_deadline;
            } else {
                raise.start_or_end = now.tick;
            }
        }
    }

    /// `low_latency` was switched off: every queue has its configured weight again.
    pub(super) fn end_all_raises(&mut self) {
        for q in 0..self.queues.len() {
            if self.queues.get(q).is_some_and(|queue| queue.raise.coeff > 1) {
                let now = self.time.now;
                self.end_raise(q, now);
            }
        }
    }
}
