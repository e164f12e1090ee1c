//! `cfq`: Completely Fair Queueing, time slices for every process; and `a-cfq`, which shares by sectors and idles for
//! tenants.
//!
//! Every task has a queue for its synchronous requests; asynchronous ones share a few queues by priority. Three choices
//! are nested: the *group* (tenant) that has used least of its fraction, then a *workload* of it (class, and whether the
//! device idles for its queues), then a *queue* of that. Each choice lasts for a slice of time. A slice is longer, and comes
//! sooner, for a better priority level. When a queue runs empty in its slice the device may idle for a moment, because
//! the next request of its task is probably close to the last.
//!
//! - `settings`: versions, clock, tunables
//! - `queue`: a queue and what is measured of it
//! - `group`: a group of queues
//! - `shares`: fractions of groups and their order
//! - `tenants`: tenants as groups
//! - `arrival`: a request's way into a queue; preemption
//! - `dispatch`: which queue, may it, which request
//! - `slice`: lengths, order and ends of slices
//! - `idle`: idling for the next request
//! - `cooperators`: queues that become one
//! - `complete`: a completion and its consequences
//! - `process`: a task; `depth_sense`: whether the device queues requests itself
//! - `anticipation`: the order and the idle times of A+CFQ
//! - `turns`: the slots of its tenants
//!
//! Source: Linux 3.10, 3.18 and 4.20; the A+CFQ paper ("I/O Schedulers for Proportionality and Stability on Flash-Based
//! SSDs in Multi-Tenant Environments", 2020).

mod anticipation;
mod arrival;
mod complete;
mod cooperators;
mod depth_sense;
mod dispatch;
mod group;
mod idle;
mod process;
mod queue;
mod settings;
mod shares;
mod slice;
mod tenants;
#[cfg(test)]
mod tests;
mod turns;

use dumbwaiter_block::{
    Context, Event, Io, Join, MergeIndex, Nanos, Next, Place, Replayable, RequestId, Scheduler, Setup, Side, Traits,
    Tunable,
};

use crate::mechanisms::list::{Links, List};
use crate::mechanisms::ordered::{Tree, TreeArena};
use crate::settings::{join, tunables};
use anticipation::Anticipation;
use depth_sense::DepthSense;
use group::Group;
use process::Process;
use queue::{NONE, Queue, rank_of};
use settings::{Clock, Settings};
pub use settings::{TUNABLES, Version};

const ALL: [Tunable; settings::SETTINGS.len() + anticipation::SETTINGS.len()] =
    join(tunables(&settings::SETTINGS), tunables(&anticipation::SETTINGS));

/// Settings of `a-cfq`.
pub const A_CFQ_TUNABLES: &[Tunable] = &ALL;

/// State of a request beside itself.
#[derive(Clone, Copy, Debug)]
struct RequestState {
    queue: u32,
    deadline: i64,
    /// Metadata, or asks for preference.
    preferred: bool,
    /// Counted in its queue's and group's requests in flight.
    in_flight: bool,
    /// The driver has it.
    in_driver: bool,
}

impl Default for RequestState {
    fn default() -> Self {
        RequestState { queue: NONE, deadline: 0, preferred: false, in_flight: false, in_driver: false }
    }
}

/// The group and workload being served.
#[derive(Clone, Copy, Debug, Default)]
struct Serving {
    group: u32,
    class: u8,
    kind: u8,
    /// When the workload's time is over.
    end: i64,
}

/// See the module documentation.
#[derive(Clone)]
pub struct Cfq {
    version: Version,
    clock: Clock,
    rotational: bool,
    set: Settings,
    /// A+CFQ's mechanism, where it is on.
    anticipation: Option<Anticipation>,

    entries: Vec<RequestState>,
    links: Links,
    /// Requests that go before all others: requeued ones and flush data.
    first: List,
    /// Requests of each queue.
    by_sector: TreeArena,

    queues: Vec<Queue>,
    free_queues: Vec<u32>,
    processes: Vec<Process>,
    /// Queues of each service tree.
    service: TreeArena<i64>,
    /// Queues by their next request's sector, a tree per level.
    by_position: TreeArena,
    positions: [Tree; 8],

    groups: Vec<Group>,
    free_groups: Vec<u32>,
    /// Group of each tenant.
    tenants: Vec<u32>,
    /// Active groups.
    order: TreeArena,
    line: Tree,
    min_vdisktime: u64,

    active: u32,
    /// The task whose request went last.
    last_task: u32,
    serving: Serving,
    idle_timer: Option<Nanos>,
    rq_queued: u32,
    busy_queues: u32,
    busy_sync: u32,
    in_driver: u32,
    /// Async, sync.
    in_flight: [u32; 2],
    /// End of the request that the driver took last.
    head: u64,
    depth: DepthSense,
    last_delayed_sync: i64,
}

