//! The corridor: the chain of controllers that an I/O passes on its way to the scheduler.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::controller::{Controller, Effects};
use crate::layer::population::Population;
use crate::scheduler::{Handover, Scheduler, Traits};
use crate::{Config, Context, Nanos, RequestId};

/// A controller of the chain.
pub(super) struct Link {
    /// Names it while others come and go; not 0.
    pub(super) key: u32,
    /// It came with the scheduler's stack and goes with it.
    pub(super) of_stack: bool,
    pub(super) controller: Box<dyn Controller>,
}

/// The chain, and what waits in it.
#[derive(Default)]
pub(super) struct Corridor {
    pub(super) links: Vec<Link>,
    last_key: u32,
    pub(super) effects: Effects,
    /// Requests whose tasks sleep until a time: the time, a number that keeps the order of arrival, the request.
    pub(super) sleepers: BinaryHeap<Reverse<(Nanos, u64, RequestId)>>,
    pub(super) sleeps: u64,
    /// A scheduler that a controller asked for while another exchange was under way.
    pub(super) next_scheduler: Option<(Box<dyn Scheduler>, Handover)>,
    /// I/Os that controllers park.
    pub(super) parked: usize,
    /// A worker, and no task, submits the I/Os that enter now.
    pub(super) by_worker: bool,
    /// By request; empty until a controller keeps one.
    waits: Vec<Wait>,
}

/// How a request stands in the corridor, apart from the others' records, which are smaller without.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wait {
    /// The controller that keeps it; 0: none.
    pub(super) gate: u32,
    /// The controller that it asks next once its task runs again; 0: none.
    pub(super) next_gate: u32,
    /// Number of its sleep until a time, in a controller that asked for one.
    pub(super) sleep: u64,
    /// Its task was woken by a controller, and has not run yet.
    pub(super) woken: bool,
    /// No task sleeps for it: a worker submits it.
    pub(super) by_worker: bool,
}

impl Corridor {
    /// Is there no controller?
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Appends a controller, which hears of the I/Os under way.
    pub(super) fn append(
        &mut self,
        mut controller: Box<dyn Controller>,
        of_stack: bool,
        (config, traits): (&Config, &Traits),
        population: &Population,
        ctx: &Context<'_>,
    ) {
        let mut under_way = population.tenants.iter().map(|tenant| tenant.ios);
        controller.attached(config, traits, &mut under_way, ctx);
        self.last_key += 1;
        self.links.push(Link { key: self.last_key, of_stack, controller });
    }

    /// How a request stands.
    #[inline(always)]
    pub(super) fn wait(&self, id: RequestId) -> Wait {
        self.waits.get(id.index()).copied().unwrap_or_default()
    }

    pub(super) fn wait_mut(&mut self, id: RequestId) -> &mut Wait {
        if id.index() >= self.waits.len() {
            self.waits.resize(id.index() + 1, Wait::default());
        }
        &mut self.waits[id.index()]
    }

    /// The id is given to another request.
    #[inline(always)]
    pub(super) fn forget(&mut self, id: RequestId) {
        if let Some(wait) = self.waits.get_mut(id.index()) {
            *wait = Wait::default();
        }
    }

    /// I/Os that controllers park.
    pub(super) fn parked(&self) -> usize {
        self.parked
    }

    /// When a controller or a sleeping task must be looked at, if ever.
    pub(super) fn next_timer(&self) -> Option<Nanos> {
        let sleeper = self.sleepers.peek().map(|Reverse((at, ..))| *at);
        self.links.iter().filter_map(|link| link.controller.timer()).chain(sleeper).min()
    }

    /// Where the link of this key stands; behind all if it is gone.
    pub(super) fn position(&self, key: u32) -> usize {
        self.links.iter().position(|link| link.key == key).unwrap_or(self.links.len())
    }
}
