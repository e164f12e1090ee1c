//! `mclock`: for each tenant a reservation, a limit and a weight.
//!
//! Each tenant has three tags for its first request. The reservation tag advances by 1/reservation of a second with each request that is
//! served for the reservation, the limit tag by 1/limit, both in real time, and the weight tag by the cost of the request divided by the
//! tenant's share. A tenant whose reservation tag is due goes first, by that tag. If none is due, of the tenants whose limit tag is due the one
//! with the smallest weight tag goes.
//!
//! Source: Gulati, Merchant, Varman, *mClock: Handling Throughput Variability for Hypervisor IO Scheduling* (OSDI 2010). A tenant that becomes busy
//! gets the smallest weight tag of the busy ones, where the paper shifts the tags of all others.

use dumbwaiter_block::{Context, Event, Io, Nanos, Next, Place, Request, RequestId, Scheduler, Setup, Tunable};

use crate::mechanisms::flows::{self, Flows, Shares, Slots, WHOLE};
use crate::mechanisms::ordered::{Tree, TreeArena, later};
use crate::settings::{has_settings, settings, tunables};

/// Cost of a request without data, in parts of a request.
const REQUEST_COST: u64 = 64;
/// Sectors that cost as much as a request: 256 KiB, which a disk of the paper moved in the time of one access.
const SECTORS_PER_COST: u64 = 512 / REQUEST_COST;
const SECOND_NS: u64 = 1_000_000_000;
/// Weight tags count costs in parts of this.
const WEIGHT_BITS: u32 = 10;
/// The longest step of a weight tag, so that tags can be compared although they wrap.
const STEP_MAX: u128 = 1 << 60;

settings! {
    const SETTINGS of MClock;
    reservation_iops: "IO/s", 0, 1_000_000_000, 0, "reservation of each tenant without one of its own; 0: none" => {
        |s| s.reservation_iops.into(),
        |s, iops| {
            let before = std::mem::replace(&mut s.reservation_iops, iops as u64);
            s.rate_changed(before, |tags| &mut tags.reservation);
        }
    };
    limit_iops: "IO/s", 0, 1_000_000_000, 0, "limit of each tenant without one of its own; 0: none" => {
        |s| s.limit_iops.into(),
        |s, iops| {
            let before = std::mem::replace(&mut s.limit_iops, iops as u64);
            s.rate_changed(before, |tags| &mut tags.limit);
        }
    };
}

/// Settings: of tenants without a number of their own.
pub const TUNABLES: &[Tunable] = &tunables(&SETTINGS);

/// Reservations and limits of tenants by number, in requests a second; 0: none.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// At least this.
    pub reservations: Vec<u64>,
    /// At most this.
    pub limits: Vec<u64>,
}

/// Tags of a flow's first request.
#[derive(Clone, Copy, Debug, Default)]
struct Tags {
    /// When it is due for the reservation.
    reservation: Nanos,
    /// When the limit allows it.
    limit: Nanos,
    /// Its order by weight.
    weight: u64,
}

/// See the module documentation.
#[derive(Clone)]
pub struct MClock {
    rates: Rates,
    /// For tenants without a number of their own.
    reservation_iops: u64,
    limit_iops: u64,
    flows: Flows,
    shares: Shares,
    slots: Slots,
    tags: Vec<Tags>,
    /// Busy flows with a reservation, by its tag.
    reserved: Tree,
    by_reservation: TreeArena,
    /// Busy flows below their limit, by weight tag.
    allowed: Tree,
    by_weight: TreeArena,
    /// Busy flows at their limit, by its tag.
    limited: Tree,
    by_limit: TreeArena,
    /// Weight tag of the flow that was served last by weight.
    served_weight: u64,
    /// Time of the last call.
    now: Nanos,
    for_reservations: u64,
    limited_waits: u64,
}

/// Cost of a request, in parts of [`REQUEST_COST`].
fn cost_of(request: &Request) -> u64 {
    REQUEST_COST + if request.io.op.carries_data() { u64::from(request.sectors) / SECTORS_PER_COST } else { 0 }
}