impl Cfq {
    /// An empty scheduler that follows `version`.
    pub fn new(setup: Setup, version: Version) -> Cfq {
        let mut clock = Clock::new(setup.clock, version == Version::K420);
        let start = clock.count(Nanos::ZERO);
        Cfq {
            version,
            clock,
            rotational: setup.rotational,
            set: Settings::new(version, &setup, &clock),
            anticipation: None,
            entries: Vec::new(),
            links: Links::default(),
            first: List::default(),
            by_sector: TreeArena::default(),
            queues: Vec::new(),
            free_queues: Vec::new(),
            processes: Vec::new(),
            service: TreeArena::default(),
            by_position: TreeArena::default(),
            positions: [Tree::default(); 8],
            groups: vec![Group::root(start)],
            free_groups: Vec::new(),
            tenants: Vec::new(),
            order: TreeArena::default(),
            line: Tree::default(),
            min_vdisktime: 0,
            active: NONE,
            last_task: NONE,
            serving: Serving::default(),
            idle_timer: None,
            rq_queued: 0,
            busy_queues: 0,
            busy_sync: 0,
            in_driver: 0,
            in_flight: [0; 2],
            head: 0,
            depth: DepthSense::UNKNOWN,
            last_delayed_sync: start - clock.second,
        }
    }

    /// An empty scheduler with A+CFQ's rules, on CFQ of Linux 3.18.
    pub fn anticipating(setup: Setup) -> Cfq {
        Cfq { anticipation: Some(Anticipation::new(setup.rotational_at_attach())), ..Cfq::new(setup, Version::K318) }
    }

    /// The queue that an arrival would join, if it exists.
    fn queue_of(&self, io: &Io) -> Option<u32> {
        let sync = dumbwaiter_block::Request::new(*io, Nanos::ZERO).sync();
        let q = if sync {
            self.processes.get(io.task.0 as usize)?.queue
        } else {
            let group = self.tenants.get(io.tenant.0 as usize).copied().filter(|g| *g != NONE)?;
            let (group, place) = self.async_place(group, rank_of(io.ioprio));
            self.groups[group as usize].asyncs[place]
        };
        (q != NONE).then_some(q)
    }

    fn queued(&self, id: RequestId) -> bool {
        self.by_sector.contains(id.0)
    }
}

