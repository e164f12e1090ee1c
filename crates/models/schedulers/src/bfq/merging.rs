//! Early queue merge: processes that read next to each other share one queue, so that their requests go out in order;
//! split when what they share turns random. Queues created together on flash are merged for good.

use super::processes::Saved;
use super::queue::{LONG_AGO, NONE, QueueId, Raise};
use super::{Bfq, Generation, Now};

/// Positions this near are close, sectors.
const CLOSE: u64 = 8192;
const BURST_MS: u64 = 180;
const STABLE_MS: u64 = 600;

impl Bfq {
    /// The queue that the request (or arrival) at `sector` of `q` should join, if any.
    pub(super) fn cooperator(&mut self, q: QueueId, task: u32, sector: u64, now: Now) -> Option<QueueId> {
        if !self.values.on.merging || !self.queues[q].sync {
            return None;
        }
        if let Some(found) = self.stable_cooperator(q, task, now) {
            return found;
        }
        let queue = &self.queues[q];
        if self.device.nonrot_queueing || self.too_late(q, now) {
            return None;
        }
        let scheduled = queue.merge_into;
        if scheduled != NONE {
            return Some(scheduled);
        }
        // A seeky queue may not cooperate: there is no need to look for a queue near it.
        if self.counts.total() == 1 || queue.seeky() {
            return None;
        }
        if let Some(serving) = self.slot.queue
            && serving != q
            && self.slot.last_pos.abs_diff(sector) <= CLOSE
            && self.may_cooperate(q, serving, now)
            && let Some(found) = self.schedule_merge(q, serving)
        {
            return Some(found);
        }
        let near = self.groups.nearest(self.queues[q].group, sector, CLOSE).filter(|c| *c != q)?;
        if self.may_cooperate(q, near, now) { self.schedule_merge(q, near) } else { None }
    }

    /// `Some` where a scheduled stable merge decides.
    fn stable_cooperator(&mut self, q: QueueId, task: u32, now: Now) -> Option<Option<QueueId>> {
        let candidate = self.processes[task].stable_candidate;
        if candidate == NONE {
            return None;
        }
        let queue = &self.queues[q];
        let stable = self.time.clock.from_ms(STABLE_MS);
        if queue.just_created || now.tick <= queue.split + stable || now.tick <= queue.created + stable {
            return None;
        }
        self.processes[task].stable_candidate = NONE;
        let found = if self.idling_boosts(q) { None } else { self.schedule_merge(q, candidate) };
        self.let_go(candidate);
        if let Some(into) = found {
            self.mark_stable(task, into);
        }
        Some(found)
    }

    /// Marks `task` and the owner of the queue it joins: they will not split.
    fn mark_stable(&mut self, task: u32, into: QueueId) {
        self.processes[task].stably_merged = true;
        let owner = self.queues[into].task;
        if let Some(process) = self.processes.get_mut(owner) {
            process.stably_merged = true;
        }
    }

    /// Queues merge only within 100 ms from their first request.
    fn too_late(&self, q: QueueId, now: Now) -> bool {
        let queue = &self.queues[q];
        self.is(Generation::Mainline)
            && queue.served_since_backlogged > 0
            && now.tick > queue.first_io + self.time.spans.ms_100
    }

    fn may_cooperate(&self, q: QueueId, with: QueueId, now: Now) -> bool {
        let (a, b) = (&self.queues[q], &self.queues[with]);
        let idle = crate::mechanisms::wf2q::Class::Idle;
        let (class_a, class_b) = (self.class_of(q), self.class_of(with));
        a.group == b.group
            && !self.too_late(with, now)
            && class_a == class_b
            && class_a != idle
            && !a.seeky()
            && !b.seeky()
            && a.sync
            && b.sync
    }

    fn schedule_merge(&mut self, q: QueueId, into: QueueId) -> Option<QueueId> {
        let mut into = into;
        if self.queues[into].processes == 0 {
            return None;
        }
        while self.queues[into].merge_into != NONE {
            into = self.queues[into].merge_into;
            if into == q {
                return None;
            }
        }
        let (a, b) = (&self.queues[q], &self.queues[into]);
        if into == q || a.processes == 0 || b.processes == 0 || a.group != b.group {
            return None;
        }
        self.queues[q].merge_into = into;
        self.queues[into].held += 1;
        Some(into)
    }

