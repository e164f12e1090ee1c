//! `wf2q+`: worst-case fair weighted fair queueing, one request at a time.
//!
//! Each tenant has a virtual start and finish: the finish is the start plus the length of its first request divided by its share. Of
//! the tenants whose start is not later than the virtual time of the device, the one with the smallest finish goes next. The
//! virtual time advances by the length of each request, and to the earliest start if that is later.
//!
//! Source: Bennett, Zhang, *Hierarchical packet fair queueing algorithms* (1997), section 3: the ancestor of BFQ's B-WF2Q+, which has
//! budgets in place of packets. Tenants are flows; nested ones are flattened to their share of the whole.

use dumbwaiter_block::{Context, Event, Io, Join, Next, Place, RequestId, Scheduler, Setup};

use crate::mechanisms::flows::{self, Flows, Shares, Slots};
use crate::mechanisms::ordered::{Tree, TreeArena, later};

/// Virtual start and finish of the first request of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Tags {
    start: u64,
    finish: u64,
}

/// See the module documentation.
#[derive(Clone, Default)]
pub struct Wf2qPlus {
    flows: Flows,
    shares: Shares,
    slots: Slots,
    tags: Vec<Tags>,
    /// Flows with requests, by finish; the second key is the start.
    busy: Tree,
    forest: TreeArena<u64, u64>,
    /// Virtual time.
    now: u64,
}

impl Wf2qPlus {
    /// An empty scheduler.
    pub fn new(_setup: Setup) -> Wf2qPlus {
        Wf2qPlus::default()
    }

    /// The first request of a flow is new, or has another length.
    fn restamp(&mut self, flow: usize, ctx: &Context<'_>) {
        if self.forest.contains(flow as u32) {
            self.forest.remove(&mut self.busy, flow as u32);
        }
        let Some(id) = self.flows.front(flow) else { return };
        let span = flows::span(flows::sectors_of(&ctx.requests[id]), self.shares.of(flow));
        let tags = flows::entry(&mut self.tags, flow);
        tags.finish = tags.start.wrapping_add(span);
        self.forest.insert_with_low(&mut self.busy, flow as u32, tags.finish, tags.start);
    }

    fn choose(&mut self) -> Option<usize> {
        let earliest = self.forest.least_low(&self.busy)?;
        if later(earliest, self.now) {
            self.now = earliest;
        }
        self.forest.first_eligible(&self.busy, self.now).map(|flow| flow as usize)
    }
}

impl Scheduler for Wf2qPlus {
    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        self.shares.learn_once(ctx);
        self.slots.took(flows::flow_of(&ctx.requests[id]), &self.shares);
        let Some(flow) = self.flows.insert(id, place, ctx) else { return };
        let now = self.now;
        let tags = flows::entry(&mut self.tags, flow);
        // A flow that comes back has not saved service, nor does it escape what it owes.
        tags.start = if later(tags.finish, now) { tags.finish } else { now };
        self.restamp(flow, ctx);
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        !self.flows.is_empty()
    }

    fn next(&mut self, _hw_queue: usize, ctx: &Context<'_>) -> Next {
        if let Some(id) = self.flows.pop_head() {
            return Next::Dispatch(id);
        }
        let Some(flow) = self.choose() else { return Next::Empty };
        let Some(id) = self.flows.pop(flow) else { return Next::Empty };
        self.now = self.now.wrapping_add(flows::whole_span(flows::sectors_of(&ctx.requests[id])));
        self.tags[flow].start = self.tags[flow].finish;
        self.restamp(flow, ctx);
        Next::Dispatch(id)
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        self.slots.gave_back(flows::flow_of(&ctx.requests[id]), &self.shares);
        false
    }

    fn requeued(&mut self, id: RequestId, ctx: &Context<'_>) {
        self.slots.gave_back(flows::flow_of(&ctx.requests[id]), &self.shares);
    }

    fn merged(&mut self, join: Join, ctx: &Context<'_>) {
        if let Some(flow) = self.flows.fronted_by(join.into, ctx) {
            self.restamp(flow, ctx);
        }
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        self.slots.gave_back(flows::flow_of(&ctx.requests[absorbed]), &self.shares);
        let gone = self.flows.absorbed(absorbed, ctx);
        if let Some(flow) = gone.or_else(|| self.flows.fronted_by(survivor, ctx)) {
            self.restamp(flow, ctx);
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
                *flows::entry(&mut self.tags, tenant.0 as usize) = Tags { start: self.now, finish: self.now };
                self.shares.learn(ctx);
                self.slots.reweigh(&self.shares);
            }
            _ => {}
        }
    }

    fn describe(&self, _ctx: &Context<'_>) -> String {
        format!("virtual time {}, {} queued, {} tenants busy\n", self.now, self.flows.len(), self.busy.len())
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
