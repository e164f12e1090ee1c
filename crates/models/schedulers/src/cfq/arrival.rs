//! A request arrives: its queue, what it shows about its task, and whether it preempts.

use dumbwaiter_block::{Context, Dir, Flags, Request, RequestId};

use super::process::Process;
use super::queue::{HOMELESS, IDLE, NO_IDLE, NONE, Queue, REALTIME, ThinkTime, rank_of};
use super::requests::preferred;
use super::{Cfq, RequestState, Version};

/// An arrival of at most a page is held back a moment for a merge.
const PAGE_SECTORS: u32 = 8;

impl Cfq {
    pub(super) fn arrive(&mut self, id: RequestId, ctx: &Context<'_>) {
        let now = self.clock.count(ctx.now);
        let request = &ctx.requests[id];
        let (io, sync) = (&request.io, request.sync());
        let task = io.task.0 as usize;
        if task >= self.processes.len() {
            let fresh = Process { queue: NONE, think: ThinkTime::new(now), alive: true };
            self.processes.resize(task + 1, fresh);
        }
        if !self.processes[task].alive {
            // The number of an exited task belongs to a new task.
            self.processes[task] = Process { queue: NONE, think: ThinkTime::new(now), alive: true };
        }
        let group = self.group_of(io.tenant, ctx);
        let asked = rank_of(io.ioprio);
        let q = if sync { self.sync_queue(task, group, asked) } else { self.async_queue(group, asked) };
        let preferred = preferred(request);
        self.boost(q, preferred);

        let deadline = now + self.set.fifo_expire[usize::from(sync)];
        self.entries[id.index()] = RequestState { queue: q, deadline, preferred, ..RequestState::default() };
        let queue = &mut self.queues[q as usize];
        let g = queue.group;
        queue.fifo.push_back(&mut self.links, id);
        queue.prio_pending += u32::from(preferred);
        self.by_sector.insert(&mut queue.requests, id.0, request.sector);
        self.rq_queued += 1;
        self.groups[g as usize].queued += 1;
        self.tenant_asks(g);
        if self.queues[q as usize].home == HOMELESS {
            self.line_up(q, false, now);
        }
        let old = self.queues[q as usize].next;
        let next = self.better(old, id.0, self.head, ctx);
        self.queues[q as usize].next = next;
        let was_seeky = self.queues[q as usize].seeky();
        self.learn(q, task, request, next, now, ctx);
        if next != old || was_seeky != self.queues[q as usize].seeky() {
            self.reposition(q);
        }
        if self.active == q {
            if self.queues[q as usize].waiting {
                if request.sectors > PAGE_SECTORS || self.busy_queues > 1 {
                    self.queues[q as usize].waiting = false;
                    self.idle_timer = None;
                } else {
                    self.queues[q as usize].must_dispatch = true;
                }
            }
        } else if self.preempts(q, request, preferred, now) {
            self.preempt(q, now);
        }
    }

    /// Think times, seeks, and whether idling pays.
    fn learn(&mut self, q: u32, task: usize, request: &Request, next: u32, now: i64, ctx: &Context<'_>) {
        let home = usize::from(self.home_of(q));
        let queue = &mut self.queues[q as usize];
        let group = &mut self.groups[queue.group as usize];
        if queue.sync {
            self.processes[task].think.arrival(now, self.set.slice_idle);
            group.trees[home].think.arrival(now, self.set.slice_idle);
        }
        group.think.arrival(now, self.set.group_idle);
        queue.note_place(request.sector, request.sectors, self.rotational);
        let next = &ctx.requests[RequestId(next)];
        let last = next.io.op.dir() == Dir::Write && next.sync() && !next.io.flags.has(Flags::IDLE);
        self.update_idle_window(q, task, last);
    }

