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
//! - `shares`: fractions of groups, their order, and their parts of the target latency
//! - `membership`: the group of a tenant, the queue of a task
//! - `tenants`: tasks and tenants that change and go
//! - `arrival`: a request's way into a queue; preemption
//! - `requests`: which request of a queue is next
//! - `dispatch`: which queue, may it, which request
//! - `slice`: lengths, order and ends of slices
//! - `idle`: idling for the next request
//! - `cooperators`: queues that become one
//! - `complete`: a completion and its consequences
//! - `process`: a task; `depth_sense`: whether the device queues requests itself
//! - `anticipation`: the order and the idle times of A+CFQ
//! - `turns`: the slots of its tenants
//! - `scheduler`: the calls of the block layer
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
mod membership;
mod process;
mod queue;
mod requests;
mod scheduler;
mod settings;
mod shares;
mod slice;
mod tenants;
#[cfg(test)]
mod tests;
mod turns;

use dumbwaiter_block::{Nanos, RequestId, Setup, Tunable};

use crate::mechanisms::list::{Links, List};
use crate::mechanisms::ordered::{Tree, TreeArena};
use crate::settings::{join, tunables};
use anticipation::Anticipation;
use depth_sense::DepthSense;
use group::Group;
use process::Process;
use queue::{HOMELESS, NONE, Queue};
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

    fn queued(&self, id: RequestId) -> bool {
        self.by_sector.contains(id.0)
    }

    /// The tree that a queue is on, or belongs on.
    pub(super) fn home_of(&self, q: u32) -> u8 {
        let queue = &self.queues[q as usize];
        if queue.home == HOMELESS { queue.proper_home() } else { queue.home }
    }

    /// Groups are charged by requests: nothing idles for a queue, and the device queues (or may).
    pub(super) fn counts_requests(&self) -> bool {
        self.set.slice_idle == 0 && self.depth.tag != 0
    }
}
