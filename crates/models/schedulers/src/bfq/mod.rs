//! `bfq`: one queue per process, each served for a budget of sectors, in shares by weight.
//!
//! A request joins the queue of its process (`arrival`). The queue in service sends its requests in sector order
//! (`dispatch`) until its budget or its time is used up or it runs dry; then `expiry` charges it and sets its next
//! budget, and B-WF2Q+ ([`crate::mechanisms::wf2q`]) chooses the next queue. The device may idle for a queue that runs dry
//! (`idling`), so that a sequential process keeps its slot; meanwhile a few requests of other queues are served
//! (`injection`). Queues of processes that seem interactive or soft real-time weigh more for a while (`raising`),
//! unless many start at once (`bursts`). Processes that read next to each other share a queue (`merging`).
//! `rate` computes how much a slot can move at the measured `peak_rate`, `completion` learns about the device and the
//! processes, and `tenants` follows tenants that come, change and go.
//!
//! Source: Valente, Avanzini 2015 for the earlier generations; Linux 6.12 and 6.18 for mainline.

mod arrival;
mod budgets;
mod burst_list;
mod bursts;
mod completion;
mod counters;
mod dispatch;
mod expiry;
mod generation;
mod idling;
mod injection;
mod merging;
mod peak_rate;
mod queue;
mod raising;
mod rate;
mod reason;
mod sampling;
mod saved;
mod scheduler;
mod settings;
mod tally;
mod tenants;

#[cfg(test)]
mod tests;

use std::ops::Range;

use dumbwaiter_block::{Nanos, Setup, TickClock};

pub use generation::Generation;
pub use settings::tunables;

use crate::mechanisms::list::{Links, List};
use crate::mechanisms::ordered::TreeArena;
use crate::mechanisms::wf2q::{Class, Options as EngineOptions, ServiceTree};
use burst_list::BurstList;
use generation::Constants;
use peak_rate::PeakRate;
use queue::{Group, NONE, Process, Queue, QueueId};
use sampling::Sampling;
use saved::Saved;
use settings::{DEFAULT_MAX_BUDGET, Values};
use tally::Tally;

/// Requests farther apart are random, sectors; on flash only small ones.
const FAR_SECTORS: u64 = 800;
const SMALL_ON_FLASH: u32 = 64;

/// The time of a call.
#[derive(Clone, Copy, Debug, Default)]
struct Now {
    at: Nanos,
    tick: i64,
}

/// Spans of time in ticks, computed once so that no request divides.
#[derive(Clone, Copy, Debug)]
struct Spans {
    ms_10: i64,
    ms_100: i64,
    ms_500: i64,
    ms_1000: i64,
    ms_2000: i64,
    ms_10_000: i64,
    burst: i64,
    second: u64,
}

impl Spans {
    fn new(clock: &TickClock, burst_ms: u64) -> Spans {
        Spans {
            ms_10: clock.from_ms(10),
            ms_100: clock.from_ms(100),
            ms_500: clock.from_ms(500),
            ms_1000: clock.from_ms(1000),
            ms_2000: clock.from_ms(2000),
            ms_10_000: clock.from_ms(10_000),
            burst: clock.from_ms(burst_ms),
            second: clock.per_second() as u64,
        }
    }
}

/// State of a request beside itself.
#[derive(Clone, Copy, Debug)]
struct RequestState {
    queue: QueueId,
    task: u32,
    sectors: u32,
    deadline: Nanos,
    sync: bool,
    meta: bool,
    at_head: bool,
    /// In its queue's order.
    queued: bool,
}

impl RequestState {
    const NEW: RequestState = RequestState {
        queue: NONE,
        task: 0,
        sectors: 0,
        deadline: Nanos::ZERO,
        sync: false,
        meta: false,
        at_head: false,
        queued: false,
    };
}

/// See the module documentation.
#[derive(Clone)]
pub struct Bfq {
    clock: TickClock,
    spans: Spans,
    rotational: bool,
    /// `rotational` at the start: estimates of the peak rate begin with it.
    rotational_at_start: bool,
    /// The slots that limits of asynchronous I/O and of writes are parts of; `None` for those that there are.
    nr_requests_at_attach: Option<u32>,
    /// Flash that queues commands: idling never helps its throughput.
    nonrot_queueing: bool,
    constants: Constants,
    values: Values,
    engine: ServiceTree,
    queues: Vec<Queue>,
    free_queues: Vec<QueueId>,
    processes: Vec<Process>,
    /// By task: the state of its queue before a merge. Apart from `processes`, because few requests need it.
    saved: Vec<Option<Saved>>,
    groups: Vec<Group>,
    free_groups: Vec<u32>,
    /// Group of each tenant.
    tenants: Vec<u32>,
    entries: Vec<RequestState>,
    links: Links,
    /// Requests by sector, one tree a queue.
    sorted: TreeArena,
    /// Queues by the sector of their next request, one tree a group.
    positions: TreeArena,
    /// Requests that go before all others.
    head: List,
    queued_head: u32,

    in_service: Option<QueueId>,
    slot_start: Nanos,
    /// The slot's clock starts with its first completion (before mainline).
    slot_unstarted: bool,
    slot_requests: u32,
    slot_last_pos: u64,
    idle_until: Option<Nanos>,
    idle_since: Nanos,
    queued: u32,
    in_driver: u32,
    sync_in_driver: u32,
    busy: [u32; 3],
    raised_busy: u32,
    /// Weights of un-raised queues that are busy or have requests in flight, ascending, with their numbers.
    weight_counts: Vec<(u64, u32)>,
    groups_pending: u32,
    /// The same for groups: their weights, and how many have more than one queue or group at work.
    group_weights: Vec<(u64, u32)>,
    crowded_groups: u32,
    /// Queues that are busy or have requests in flight, and those of them that are constantly seeky.
    pending: u32,
    pending_seeky: u32,
    budgets_assigned: u32,
    max_budget: u64,
    head_pos: u64,
    last_completion: u64,
    last_completed: QueueId,
    /// −1 unknown, 0 the device serves one at a time, 1 it queues.
    hw_tag: i8,
    hw_tag_samples: u32,
    max_in_driver: u32,
    peak: PeakRate,
    burst: BurstList,
    sampling: Sampling,
    last_seen: Now,
    /// The times at which the tick is that of `last_seen`.
    tick_span: Range<Nanos>,
    tally: Tally,
}

