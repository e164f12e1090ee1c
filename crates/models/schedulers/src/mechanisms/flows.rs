//! Flows: the requests of each tenant in order of arrival, and the tenants' shares.

use dumbwaiter_block::{Context, Io, Op, Place, Request, RequestId, TenantId};

use super::list::{Links, List};
use super::nesting;

/// Parts into which the whole device is divided to express shares.
pub const WHOLE: u64 = 1 << 24;
/// Virtual time of a sector of the whole device.
const SECTOR_BITS: u32 = 16;
/// Sectors that an operation without data counts as.
const COMMAND_SECTORS: u64 = 8;
/// The longest span of virtual time, so that times can be compared although they wrap.
const SPAN_MAX: u128 = 1 << 60;

/// Charge of a request, in sectors: those that it moves, or 8 if it moves none.
pub fn sectors_of(request: &Request) -> u64 {
    match request.io.op {
        Op::Read | Op::Write => u64::from(request.sectors).max(1),
        _ => COMMAND_SECTORS,
    }
}

/// Virtual time in which the whole device serves `sectors`.
pub fn whole_span(sectors: u64) -> u64 {
    sectors.saturating_mul(1 << SECTOR_BITS).min(SPAN_MAX as u64)
}

/// Virtual time in which a flow of this share is served `sectors`.
pub fn span(sectors: u64, share: u64) -> u64 {
    let whole = u128::from(sectors) << (SECTOR_BITS + WHOLE.ilog2());
    (whole / u128::from(share.max(1))).min(SPAN_MAX) as u64
}

/// The parts of [`WHOLE`] that tenants get by weight, if all of them are busy. Nested tenants divide the part of the tenant
/// around them.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    shares: Vec<u64>,
    /// Weights of the tenants nested in each tenant, and last of those in none: kept to be reused.
    below: Vec<u64>,
    learned: bool,
}

impl Shares {
    /// Reads the weights of all tenants.
    pub fn learn(&mut self, ctx: &Context<'_>) {
        self.learned = true;
        let slots = ctx.tenants.tenant_slots();
        let above = |tenant| nesting::parent_of(tenant, ctx.tenants).map_or(slots, |parent| parent.0 as usize);
        self.below.clear();
        self.below.resize(slots + 1, 0);
        for (_, tenant) in ctx.tenants.tenants() {
            self.below[above(tenant)] += u64::from(tenant.weight);
        }
        self.shares.clear();
        self.shares.resize(slots, 1);
        for (id, tenant) in ctx.tenants.tenants() {
            let (mut share, mut at) = (u128::from(WHOLE), tenant);
            loop {
                let above = above(at);
                share = share * u128::from(at.weight) / u128::from(self.below[above].max(1));
                let Some(parent) = ctx.tenants.tenant(TenantId(above as u32)).filter(|_| above < slots) else { break };
                at = parent;
            }
            self.shares[id.0 as usize] = (share as u64).max(1);
        }
    }

    /// Reads the weights unless that was done.
    pub fn learn_once(&mut self, ctx: &Context<'_>) {
        if !self.learned {
            self.learn(ctx);
        }
    }

    /// The share of a flow.
    pub fn of(&self, flow: usize) -> u64 {
        self.shares.get(flow).copied().unwrap_or(1)
    }
}

/// Who holds the scheduler's slots: where they are scarce, a tenant with more of them than its share gets no more, because the
/// others could not use their shares without slots.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    /// Requests queued and in the device, by flow.
    outstanding: Vec<u32>,
    total: u32,
    /// Shares of the flows with requests.
    busy_share: u64,
}

impl Slots {
    /// A request was inserted.
    pub fn took(&mut self, flow: usize, shares: &Shares) {
        let own = entry(&mut self.outstanding, flow);
        *own += 1;
        if *own == 1 {
            self.busy_share += shares.of(flow);
        }
        self.total += 1;
    }

    /// A request is complete, returned by the driver, or part of another.
    pub fn gave_back(&mut self, flow: usize, shares: &Shares) {
        let Some(own) = self.outstanding.get_mut(flow).filter(|own| **own > 0) else { return };
        *own -= 1;
        if *own == 0 {
            self.busy_share = self.busy_share.saturating_sub(shares.of(flow));
        }
        self.total -= 1;
    }

    /// Shares changed.
    pub fn reweigh(&mut self, shares: &Shares) {
        let busy = self.outstanding.iter().enumerate().filter(|(_, own)| **own > 0);
        self.busy_share = busy.map(|(flow, _)| shares.of(flow)).sum();
    }

