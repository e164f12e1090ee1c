//! A request is done: think times start, slices start and end, and the device shows whether it queues.

use dumbwaiter_block::{Context, RequestId};

use super::Cfq;
use super::queue::{IDLE, NONE};

/// Requests at once that show a device which queues.
const HW_QUEUE_MIN: u32 = 5;
/// Completions after which the device's depth is judged.
const DEPTH_SAMPLES: u32 = 50;

impl Cfq {
    fn sense_depth(&mut self) {
        self.depth.most = self.depth.most.max(self.in_driver);
        if self.depth.tag == 1 || (self.rq_queued <= HW_QUEUE_MIN && self.in_driver <= HW_QUEUE_MIN) {
            return;
        }
        // A queue that sends one request at a time, with idling between, shows nothing of the depth.
        if self.active != NONE {
            let queue = &self.queues[self.active as usize];
            let has = queue.in_flight + queue.requests.len() as u32;
            if queue.idle_window && has < HW_QUEUE_MIN && self.in_driver < HW_QUEUE_MIN {
                return;
            }
        }
        if self.depth.samples < DEPTH_SAMPLES {
            self.depth.samples += 1;
            return;
        }
        self.depth.tag = i8::from(self.depth.most >= HW_QUEUE_MIN);
    }

    pub(super) fn done(&mut self, id: RequestId, ctx: &Context<'_>) {
        let entry = self.entries[id.index()];
        self.sense_depth();
        self.in_driver -= u32::from(entry.in_driver);
        self.entries[id.index()].in_driver = false;
        if !entry.in_flight {
            return;
        }
        self.entries[id.index()].in_flight = false;
        let now = self.clock.count(ctx.now);
        let request = &ctx.requests[id];
        let q = entry.queue;
        let home = usize::from(self.home_of(q));
        let queue = &mut self.queues[q as usize];
        let (g, sync) = (queue.group, queue.sync);
        queue.in_flight -= 1;
        self.in_flight[usize::from(sync)] -= 1;
        let group = &mut self.groups[g as usize];
        group.in_flight -= 1;
        group.think.last_end = now;
        if sync {
            group.trees[home].think.last_end = now;
            if let Some(process) = self.processes.get_mut(request.io.task.0 as usize) {
                process.think.last_end = now;
            }
            if self.clock.longer_than(self.set.fifo_expire[1], request.start, ctx.now) {
                self.last_delayed_sync = now;
            }
        }
        self.tenant_done(g, sync, ctx.now);
        if q == self.active {
            self.active_done(q, now);
        } else {
            self.release_queue(q);
        }
    }

    fn active_done(&mut self, q: u32, now: i64) {
        if self.queues[q as usize].slice_new {
            self.start_slice(q, now);
        }
        if self.should_wait_busy(q, now) {
            let more = if self.set.slice_idle > 0 { self.set.slice_idle } else { self.set.group_idle };
            let queue = &mut self.queues[q as usize];
            queue.slice_end = now + more;
            queue.wait_busy = true;
        }
        let queue = &self.queues[q as usize];
        if queue.slice_used(now) || queue.class == IDLE {
            self.expire(true, now);
        } else if queue.sync && queue.is_empty() && self.close_cooperator(q).is_none() {
            self.arm(q, now);
        }
    }
}
