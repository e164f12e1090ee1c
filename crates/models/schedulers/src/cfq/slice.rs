//! Slices: how long, where in line, when they begin and end.

use super::queue::{BEST_EFFORT, HOMELESS, IDLE, NONE, SYNC};
use super::shares::mul_div;
use super::{Cfq, Serving, Version};

impl Cfq {
    /// A fifth of the base slice more or less per level.
    pub(super) fn slice_of_level(&self, sync: bool, level: u8) -> i64 {
        let base = self.set.slice[usize::from(sync)];
        base + base / 5 * (4 - i64::from(level))
    }

    /// The slice of a queue, cut where low latency asks all queues of its class to fit into the target.
    pub(super) fn scaled_slice(&mut self, q: u32) -> i64 {
        let queue = &self.queues[q as usize];
        let (g, class) = (queue.group, queue.class);
        let slice = self.slice_of_level(queue.sync, queue.level);
        if !self.set.low_latency {
            return slice;
        }
        let average = self.groups[g as usize].update_average(class);
        let all = self.set.slice[1].saturating_mul(i64::from(average));
        let share = self.share_of_target(g);
        if all <= share {
            return slice;
        }
        let low = match self.set.slice_idle {
            0 => 0,
            idle => slice.min(mul_div(2 * idle, slice, self.set.slice[1])),
        };
        mul_div(slice, share, all).max(low)
    }

    /// Puts a queue in its place on its service tree; `front`: before all others there.
    pub(super) fn line_up(&mut self, q: u32, front: bool, now: i64) {
        let queue = &self.queues[q as usize];
        let (g, home, old) = (queue.group, queue.proper_home(), queue.home);
        let new = old == HOMELESS;
        let group = &self.groups[g as usize];
        let tree = &group.trees[usize::from(home)].tree;
        let key = if queue.class == IDLE {
            match tree.last().filter(|last| *last != q) {
                Some(last) => self.service.key(last) + self.clock.second / 5,
                None => now + self.clock.second / 5,
            }
        } else if front {
            tree.first().map_or(now, |first| self.service.key(first)) - self.clock.second
        } else {
            let others = i64::from(group.queues + u32::from(new)) - 1;
            let offset = self.slice_of_level(true, 0) - self.slice_of_level(queue.sync, queue.level);
            let key = now + others * offset - queue.residual;
            self.queues[q as usize].residual = 0;
            key
        };
        if !new {
            if old == home && self.service.key(q) == key {
                return;
            }
            self.service.remove(&mut self.groups[g as usize].trees[usize::from(old)].tree, q);
        }
        self.service.insert(&mut self.groups[g as usize].trees[usize::from(home)].tree, q, key);
        self.queues[q as usize].home = home;
        if new {
            self.busy_queues += 1;
            self.busy_sync += u32::from(self.queues[q as usize].sync);
            self.groups[g as usize].queues += 1;
            if self.groups[g as usize].queues == 1 {
                self.activate_group(g);
            }
        }
    }

    /// Takes an empty queue off its service tree.
    pub(super) fn leave_line(&mut self, q: u32) {
        let queue = &mut self.queues[q as usize];
        let (g, home) = (queue.group, std::mem::replace(&mut queue.home, HOMELESS));
        self.busy_sync -= u32::from(queue.sync);
        self.busy_queues -= 1;
        self.service.remove(&mut self.groups[g as usize].trees[usize::from(home)].tree, q);
        self.groups[g as usize].queues -= 1;
        if self.groups[g as usize].queues == 0 {
            self.deactivate_group(g);
        }
    }

    /// Chooses the workload of the group being served: class, kind, and for how long.
    fn choose_workload(&mut self, now: i64) {
        let g = self.serving.group as usize;
        let before = self.serving.class;
        let class = (0..IDLE).find(|c| self.groups[g].busy(*c) > 0).unwrap_or(IDLE);
        self.serving.class = class;
        if class == IDLE {
            self.serving.end = now + self.workload_slice();
            return;
        }
        let count = |cfq: &Cfq| cfq.groups[g].trees[usize::from(class * 3 + cfq.serving.kind)].tree.len();
        if before == class && count(self) > 0 && now <= self.serving.end {
            return;
        }
        let firsts = (0..=SYNC).filter_map(|kind| {
            let first = self.groups[g].trees[usize::from(class * 3 + kind)].tree.first()?;
            Some((self.service.key(first), kind))
        });
        self.serving.kind = firsts.min().map_or(super::queue::NO_IDLE, |(_, kind)| kind);
        self.serving.end = now + self.workload_slice();
    }