impl Bfq {
    /// An empty scheduler of this generation.
    pub fn new(setup: Setup, generation: Generation) -> Bfq {
        Bfq::with(setup, generation, false)
    }

    /// An empty scheduler with history-based budgets (H+BFQ).
    pub fn with_history(setup: Setup, generation: Generation) -> Bfq {
        Bfq::with(setup, generation, true)
    }

    fn with(setup: Setup, generation: Generation, history: bool) -> Bfq {
        let hz = setup.clock.per_second() as u64;
        let values = Values::new(&setup.clock, generation, history);
        let mainline = generation == Generation::Mainline;
        let engine = EngineOptions {
            cached_next: mainline,
            group_double_charge: values.on.group_double_charge,
            idle_class_look_in: values.on.idle_look_in,
            look_in_at_selection: !mainline,
            exact_search: false,
        };
        Bfq {
            clock: setup.clock,
            spans: Spans::new(&setup.clock, generation.constants().burst_ms),
            rotational: setup.rotational,
            rotational_at_start: setup.rotational_at_attach(),
            nonrot_queueing: !setup.rotational_at_attach(),
            nr_requests_at_attach: setup.at_attach.nr_requests,
            constants: generation.constants(),
            values,
            engine: ServiceTree::new(engine, hz),
            queues: Vec::new(),
            free_queues: Vec::new(),
            processes: Vec::new(),
            saved: Vec::new(),
            groups: Vec::new(),
            free_groups: Vec::new(),
            tenants: Vec::new(),
            entries: Vec::new(),
            links: Links::default(),
            sorted: TreeArena::default(),
            positions: TreeArena::default(),
            head: List::default(),
            queued_head: 0,
            in_service: None,
            slot_start: Nanos::ZERO,
            slot_unstarted: false,
            slot_requests: 0,
            slot_last_pos: 0,
            idle_until: None,
            idle_since: Nanos::ZERO,
            queued: 0,
            in_driver: 0,
            sync_in_driver: 0,
            busy: [0; 3],
            raised_busy: 0,
            weight_counts: Vec::with_capacity(16),
            groups_pending: 0,
            group_weights: Vec::with_capacity(16),
            crowded_groups: 0,
            pending: 0,
            pending_seeky: 0,
            budgets_assigned: 0,
            max_budget: DEFAULT_MAX_BUDGET,
            head_pos: 0,
            last_completion: 0,
            last_completed: NONE,
            hw_tag: if generation < Generation::V7r8 { 1 } else { -1 },
            hw_tag_samples: 0,
            max_in_driver: 0,
            peak: PeakRate::of(generation, setup.rotational_at_attach()),
            burst: BurstList::default(),
            sampling: Sampling::default(),
            last_seen: Now::default(),
            tick_span: Nanos::ZERO..Nanos::ZERO,
            tally: Tally::default(),
        }
    }

    fn at(&mut self, at: Nanos) -> Now {
        // The tick changes seldom: no division unless it did.
        if !self.tick_span.contains(&at) {
            let tick = self.clock.ticks(at);
            self.last_seen.tick = tick;
            self.tick_span = self.clock.time_of(tick)..self.clock.time_of(tick + 1);
        }
        self.last_seen.at = at;
        self.last_seen
    }

    /// Does it follow this generation or a later one?
    fn is(&self, generation: Generation) -> bool {
        self.constants.generation >= generation
    }

    fn timeout_ms(&self) -> u64 {
        self.values.timeout as u64 * self.clock.period.0 / 1_000_000
    }

    fn busy_total(&self) -> u32 {
        self.busy.iter().sum()
    }

    fn class_of(&self, q: QueueId) -> Class {
        self.engine.entity(self.queues[q as usize].entity).class
    }

    fn wanted_class(&self, q: QueueId) -> Class {
        self.engine.entity(self.queues[q as usize].entity).wanted_class
    }

    /// Is a request far from a position? Position 0 is near to everything.
    fn far(&self, from: u64, sector: u64, sectors: u32) -> bool {
        from != 0 && from.abs_diff(sector) > FAR_SECTORS && (self.rotational || sectors < SMALL_ON_FLASH)
    }

    /// Sectors that a request costs its queue.
    fn cost(&self, q: QueueId, id: u32) -> u64 {
        let queue = &self.queues[q as usize];
        let sectors = u64::from(self.entries[id as usize].sectors);
        let plain = queue.sync
            || (queue.raise.coeff > 1 && self.is(Generation::V7r8))
            || (self.is(Generation::Mainline) && self.asymmetric(Some(q)));
        if plain { sectors } else { sectors * self.values.async_charge }
    }

    /// Charges service to a queue.
    fn account(&mut self, q: QueueId, sectors: u64) {
        let tick = self.last_seen.tick;
        let queue = &mut self.queues[q as usize];
        if queue.served_since_backlogged == 0 {
            queue.first_io = tick;
        }
        if queue.raise.coeff > 1 {
            queue.raise.served += sectors;
        }
        queue.served_since_backlogged += sectors;
        self.engine.charge(queue.entity, sectors);
    }
}