/// Time in which a rate allows this cost.
fn spacing(cost: u64, iops: u64) -> Nanos {
    Nanos((u128::from(cost) * u128::from(SECOND_NS) / u128::from(REQUEST_COST * iops.max(1))) as u64)
}

impl MClock {
    /// An empty scheduler.
    pub fn new(_setup: Setup, rates: Rates) -> MClock {
        MClock {
            rates,
            reservation_iops: 0,
            limit_iops: 0,
            flows: Flows::default(),
            shares: Shares::default(),
            slots: Slots::default(),
            tags: Vec::new(),
            reserved: Tree::default(),
            by_reservation: TreeArena::default(),
            allowed: Tree::default(),
            by_weight: TreeArena::default(),
            limited: Tree::default(),
            by_limit: TreeArena::default(),
            served_weight: 0,
            now: Nanos::ZERO,
            for_reservations: 0,
            limited_waits: 0,
        }
    }

    fn reservation(&self, flow: usize) -> Option<u64> {
        self.rates.reservations.get(flow).copied().or(Some(self.reservation_iops)).filter(|iops| *iops > 0)
    }

    fn limit_of(&self, flow: usize) -> Option<u64> {
        self.rates.limits.get(flow).copied().or(Some(self.limit_iops)).filter(|iops| *iops > 0)
    }

    /// The rate of tenants without a number of their own was `before`, and moves this tag.
    fn rate_changed(&mut self, before: u64, tag: fn(&mut Tags) -> &mut Nanos) {
        if before == 0 {
            // Without a rate the tags stood still: a tenant that was busy meanwhile has nothing to catch up on.
            for tags in &mut self.tags {
                let tag = tag(tags);
                *tag = self.now.max(*tag);
            }
        }
        // Limits that are due by the clock leave their order with the next request.
        self.relink_all(Nanos::ZERO);
    }

    /// Takes a flow out of all orders.
    fn unlink(&mut self, flow: u32) {
        if self.by_reservation.contains(flow) {
            self.by_reservation.remove(&mut self.reserved, flow);
        }
        if self.by_weight.contains(flow) {
            self.by_weight.remove(&mut self.allowed, flow);
        }
        if self.by_limit.contains(flow) {
            self.by_limit.remove(&mut self.limited, flow);
        }
    }

    /// Puts a flow in order by its tags, if it has requests.
    fn link(&mut self, flow: usize, now: Nanos) {
        if self.flows.front(flow).is_none() {
            return;
        }
        let tags = self.tags[flow];
        if self.reservation(flow).is_some() {
            self.by_reservation.insert(&mut self.reserved, flow as u32, tags.reservation.0);
        }
        if self.limit_of(flow).is_some() && tags.limit > now {
            self.by_limit.insert(&mut self.limited, flow as u32, tags.limit.0);
        } else {
            self.by_weight.insert(&mut self.allowed, flow as u32, tags.weight);
        }
    }

    /// Flows whose limit has become due take part by weight again.
    fn allow(&mut self, now: Nanos) {
        while let Some(flow) = self.limited.first().filter(|flow| self.by_limit.key(*flow) <= now.0) {
            self.by_limit.remove(&mut self.limited, flow);
            self.by_weight.insert(&mut self.allowed, flow, self.tags[flow as usize].weight);
        }
    }

    fn serve(&mut self, flow: usize, for_reservation: bool, ctx: &Context<'_>) -> Option<RequestId> {
        let id = self.flows.pop(flow)?;
        self.unlink(flow as u32);
        let cost = cost_of(&ctx.requests[id]);
        let next_arrival = self.flows.front(flow).map_or(Nanos::ZERO, |id| ctx.requests[id].insert);
        let step = u128::from(cost) << (WEIGHT_BITS + WHOLE.ilog2());
        let step = (step / u128::from(self.shares.of(flow))).min(STEP_MAX) as u64;
        let (reservation, limit) = (self.reservation(flow), self.limit_of(flow));
        let tags = &mut self.tags[flow];
        if let Some(iops) = reservation.filter(|_| for_reservation) {
            tags.reservation = (tags.reservation + spacing(cost, iops)).max(next_arrival);
        }
        if let Some(iops) = limit {
            tags.limit = (tags.limit + spacing(cost, iops)).max(next_arrival);
        }
        if !for_reservation {
            self.served_weight = tags.weight;
        }
        tags.weight = tags.weight.wrapping_add(step);
        self.link(flow, ctx.now);
        Some(id)
    }

