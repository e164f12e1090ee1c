//! A request arrives: its queue, what it shows about its task, and whether it preempts.

use dumbwaiter_block::{Context, Dir, Flags, Nanos, Request, RequestId, TaskId};

use super::process::Process;
use super::queue::{HOMELESS, IDLE, NO_IDLE, NONE, Queue, REALTIME, ThinkTime, rank_of};
use super::{Cfq, RequestState, Version};

/// An arrival of at most a page is held back a moment for a merge.
const PAGE_SECTORS: u32 = 8;

fn preferred(request: &Request) -> bool {
    request.io.flags.any(Flags::META.with(Flags::PRIO))
}

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

    /// The async queue's place in its group's table.
    pub(super) fn async_place(&self, group: u32, asked: (u8, u8)) -> (u32, usize) {
        let group = if self.version == Version::K420 { group } else { 0 };
        let place = if asked.0 == IDLE { 16 } else { usize::from(asked.0) * 8 + usize::from(asked.1) };
        (group, place)
    }

    fn new_queue(&mut self, queue: Queue) -> u32 {
        self.groups[queue.group as usize].references += 1;
        match self.free_queues.pop() {
            Some(q) => {
                self.queues[q as usize] = queue;
                q
            }
            None => {
                self.queues.push(queue);
                self.queues.len() as u32 - 1
            }
        }
    }

    /// A task leaves its queue.
    pub(super) fn detach(&mut self, task: usize) {
        let q = std::mem::replace(&mut self.processes[task].queue, NONE);
        if q != NONE {
            self.queues[q as usize].tasks -= 1;
            self.release_queue(q);
        }
    }

    /// Frees a queue that is not used any more.
    pub(super) fn release_queue(&mut self, q: u32) {
        let queue = &mut self.queues[q as usize];
        let used = queue.tasks > 0
            || queue.pointers > 0
            || queue.in_flight > 0
            || queue.home != HOMELESS
            || !queue.is_empty()
            || queue.free
            || self.active == q;
        if used {
            return;
        }
        queue.free = true;
        let into = std::mem::replace(&mut queue.merge_into, NONE);
        let group = queue.group;
        self.free_queues.push(q);
        self.release_group(group);
        if into != NONE {
            self.queues[into as usize].pointers -= 1;
            self.release_queue(into);
        }
    }

    /// A task exited: the slice of its queue ends.
    pub(super) fn task_ends(&mut self, task: TaskId, at: Nanos) {
        let now = self.clock.count(at);
        let index = task.0 as usize;
        let Some(process) = self.processes.get_mut(index) else { return };
        process.alive = false;
        process.think = ThinkTime::new(now);
        if process.queue != NONE && process.queue == self.active {
            self.expire(false, now);
        }
        if self.last_task == task.0 {
            self.last_task = NONE;
        }
        self.detach(index);
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

    /// The better of two requests of a queue (either may be none) for a head at `head`.
    pub(super) fn better(&self, a: u32, b: u32, head: u64, ctx: &Context<'_>) -> u32 {
        if a == NONE || b == NONE || a == b {
            return if a == NONE { b } else { a };
        }
        let [x, y] = [a, b].map(|id| &ctx.requests[RequestId(id)]);
        if x.sync() != y.sync() {
            return if x.sync() { a } else { b };
        }
        if preferred(x) != preferred(y) {
            return if preferred(x) { a } else { b };
        }
        // None: too far behind the head.
        let cost = |sector: u64| match sector.checked_sub(head) {
            Some(ahead) => Some(ahead),
            None if head - sector <= self.set.back_seek_sectors => {
                Some((head - sector).saturating_mul(self.set.back_seek_penalty))
            }
            None => None,
        };
        match (cost(x.sector), cost(y.sector)) {
            (Some(p), Some(r)) if p != r => {
                if p < r {
                    a
                } else {
                    b
                }
            }
            (Some(_), Some(_)) => {
                if x.sector >= y.sector {
                    a
                } else {
                    b
                }
            }
            (Some(_), None) => a,
            (None, Some(_)) => b,
            (None, None) => {
                if x.sector <= y.sector {
                    a
                } else {
                    b
                }
            }
        }
    }

    /// Takes a request out of its queue, which finds its next one near it.
    pub(super) fn take_out(&mut self, q: u32, id: RequestId, ctx: &Context<'_>) {
        let queue = &self.queues[q as usize];
        if queue.next == id.0 {
            let next = self.by_sector.next(id.0).or(queue.requests.first().filter(|first| *first != id.0));
            let previous = self.by_sector.previous(id.0);
            let from = ctx.requests[id].sector;
            let next = self.better(next.unwrap_or(NONE), previous.unwrap_or(NONE), from, ctx);
            self.queues[q as usize].next = next;
            self.reposition(q);
        }
        let queue = &mut self.queues[q as usize];
        self.by_sector.remove(&mut queue.requests, id.0);
        queue.fifo.remove(&mut self.links, id);
        queue.prio_pending -= u32::from(self.entries[id.index()].preferred);
        self.rq_queued -= 1;
        self.groups[queue.group as usize].queued -= 1;
    }
}