    /// `task` uses `into` from now on.
    pub(super) fn merge_queues(&mut self, task: u32, q: QueueId, into: QueueId, now: Now) {
        self.save(q);
        self.save(into);
        let old = &self.queues[q];
        let (io_bound, waker, raise) = (old.io_bound, old.waker, old.raise);
        self.queues[q].io_bound = false;
        let target = &mut self.queues[into];
        target.io_bound |= io_bound;
        if waker != NONE && target.waker == NONE && waker != into {
            self.queues.set_waker(into, waker);
        }
        let target = &mut self.queues[into];
        if target.raise.coeff == 1 && raise.coeff > 1 {
            target.raise = raise;
            self.counts.raise_changed(target, false);
            self.raise_changed(into);
        }
        if raise.coeff > 1 {
            self.queues[q].raise.coeff = 1;
            self.counts.raise_changed(&self.queues[q], true);
            self.raise_changed(q);
        }
        let target = &mut self.queues[into];
        target.coop = true;
        target.task = NONE;
        target.processes += 1;
        self.queues[q].task = NONE;
        let group = self.queues[q].group;
        if self.groups[group].last_created == q {
            self.groups[group].last_created = into;
        }
        self.processes[task].queue = into;
        self.release(q, now);
    }

    fn save(&mut self, q: QueueId) {
        let raise_ticks = self.raise_ticks();
        let coeff = self.values.raise_coeff;
        let queue = &self.queues[q];
        if queue.task == NONE {
            return;
        }
        let mut raise = queue.raise;
        if queue.just_created && self.values.low_latency && !queue.large_burst {
            raise = Raise {
                coeff,
                max_time: raise_ticks,
                soft_rt: false,
                start_or_end: self.time.now.tick,
                interactive_start: LONG_AGO,
                served: 0,
            };
        }
        *self.processes.saved_mut(queue.task) = Some(Saved {
            think: queue.think,
            short_think: queue.short_think,
            io_bound: queue.io_bound,
            window_start: queue.window_start,
            idle_sum: queue.idle_sum,
            large_burst: queue.large_burst,
            injection: queue.injection,
            raise,
            soft_rt_next_start: queue.soft_rt_next_start,
        });
    }

    /// The process leaves the queue it shares; or, if it is alone in it, reclaims it. Returns a reclaimed queue.
    pub(super) fn split(&mut self, task: u32, now: Now) -> Option<QueueId> {
        let q = self.processes[task].queue;
        let queue = &mut self.queues[q];
        if queue.processes == 1 {
            queue.coop = false;
            queue.split_wanted = false;
            queue.task = task;
            return Some(q);
        }
        self.processes[task].queue = NONE;
        self.release(q, now);
        None
    }

    /// Restores, after a split, the state that the process's queue had before the merge.
    pub(super) fn resume(&mut self, q: QueueId, task: u32, now: Now) {
        let over =
            |bfq: &Bfq, raise: &Raise| now.tick > raise.start_or_end + raise.max_time || bfq.queues[q].large_burst;
        let Some(saved) = self.processes.saved_mut(task).take() else {
            self.queues[q].split = now.tick;
            return;
        };
        let queue = &mut self.queues[q];
        let was_raised = queue.raise.coeff > 1;
        queue.short_think = saved.short_think;
        queue.io_bound = saved.io_bound;
        queue.window_start = saved.window_start;
        queue.idle_sum = saved.idle_sum;
        queue.injection = saved.injection;
        queue.think = saved.think;
        queue.large_burst |= saved.large_burst;
        queue.raise = saved.raise;
        queue.soft_rt_next_start = saved.soft_rt_next_start;
        queue.split = now.tick;
        let raise = saved.raise;
        if raise.coeff > 1 && over(self, &raise) {
            if raise.soft_rt && !self.queues[q].large_burst && !self.interrupted_is_over(q, now) {
                self.back_to_interactive(q);
            } else {
                self.queues[q].raise.coeff = 1;
            }
        }
        self.raise_changed(q);
        self.counts.raise_changed(&self.queues[q], was_raised);
    }

    /// A sync queue was created: merge it with the one created before it, now or later?
    pub(super) fn stable_merge(&mut self, q: QueueId, task: u32, now: Now) -> QueueId {
        if !self.values.on.merging || !self.values.on.stable_merge {
            return q;
        }
        let queue = &self.queues[q];
        let group = queue.group;
        let last = self.groups[group].last_created;
        let fits = last != NONE && {
            let other = &self.queues[last];
            queue.created <= other.created + self.time.clock.from_ms(STABLE_MS)
                && queue.level == other.level
                && self.wanted_class(q) == self.wanted_class(last)
        };
        if !fits {
            self.groups[group].last_created = q;
            return q;
        }
        if queue.created > self.queues[last].created + self.time.clock.from_ms(BURST_MS) {
            return q;
        }
        if self.device.nonrot_queueing {
            if let Some(into) = self.schedule_merge(q, last) {
                self.mark_stable(task, into);
                self.merge_queues(task, q, into, now);
                return into;
            }
        } else {
            self.processes[task].stable_candidate = last;
            self.queues[last].held += 1;
        }
        q
    }

    /// Moves a request's process to a cooperating queue, if there is one; returns its queue.
    pub(super) fn redirect(&mut self, q: QueueId, task: u32, sector: u64, now: Now) -> QueueId {
        match self.cooperator(q, task, sector, now) {
            Some(into) => {
                self.merge_queues(task, q, into, now);
                into
            }
            None => q,
        }
    }
}
