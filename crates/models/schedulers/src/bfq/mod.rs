//! `bfq`: one queue per process, each served for a budget of sectors, in shares by weight.
//!
//! A request joins the queue of its process (`arrival`). The queue in service sends its requests in sector order
//! (`dispatch`) until its budget or its time is used up or it runs dry; then `expiry` charges it and sets its next
//! budget, and B-WF2Q+ ([`crate::mechanisms::wf2q`]) chooses the next queue. The device may idle for a queue that runs dry
//! (`idling`), so that a sequential process keeps its slot; meanwhile a few requests of other queues are served
//! (`injection`). Queues of processes that seem interactive or soft real-time weigh more for a while (`raising`),
//! unless many start at once (`bursts`). Processes that read next to each other share a queue (`merging`).
//! `completion` learns about the device and the processes, and `tenants` follows tenants that come, change and go.
//!
//! [`Bfq`] consists of structs that own what they guard, each in a file of its own, which does not know `Bfq`: the time of the call
//! (`time`), the `device` and what is `estimate`d of it from the measured `peak_rate`, the tables of queues (`queue`, `wakers`),
//! `processes`, `groups` and `requests`, the `slot` in service, the `counts` of what is busy, and `bursts`. The files named above are functions
//! over them, each of which uses only those before it in this order: `budgets`, `lifetime` (of queues), `raising`, `idling`, `injection`,
//! `order` (of requests in queues), `merging`, `expiry`, `dispatch`, `tenants`, `arrival`, `completion`, `scheduler`.
//!
//! Source: Valente, Avanzini 2015 for the earlier generations; Linux 6.12 and 6.18 for mainline.

/// `table[number]`, for a table with its entries in `all`.
macro_rules! by_number {
    ($table:ident: $entry:ty) => {
        impl std::ops::Index<u32> for $table {
            type Output = $entry;

            #[inline]
            fn index(&self, number: u32) -> &$entry {
                &self.all[number as usize]
            }
        }

        impl std::ops::IndexMut<u32> for $table {
            #[inline]
            fn index_mut(&mut self, number: u32) -> &mut $entry {
                &mut self.all[number as usize]
            }
        }
    };
}

mod arrival;
mod budgets;
mod bursts;
mod completion;
mod counts;
mod device;
mod dispatch;
mod estimate;
mod expiry;
mod generation;
mod groups;
mod idling;
mod injection;
mod lifetime;
mod limits;
mod merging;
mod order;
mod peak_rate;
mod processes;
mod queue;
mod raising;
mod reason;
mod requests;
mod sampling;
mod scheduler;
mod settings;
mod slot;
mod tally;
mod tenants;
mod time;
mod wakers;

#[cfg(test)]
mod tests;

use dumbwaiter_block::Setup;

pub use generation::Generation;
pub use limits::OverShare;
pub use settings::tunables;

use crate::mechanisms::wf2q::{Class, Options as EngineOptions, ServiceTree};
use bursts::Bursts;
use counts::BusyCounts;
use device::Device;
use estimate::DeviceEstimate;
use generation::Constants;
use groups::Groups;
use processes::Processes;
use queue::{QueueId, Queues};
use requests::Requests;
use sampling::Sampling;
use settings::Values;
use slot::Slot;
use tally::Tally;
use time::{Now, Time};

/// See the module documentation.
#[derive(Clone)]
pub struct Bfq {
    time: Time,
    constants: Constants,
    values: Values,
    device: Device,
    estimate: DeviceEstimate,
    engine: ServiceTree,
    queues: Queues,
    processes: Processes,
    groups: Groups,
    requests: Requests,
    slot: Slot,
    counts: BusyCounts,
    bursts: Bursts,
    sampling: Sampling,
    tally: Tally,
    above_share: OverShare,
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
        let constants = generation.constants();
        Bfq {
            time: Time::new(setup.clock, constants.burst_ms),
            constants,
            values,
            device: Device::new(&setup, generation),
            estimate: DeviceEstimate::new(generation, setup.rotational_at_attach()),
            engine: ServiceTree::new(engine, hz),
            queues: Queues::default(),
            processes: Processes::default(),
            groups: Groups::default(),
            requests: Requests::default(),
            slot: Slot::default(),
            counts: BusyCounts::new(),
            bursts: Bursts::new(),
            sampling: Sampling::default(),
            tally: Tally::default(),
            above_share: OverShare::OneOfAll,
        }
    }

    /// With other tags for queues above their share.
    pub fn with_above_share(self, above_share: OverShare) -> Bfq {
        Bfq { above_share, ..self }
    }

    /// Does it follow this generation or a later one?
    fn is(&self, generation: Generation) -> bool {
        self.constants.is(generation)
    }

    fn class_of(&self, q: QueueId) -> Class {
        self.engine.entity(self.queues[q].entity).class
    }

    fn wanted_class(&self, q: QueueId) -> Class {
        self.engine.entity(self.queues[q].entity).wanted_class
    }

    /// Are weights or classes unequal, so that this queue must have its slot for itself?
    fn asymmetric(&self, q: QueueId) -> bool {
        self.counts.asymmetric(self.is(Generation::Mainline), self.queues[q].counted)
    }

    /// The better of two requests for a head at `head`.
    fn better(&self, a: u32, b: u32, head: u64) -> u32 {
        self.requests.better(a, b, head, (self.values.back_seek_max * 2, self.values.back_seek_penalty))
    }

    /// Computes the largest budget anew.
    fn retune(&mut self) {
        self.estimate.retune(&self.constants, &self.values, &self.time.clock);
    }

    fn recount(&mut self) {
        self.counts.recount(&mut self.queues, &mut self.engine);
    }

    fn set_pending(&mut self, q: QueueId, pending: bool) {
        self.counts.set_pending(&mut self.queues[q], pending, &mut self.groups, &self.engine);
    }

    /// Adds `by` to the requests allocated to this queue.
    fn allocate(&mut self, q: QueueId, by: i32) {
        let queue = &mut self.queues[q];
        queue.allocated = queue.allocated.wrapping_add_signed(by);
        self.groups.allocate(queue.group, by);
    }

    /// Sectors that a request costs its queue.
    fn cost(&self, q: QueueId, id: u32) -> u64 {
        let queue = &self.queues[q];
        let sectors = u64::from(self.requests[id].sectors);
        let plain = queue.sync
            || (queue.raise.coeff > 1 && self.is(Generation::V7r8))
            || (self.is(Generation::Mainline) && self.asymmetric(q));
        if plain { sectors } else { sectors * self.values.async_charge }
    }

    /// Charges service to a queue.
    fn account(&mut self, q: QueueId, sectors: u64) {
        let tick = self.time.now.tick;
        let queue = &mut self.queues[q];
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