impl Scheduler for Cfq {
    fn traits(&self) -> Traits {
        Traits { single_queue: true, priority_of_task: true, ..Traits::default() }
    }

    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        if id.index() >= self.entries.len() {
            self.entries.resize(id.index() + 1, RequestState::default());
        }
        match place {
            Place::Tail => self.arrive(id, ctx),
            Place::Head => {
                // A requeued request is still counted with its queue.
                if !self.entries[id.index()].in_flight {
                    self.entries[id.index()] = RequestState::default();
                }
                self.first.push_front(&mut self.links, id);
            }
        }
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        self.rq_queued > 0 || !self.first.is_empty()
    }

    fn next(&mut self, _hw_queue: usize, ctx: &Context<'_>) -> Next {
        match self.first.pop_front(&mut self.links) {
            Some(id) => Next::Dispatch(id),
            None => self.dispatch(ctx),
        }
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        self.done(id, ctx);
        self.rq_queued > 0
    }

    fn issued(&mut self, id: RequestId, ctx: &Context<'_>) {
        self.head = ctx.requests[id].end();
        if let Some(entry) = self.entries.get_mut(id.index()).filter(|e| !e.in_driver) {
            entry.in_driver = true;
            self.in_driver += 1;
        }
    }

    fn requeued(&mut self, id: RequestId, _ctx: &Context<'_>) {
        if let Some(entry) = self.entries.get_mut(id.index()).filter(|e| e.in_driver) {
            entry.in_driver = false;
            self.in_driver -= 1;
        }
    }

    fn merge(&mut self, io: &Io, index: &MergeIndex, ctx: &Context<'_>) -> Option<Join> {
        if let Some(join) = index.lookup(io, ctx)
            && self.allow_merge(join.into, io, ctx)
        {
            return Some(join);
        }
        let q = self.queue_of(io)?;
        let end = io.sector + u64::from(io.sectors);
        let into = self.by_sector.first_from(&self.queues[q as usize].requests, end)?;
        let into = RequestId(into).some().filter(|r| self.by_sector.key(r.0) == end)?;
        dumbwaiter_block::merge::compatible(&ctx.requests[into], io).then_some(Join { into, side: Side::Front })
    }

    /// Only within a queue, so never a synchronous with an asynchronous request.
    fn allow_merge(&self, queued: RequestId, io: &Io, _ctx: &Context<'_>) -> bool {
        self.queued(queued) && self.queue_of(io) == Some(self.entries[queued.index()].queue)
    }

    fn merged(&mut self, join: Join, ctx: &Context<'_>) {
        if join.side != Side::Front || !self.queued(join.into) {
            return;
        }
        let q = self.entries[join.into.index()].queue;
        let queue = &mut self.queues[q as usize];
        self.by_sector.remove(&mut queue.requests, join.into.0);
        self.by_sector.insert(&mut queue.requests, join.into.0, ctx.requests[join.into].sector);
        let next = self.better(self.queues[q as usize].next, join.into.0, self.head, ctx);
        self.queues[q as usize].next = next;
        self.reposition(q);
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        let (mine, other) = (self.entries[survivor.index()], self.entries[absorbed.index()]);
        let q = other.queue;
        if self.queued(survivor) && mine.queue == q {
            let queue = &mut self.queues[q as usize];
            if other.deadline < mine.deadline {
                self.entries[survivor.index()].deadline = other.deadline;
                queue.fifo.remove(&mut self.links, survivor);
                queue.fifo.insert_before(&mut self.links, survivor, absorbed);
            }
            if queue.next == absorbed.0 {
                queue.next = survivor.0;
                self.reposition(q);
            }
        }
        self.take_out(q, absorbed, ctx);
        self.tenant_lost_one(self.queues[q as usize].group);
        let queue = &self.queues[q as usize];
        if queue.is_empty() && q != self.active {
            self.leave_line(q);
            self.release_queue(q);
        }
    }

    fn former(&self, id: RequestId) -> Option<RequestId> {
        self.queued(id).then(|| self.by_sector.previous(id.0))?.map(RequestId)
    }

    fn latter(&self, id: RequestId) -> Option<RequestId> {
        self.queued(id).then(|| self.by_sector.next(id.0))?.map(RequestId)
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        match event {
            Event::Timer if self.idle_timer.is_some_and(|t| t <= ctx.now) => {
                let now = self.clock.count(ctx.now);
                self.idle_timer_fires(now);
            }
            Event::TaskExited(task) => self.task_ends(task, ctx.now),
            Event::TenantAdded(_) => self.tenant_added(ctx),
            Event::TenantChanged(tenant) => self.tenant_changed(tenant, ctx),
            Event::TenantRetired(tenant) => self.tenant_retired(tenant, ctx.now),
            Event::RotationalChanged(rotational) => self.rotational = rotational,
            Event::WriterPaused => {}
            // A task's new priority comes with its next request.
            Event::Timer | Event::TaskAdded(_) | Event::TaskChanged(_) | Event::DepthChanged { .. } => {}
        }
    }

    fn timer(&self) -> Option<Nanos> {
        self.idle_timer
    }

    fn tunables(&self) -> &'static [Tunable] {
        if self.anticipation.is_some() { A_CFQ_TUNABLES } else { TUNABLES }
    }

    fn get(&self, name: &str) -> Option<i128> {
        let own = crate::settings::get(&settings::SETTINGS, &self.set, name);
        own.or_else(|| crate::settings::get(&anticipation::SETTINGS, self.anticipation.as_ref()?, name))
    }

    fn set(&mut self, name: &str, value: i128) {
        crate::settings::set(&settings::SETTINGS, &mut self.set, name, value);
        if let Some(anticipation) = &mut self.anticipation {
            crate::settings::set(&anticipation::SETTINGS, anticipation, name, value);
        }
    }

    fn replayable(&mut self) -> Option<&mut dyn Replayable> {
        Some(self)
    }

    fn describe(&self, ctx: &Context<'_>) -> String {
        let active = match self.queues.get(self.active as usize) {
            Some(q) => format!(
                "active {} group {} class {} level {} queued {} in-flight {}",
                self.active,
                q.group,
                q.class,
                q.level,
                q.requests.len(),
                q.in_flight
            ),
            None => "active none".into(),
        };
        format!(
            "{active}\nqueued {} busy {} sync {} in-flight {} {} ncq {} timer {} now {}",
            self.rq_queued,
            self.busy_queues,
            self.busy_sync,
            self.in_flight[0],
            self.in_flight[1],
            self.depth.tag,
            self.idle_timer.map_or("off".into(), |t| t.to_string()),
            ctx.now
        )
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}

impl Replayable for Cfq {
    fn take(&mut self, id: RequestId, _hw_queue: usize, ctx: &Context<'_>) {
        if self.queued(id) {
            self.force(id, ctx);
        } else {
            self.first.remove(&mut self.links, id);
        }
    }
}