    /// How long the workload to serve next may be served.
    fn workload_slice(&self) -> i64 {
        let Serving { group, class, kind, .. } = self.serving;
        if class == IDLE {
            return self.clock.tick;
        }
        let group = &self.groups[group as usize];
        let count = group.trees[usize::from(class * 3 + kind)].tree.len();
        let busy = i64::from(group.average(class).max(group.busy(class)).max(1));
        let mut slice = mul_div(self.share_of_target(self.serving.group), count as i64, busy);
        if kind == super::queue::ASYNC {
            let asyncs = i64::from(group.busy_async());
            slice = slice.min(mul_div(self.set.target_latency, asyncs, i64::from(self.busy_queues)));
            slice = mul_div(slice, self.set.slice[0], self.set.slice[1]);
        } else {
            slice = slice.max(2 * self.set.slice_idle);
        }
        slice.max(if self.version == Version::K420 { self.clock.span_of_ms(2) } else { 2 })
    }

    /// Makes this the workload to serve next, even out of turn.
    pub(super) fn serve_workload(&mut self, group: u32, class: u8, kind: u8, now: i64) {
        let serving = &self.serving;
        if (serving.group, serving.class, serving.kind) != (group, class, kind) {
            self.serving = Serving { group, class, kind, end: now };
            self.serving.end += self.workload_slice();
        }
    }

    /// The queue to serve next, of the group and workload to serve next.
    pub(super) fn choose_queue(&mut self, now: i64) -> Option<u32> {
        let g = self.choose_group(now)? as usize;
        self.choose_workload(now);
        let tree = match self.serving.class {
            IDLE => usize::from(IDLE) * 3,
            class => usize::from(class * 3 + self.serving.kind),
        };
        self.groups[g].trees[tree].tree.first()
    }

    /// A queue's slice begins; its clock starts with the first completion.
    pub(super) fn activate(&mut self, q: u32, now: i64) {
        let queue = &mut self.queues[q as usize];
        queue.activated = now;
        queue.slice_start = 0;
        queue.slice_end = 0;
        queue.allocated = 0;
        queue.dispatched = 0;
        queue.waiting = false;
        queue.must_dispatch = false;
        queue.fifo_checked = false;
        queue.slice_new = true;
        self.idle_timer = None;
        self.active = q;
        self.begin_turn(now);
    }

    /// The slice's clock starts.
    pub(super) fn start_slice(&mut self, q: u32, now: i64) {
        let slice = self.scaled_slice(q);
        let queue = &mut self.queues[q as usize];
        queue.slice_new = false;
        queue.slice_start = now;
        queue.slice_end = now + slice;
        queue.allocated = slice;
    }

    /// The active queue's slice is over. `timed_out`: the unused or overused rest of it moves its place in line.
    pub(super) fn expire(&mut self, timed_out: bool, now: i64) {
        let q = std::mem::replace(&mut self.active, NONE);
        if q == NONE {
            return;
        }
        self.idle_timer = None;
        let queue = &mut self.queues[q as usize];
        queue.waiting = false;
        queue.wait_busy = false;
        queue.must_dispatch = false;
        queue.split |= queue.coop && queue.seeky();
        if timed_out {
            let residual = if self.queues[q as usize].slice_new {
                self.scaled_slice(q)
            } else {
                self.queues[q as usize].slice_end - now
            };
            self.queues[q as usize].residual = residual;
        }
        if self.queues[q as usize].home == HOMELESS {
            return;
        }
        self.charge_slice(q, now);
        if self.queues[q as usize].is_empty() {
            self.leave_line(q);
            self.release_queue(q);
        } else {
            self.line_up(q, false, now);
        }
    }

    fn charge_slice(&mut self, q: u32, now: i64) {
        let queue = &self.queues[q as usize];
        let group = &self.groups[queue.group as usize];
        let since_start = now - queue.slice_start;
        let used = if queue.slice_new || since_start == 0 {
            (now - queue.activated).max(self.clock.tick)
        } else {
            since_start.min(queue.allocated)
        };
        let charge = if self.counts_requests() {
            i64::from(queue.dispatched)
        } else if !queue.sync && group.queues == group.busy_async() {
            queue.allocated
        } else {
            used
        };
        let g = queue.group;
        self.charge_group(g, charge);
        let rest = (self.serving.end - now).max(0);
        self.groups[g as usize].saved =
            super::group::Saved { rest, class: self.serving.class, kind: self.serving.kind };
    }

    /// Requests after which an async slice ends.
    pub(super) fn async_requests(&self, level: u8) -> u32 {
        self.set.slice_async_rq.saturating_mul(2).saturating_mul(8 - u32::from(level.min(7)))
    }

    /// In 4.20 a request that asks for preference lifts its queue to best effort, level 4 at least.
    pub(super) fn boost(&mut self, q: u32, preferred: bool) {
        if self.version == Version::K420 {
            let queue = &mut self.queues[q as usize];
            (queue.class, queue.level) = queue.asked;
            if preferred {
                queue.class = queue.class.min(BEST_EFFORT);
                queue.level = queue.level.min(4);
            }
        }
    }
}