    fn relink_all(&mut self, now: Nanos) {
        for flow in 0..self.tags.len() {
            self.unlink(flow as u32);
            self.link(flow, now);
        }
    }
}

impl Scheduler for MClock {
    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        self.now = ctx.now;
        self.shares.learn_once(ctx);
        self.slots.took(flows::flow_of(&ctx.requests[id]), &self.shares);
        let Some(flow) = self.flows.insert(id, place, ctx) else { return };
        let least = self.allowed.first().map_or(self.served_weight, |first| self.by_weight.key(first));
        let tags = flows::entry(&mut self.tags, flow);
        tags.reservation = tags.reservation.max(ctx.now);
        tags.limit = tags.limit.max(ctx.now);
        tags.weight = if later(tags.weight, least) { tags.weight } else { least };
        self.link(flow, ctx.now);
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        !self.flows.is_empty()
    }

    fn next(&mut self, _hw_queue: usize, ctx: &Context<'_>) -> Next {
        self.now = ctx.now;
        if let Some(id) = self.flows.pop_head() {
            return Next::Dispatch(id);
        }
        let due = self.reserved.first().filter(|flow| self.by_reservation.key(*flow) <= ctx.now.0);
        self.allow(ctx.now);
        if let Some(flow) = due.or(self.allowed.first()) {
            self.for_reservations += u64::from(due.is_some());
            return self.serve(flow as usize, due.is_some(), ctx).map_or(Next::Empty, Next::Dispatch);
        }
        let reserved = self.reserved.first().map(|flow| self.by_reservation.key(flow));
        let limited = self.limited.first().map(|flow| self.by_limit.key(flow));
        let Some(at) = reserved.into_iter().chain(limited).min() else { return Next::Empty };
        self.limited_waits += 1;
        Next::WaitUntil(Nanos(at))
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        self.slots.gave_back(flows::flow_of(&ctx.requests[id]), &self.shares);
        false
    }

    fn requeued(&mut self, id: RequestId, ctx: &Context<'_>) {
        self.slots.gave_back(flows::flow_of(&ctx.requests[id]), &self.shares);
    }

    fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        self.slots.gave_back(flows::flow_of(&ctx.requests[absorbed]), &self.shares);
        let Some(flow) = self.flows.absorbed(absorbed, ctx) else { return };
        if self.flows.front(flow).is_none() {
            self.unlink(flow as u32);
        }
    }

    fn limit(&self, io: &Io, nr_requests: u32) -> u32 {
        self.slots.limit(io, nr_requests, &self.shares)
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        match event {
            Event::TenantAdded(_) | Event::TenantChanged(_) => {
                self.shares.learn(ctx);
                self.slots.reweigh(&self.shares);
            }
            Event::TenantRetired(tenant) => {
                let weight = self.served_weight;
                *flows::entry(&mut self.tags, tenant.0 as usize) = Tags { weight, ..Tags::default() };
                self.shares.learn(ctx);
                self.slots.reweigh(&self.shares);
            }
            _ => {}
        }
    }

    has_settings!(SETTINGS, TUNABLES);

    fn counters(&self, count: &mut dyn FnMut(&'static str, u64)) {
        count("dispatches_for_reservations", self.for_reservations);
        count("waits_for_limits", self.limited_waits);
    }

    fn describe(&self, _ctx: &Context<'_>) -> String {
        format!(
            "{} queued, {} tenants below their limit, {} at it\n",
            self.flows.len(),
            self.allowed.len(),
            self.limited.len()
        )
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
