//! When the device is left idle on purpose, so that a queue or a group can send its next request.

use super::queue::{IDLE, NO_IDLE, NONE};
use super::{Cfq, Version};

/// Queued at once, these make a queue deep.
const DEEP: usize = 4;

impl Cfq {
    /// Does the device queue requests itself? Assumed until it is known.
    fn device_queues(&self) -> bool {
        !self.rotational && self.depth.tag != 0
    }

    /// Is the device left idle when this queue runs empty?
    pub(super) fn should_idle(&self, q: u32) -> bool {
        let queue = &self.queues[q as usize];
        if self.set.slice_idle == 0 || queue.class == IDLE {
            return false;
        }
        if queue.idle_window && !self.device_queues() {
            return true;
        }
        let tree = &self.groups[queue.group as usize].trees[usize::from(self.home_of(q))];
        tree.tree.len() == 1 && queue.sync && !tree.think.big(self.set.slice_idle)
    }

    /// The active queue ran empty: starts the idle timer where idling pays.
    pub(super) fn arm(&mut self, q: u32, now: i64) {
        let no_arm = self.device_queues() && self.version != Version::K310;
        if no_arm && (self.version == Version::K318 || self.set.group_idle == 0) {
            return;
        }
        let queue = &self.queues[q as usize];
        let group = &self.groups[queue.group as usize];
        let span = if self.should_idle(q) {
            self.set.slice_idle
        } else if self.set.group_idle > 0 && group.queues == 1 {
            let tree = &group.trees[usize::from(self.home_of(q))];
            if self.version == Version::K420 && tree.think.big(self.set.group_idle) {
                return;
            }
            self.set.group_idle
        } else {
            return;
        };
        if queue.in_flight > 0 || queue.tasks == 0 {
            return;
        }
        if let Some(think) = self.think_of_last_task()
            && think.big(queue.slice_end - now)
        {
            return;
        }
        self.queues[q as usize].waiting = true;
        self.idle_timer = Some(self.clock.time_of(now + span));
    }

    pub(super) fn think_of_last_task(&self) -> Option<&super::queue::ThinkTime> {
        self.processes.get(self.last_task as usize).map(|p| &p.think)
    }

    /// Updates from an arrival whether idling for this queue pays.
    pub(super) fn update_idle_window(&mut self, q: u32, task: usize, next_is_last: bool) {
        let slice_idle = self.set.slice_idle;
        let process = self.processes[task];
        let queue = &mut self.queues[q as usize];
        if !queue.sync || queue.class == IDLE {
            return;
        }
        queue.deep |= queue.requests.len() >= DEEP;
        if next_is_last || !process.alive || slice_idle == 0 || (!queue.deep && queue.seeky()) {
            queue.idle_window = false;
        } else if process.think.valid() {
            queue.idle_window = !process.think.big(slice_idle);
        }
    }

    /// A lone queue of its group, empty, whose slice is over or will be before its next request: it stays until that
    /// arrives, so that the group does not lose its place.
    pub(super) fn should_wait_busy(&self, q: u32, now: i64) -> bool {
        let queue = &self.queues[q as usize];
        let group = &self.groups[queue.group as usize];
        if !queue.is_empty() || group.queues > 1 || group.think.big(self.set.group_idle) {
            return false;
        }
        let rest = queue.slice_end - now;
        let thinks_longer = self.think_of_last_task().is_some_and(|t| t.big(rest));
        queue.slice_used(now) || thinks_longer || rest <= self.clock.tick
    }

    /// The idle timer has run out.
    pub(super) fn idle_timer_fires(&mut self, now: i64) {
        self.idle_timer = None;
        let q = self.active;
        if q == NONE {
            return;
        }
        let queue = &mut self.queues[q as usize];
        if queue.must_dispatch {
            return;
        }
        if queue.slice_used(now) {
            self.expire(false, now);
        } else if self.busy_queues > 0 && queue.is_empty() {
            queue.deep = false;
            self.expire(false, now);
        }
    }

    /// The workload of queues that are not idled for is being served.
    pub(super) fn serving_no_idle(&self) -> bool {
        self.serving.class != IDLE && self.serving.kind == NO_IDLE
    }
}