    /// The slots that the tenant of an I/O may use.
    pub fn limit(&self, io: &Io, nr_requests: u32, shares: &Shares) -> u32 {
        let flow = io.tenant.0 as usize;
        let share = shares.of(flow);
        let own = self.outstanding.get(flow).copied().unwrap_or(0);
        let whole = self.busy_share + if own == 0 { share } else { 0 };
        let scarce = u64::from(self.total) * 4 > u64::from(nr_requests) * 3;
        let more = u64::from(own) * whole > u64::from(nr_requests) * share;
        if scarce && more { 1 } else { nr_requests }
    }
}

/// The requests of each tenant, oldest first, and those that go before all others.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    lists: Vec<List>,
    head: List,
    links: Links,
    /// By request: it is in `head`.
    at_head: Vec<bool>,
    queued: usize,
}

/// The flow of a request: the number of its tenant.
pub fn flow_of(request: &Request) -> usize {
    request.io.tenant.0 as usize
}

impl Flows {
    /// Requests in it.
    pub fn len(&self) -> usize {
        self.queued
    }

    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.queued == 0
    }

    /// The oldest request of a flow.
    pub fn front(&self, flow: usize) -> Option<RequestId> {
        self.lists.get(flow)?.front()
    }

    /// Adds a request. Returns its flow if that was empty before.
    pub fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) -> Option<usize> {
        let flow = flow_of(&ctx.requests[id]);
        if flow >= self.lists.len() {
            self.lists.resize(flow + 1, List::default());
        }
        if id.index() >= self.at_head.len() {
            self.at_head.resize(id.index() + 1, false);
        }
        self.queued += 1;
        self.at_head[id.index()] = place == Place::Head;
        if place == Place::Head {
            self.head.push_front(&mut self.links, id);
            return None;
        }
        let first = self.lists[flow].is_empty();
        self.lists[flow].push_back(&mut self.links, id);
        first.then_some(flow)
    }

    /// Takes out the request that goes before all others, if any does.
    pub fn pop_head(&mut self) -> Option<RequestId> {
        let id = self.head.pop_front(&mut self.links)?;
        self.queued -= 1;
        Some(id)
    }

    /// Takes out the oldest request of a flow.
    pub fn pop(&mut self, flow: usize) -> Option<RequestId> {
        let id = self.lists.get_mut(flow)?.pop_front(&mut self.links)?;
        self.queued -= 1;
        Some(id)
    }

    /// Takes out a request that became part of another. Returns its flow if it was the oldest one there.
    pub fn absorbed(&mut self, id: RequestId, ctx: &Context<'_>) -> Option<usize> {
        self.queued -= 1;
        if self.at_head[id.index()] {
            self.head.remove(&mut self.links, id);
            return None;
        }
        let flow = flow_of(&ctx.requests[id]);
        let first = self.lists[flow].front() == Some(id);
        self.lists[flow].remove(&mut self.links, id);
        first.then_some(flow)
    }

    /// The flow whose oldest request this is.
    pub fn fronted_by(&self, id: RequestId, ctx: &Context<'_>) -> Option<usize> {
        let flow = flow_of(&ctx.requests[id]);
        (self.front(flow) == Some(id)).then_some(flow)
    }
}

/// The entry of a flow in a table that grows with the number of tenants.
pub fn entry<T: Clone + Default>(table: &mut Vec<T>, flow: usize) -> &mut T {
    if flow >= table.len() {
        table.resize(flow + 1, T::default());
    }
    &mut table[flow]
}

#[cfg(test)]
mod tests {
    use dumbwaiter_block::{Nanos, Requests, Tenant, Tenants};

    use super::*;

    #[test]
    fn nested_tenants_divide_the_share_around_them() {
        let nested = |weight, parent: Option<u32>| Tenant { weight, parent: parent.map(TenantId) };
        let tenants: Tenants =
            [nested(100, None), nested(300, None), nested(10, Some(1)), nested(20, Some(1))].into_iter().collect();
        let requests = Requests::default();
        let mut shares = Shares::default();
        shares.learn(&Context { now: Nanos::ZERO, requests: &requests, tenants: &tenants, busy: false });
        for (tenant, share) in [(0, WHOLE / 4), (1, WHOLE / 4 * 3), (2, WHOLE / 4), (3, WHOLE / 2), (9, 1)] {
            assert!(shares.of(tenant).abs_diff(share) <= 1, "tenant {tenant}: {}", shares.of(tenant));
        }
        assert_eq!(span(8, WHOLE), whole_span(8));
        assert_eq!(span(8, WHOLE / 4), whole_span(32));
    }
}