    /// The queue of a task: its own, or the one that its queue merges into.
    fn sync_queue(&mut self, task: usize, group: u32, asked: (u8, u8)) -> u32 {
        self.processes[task].alive = true;
        let mut q = self.processes[task].queue;
        if q != NONE && self.queues[q as usize].split {
            let queue = &mut self.queues[q as usize];
            if queue.tasks == 1 {
                queue.split = false;
                queue.coop = false;
            } else {
                self.detach(task);
                q = NONE;
            }
        }
        if q != NONE && self.queues[q as usize].merge_into != NONE {
            q = self.follow_merge(task, q);
        }
        if q != NONE && self.queues[q as usize].group != group {
            let queue = &mut self.queues[q as usize];
            let unused = queue.is_empty() && queue.in_flight == 0 && queue.home == HOMELESS && self.active != q;
            if unused && queue.tasks == 1 && queue.pointers == 0 {
                let old = std::mem::replace(&mut queue.group, group);
                self.groups[group as usize].references += 1;
                self.release_group(old);
            } else {
                self.detach(task);
                q = NONE;
            }
        }
        if q == NONE {
            q = self.new_queue(Queue::new(group, true, asked));
            self.queues[q as usize].tasks = 1;
            self.processes[task].queue = q;
        }
        if self.queues[q as usize].asked != asked {
            self.queues[q as usize].ask(asked);
        }
        q
    }

    fn follow_merge(&mut self, task: usize, q: u32) -> u32 {
        let mut target = q;
        while self.queues[target as usize].merge_into != NONE {
            target = self.queues[target as usize].merge_into;
        }
        self.queues[target as usize].tasks += 1;
        self.queues[target as usize].coop = true;
        self.detach(task);
        self.processes[task].queue = target;
        target
    }

    fn async_queue(&mut self, group: u32, asked: (u8, u8)) -> u32 {
        let (group, place) = self.async_place(group, asked);
        let q = self.groups[group as usize].asyncs[place];
        if q != NONE {
            return q;
        }
        let q = self.new_queue(Queue::new(group, false, asked));
        // The table counts as a task: the queue stays.
        self.queues[q as usize].tasks = 1;
        self.groups[group as usize].asyncs[place] = q;
        q
    }

    fn preempts(&self, n: u32, request: &Request, preferred: bool, now: i64) -> bool {
        if self.active == NONE {
            return false;
        }
        let (new, active) = (&self.queues[n as usize], &self.queues[self.active as usize]);
        let fine = self.version == Version::K420;
        if new.class == IDLE {
            return false;
        }
        if active.class == IDLE {
            return true;
        }
        if active.class == REALTIME && new.class != REALTIME {
            return false;
        }
        if self.anticipation.is_some() && new.group != active.group {
            // A slot is its tenant's alone; write-back is a tenant too.
            return false;
        }
        if new.sync && !active.sync && !(fine && active.must_dispatch) {
            return true;
        }
        if new.group != active.group && !(fine && self.descends(active.group, new.group)) {
            return false;
        }
        // Nothing is left of the active queue, or of its slice: the next in line follows it. If the newcomer went before those in line
        // each time, readers whose requests are in the device would overtake them for ever; and if the active queue ended here, the
        // time until the next dispatch would not count for its workload, which would never end.
        let only = !self.others_wait(n);
        if only && active.slice_used(now) {
            return true;
        }
        let realtime = new.class == REALTIME && active.class != REALTIME;
        if fine && realtime {
            return true;
        }
        let same_tree = || self.groups[new.group as usize].trees[usize::from(self.home_of(n))].tree.len();
        if only && self.serving_no_idle() && new.kind() == NO_IDLE && active.is_empty() && (fine || same_tree() == 2) {
            return true;
        }
        if preferred && active.prio_pending == 0 || realtime {
            return true;
        }
        if only && active.is_empty() && !self.should_idle(self.active) {
            return true;
        }
        active.waiting && self.close(request.sector)
    }

    /// Do queues of the group wait beside this one and the active one?
    fn others_wait(&self, n: u32) -> bool {
        let group = &self.groups[self.queues[n as usize].group as usize];
        group.queues > 1 + u32::from(self.queues[self.active as usize].home != HOMELESS)
    }

    fn preempt(&mut self, n: u32, now: i64) {
        let old = &self.queues[self.active as usize];
        let (kind, group) = (old.kind(), old.group);
        self.expire(true, now);
        let new = &self.queues[n as usize];
        let g = new.group;
        if kind != new.kind() {
            self.groups[g as usize].saved.rest = 0;
        }
        if g != group {
            self.end_turn();
        }
        self.line_up(n, true, now);
        let new = &mut self.queues[n as usize];
        new.slice_end = 0;
        new.slice_new = true;
    }
}
