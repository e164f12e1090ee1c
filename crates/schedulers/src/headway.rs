//! `headway`: proportional shares by weight without exclusive service, ours.
//!
//! Tenants are served by start-time fair queueing in sectors: the backlogged tenant with the smallest virtual time goes
//! next, and its time advances by what it moved over its weight. Nobody owns the device: requests of all tenants are in
//! it together, as deep as shares allow. A tenant that cannot keep a backlog (few requests at a time) falls behind its
//! share because the others fill the device; then, and only then, the depth that all share shrinks, and at the bottom the
//! device waits for that tenant's next request. When nobody is behind, the depth grows back.
//!
//! Bound: between two tenants with a backlog, served sectors over weight differ by at most one largest request of each,
//! plus what is in the device. Where it loses: it does not know tasks within a tenant (in order of arrival, or of sector
//! on a disk), and a tenant with a high weight that thinks longer than our patience does not get its share.

use dumbwaiter_block::{Context, Event, Nanos, Next, Place, RequestId, Scheduler, Setup, TenantId};

use crate::mechanisms::list::{Links, List};
use crate::mechanisms::sorted::Sorted;

/// Fractions of the whole are counted in this many parts.
const WHOLE: u64 = 1 << 24;
/// Virtual time of one sector for a tenant that has everything.
const SECTOR: u64 = 1 << 8;
/// Sectors that a tenant may catch up after its queue was empty for a moment.
const CREDIT_SECTORS: u64 = 4096;
/// Completions between two looks at the shares, or one for each tenant if those are more.
const WINDOW: u32 = 32;
/// How long the device waits for a tenant that is behind, on flash and on a disk.
const PATIENCE: [Nanos; 2] = [Nanos::from_us(500), Nanos::from_ms(8)];
/// A tenant is behind that got less than this of what the best served got, in percent.
const BEHIND_PERCENT: u64 = 97;
/// A tenant wants more if it had something outstanding for so much of the time, in percent.
const HUNGRY_PERCENT: u64 = 75;

#[derive(Clone, Default)]
struct Flow {
    /// In order of arrival (flash), and at-head requests.
    fifo: List,
    /// By sector (disks).
    sorted: Sorted,
    /// Where the last request of this tenant ended.
    position: u64,
    /// Virtual time at which its next request starts.
    time: u64,
    /// Part of the whole that its weight entitles it to.
    share: u64,
    in_device: u32,
    /// Sectors since the last look.
    served: u64,
    /// Requests it has here and in the device.
    outstanding: u32,
    /// Since when it has any.
    busy_since: Nanos,
    /// How long it had any since the last look.
    busy: Nanos,
    /// It got less than its share at the last look though it nearly always had something outstanding.
    behind: bool,
    /// When it last had a request completed.
    last_seen: Nanos,
}

impl Flow {
    fn waits(&self) -> bool {
        !self.fifo.is_empty() || !self.sorted.is_empty()
    }
}

/// See the module's text.
#[derive(Clone)]
pub struct Headway {
    flows: Vec<Flow>,
    /// Backlogged tenants by the virtual time of their next request.
    ready: Sorted<u32>,
    links: Links,
    rotational: bool,
    max_depth: u32,
    depth: u32,
    in_device: u32,
    waiting: usize,
    /// Start of the last request dispatched.
    time: u64,
    completions: u32,
    looked_at: Nanos,
    /// Nothing is sent before this, unless it is this tenant's.
    idle: Option<(TenantId, Nanos)>,
    shares_known: bool,
}

impl Headway {
    /// An empty one.
    pub fn new(setup: Setup) -> Headway {
        let max_depth = setup.device_depth.max(1);
        Headway {
            flows: Vec::new(),
            ready: Sorted::default(),
            links: Links::default(),
            rotational: setup.rotational,
            max_depth,
            depth: max_depth,
            in_device: 0,
            waiting: 0,
            time: 0,
            completions: 0,
            looked_at: Nanos::ZERO,
            idle: None,
            shares_known: false,
        }
    }

    fn patience(&self) -> Nanos {
        PATIENCE[usize::from(self.rotational)]
    }

    /// Each tenant's part of the whole: its weight among its siblings, times the part of what it is nested in.
    fn learn_shares(&mut self, ctx: &Context<'_>) {
        let tenants = &ctx.tenants.tenants;
        self.flows.resize_with(tenants.len().max(self.flows.len()), Flow::default);
        // One level under the next: a tenant is made after the one it is nested in, or is reached by a later round.
        for _ in 0..tenants.len() {
            let mut changed = false;
            for (i, tenant) in tenants.iter().enumerate() {
                let siblings: u64 =
                    tenants.iter().filter(|t| t.parent == tenant.parent).map(|t| u64::from(t.weight)).sum();
                let above = tenant.parent.map_or(WHOLE, |p| self.flows[p.0 as usize].share);
                let share = (above * u64::from(tenant.weight) / siblings.max(1)).max(1);
                changed |= std::mem::replace(&mut self.flows[i].share, share) != share;
            }
            if !changed {
                break;
            }
        }
        self.shares_known = true;
    }

    fn enter(&mut self, tenant: u32, away: bool) {
        let flow = &mut self.flows[tenant as usize];
        // Whoever was away starts now; whoever only ran dry may catch up a little.
        let credit = if away { 0 } else { CREDIT_SECTORS * SECTOR * WHOLE / flow.share.max(1) };
        flow.time = flow.time.max(self.time.saturating_sub(credit));
        self.ready.insert(tenant, flow.time);
    }

    fn pick(&mut self, tenant: u32) -> Option<RequestId> {
        let flow = &mut self.flows[tenant as usize];
        flow.fifo.pop_front(&mut self.links).or_else(|| {
            let id = flow.sorted.first_from(flow.position).or_else(|| flow.sorted.first())?;
            flow.sorted.remove(id);
            Some(id)
        })
    }

    /// Compares what the tenants got, and moves the depth.
    fn look(&mut self, now: Nanos) {
        let span = now.since(self.looked_at).0;
        self.looked_at = now;
        let got = |flow: &Flow| flow.served * WHOLE / flow.share.max(1);
        let most = self.flows.iter().map(got).max().unwrap_or(0);
        let mut anyone = false;
        for flow in &mut self.flows {
            if flow.outstanding > 0 {
                flow.busy += now.since(flow.busy_since);
                flow.busy_since = now;
            }
            // A backlog of its own says that the order of service will see to it.
            let hungry = flow.busy.0 * 100 >= span * HUNGRY_PERCENT && !flow.waits();
            flow.behind = hungry && got(flow) * 100 < most * BEHIND_PERCENT;
            anyone |= flow.behind;
            flow.served = 0;
            flow.busy = Nanos::ZERO;
        }
        let grown = (self.depth + 1).min(self.max_depth);
        self.depth = if anyone { (self.depth * 3 / 4).max(1) } else { grown };
    }
}

impl Scheduler for Headway {
    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        let io = &ctx.requests[id].io;
        let tenant = io.tenant.0;
        if !self.shares_known || tenant as usize >= self.flows.len() {
            self.learn_shares(ctx);
            self.flows.resize_with(self.flows.len().max(tenant as usize + 1), Flow::default);
        }
        let patience = self.patience();
        let flow = &mut self.flows[tenant as usize];
        let away = flow.outstanding == 0 && ctx.now.since(flow.last_seen) > patience;
        let dry = !flow.waits();
        if flow.outstanding == 0 {
            flow.busy_since = ctx.now;
        }
        flow.outstanding += 1;
        match place {
            Place::Head => flow.fifo.push_front(&mut self.links, id),
            Place::Tail if self.rotational => flow.sorted.insert(id, ctx.requests[id].sector),
            Place::Tail => flow.fifo.push_back(&mut self.links, id),
        }
        if dry {
            self.enter(tenant, away);
        }
        if self.idle.is_some_and(|(waited, _)| waited.0 == tenant) {
            self.idle = None;
        }
        self.waiting += 1;
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        self.waiting > 0
    }

    fn next(&mut self, _hw_queue: usize, ctx: &Context<'_>) -> Next {
        if let Some((_, until)) = self.idle {
            if ctx.now < until {
                return Next::WaitUntil(until);
            }
            self.idle = None;
        }
        if self.in_device >= self.depth {
            return Next::WaitUntil(ctx.now + self.patience());
        }
        let Some(tenant) = self.ready.first() else { return Next::Empty };
        let Some(id) = self.pick(tenant) else { return Next::Empty };
        self.ready.remove(tenant);
        let request = &ctx.requests[id];
        let flow = &mut self.flows[tenant as usize];
        self.time = self.time.max(flow.time);
        flow.position = request.end();
        flow.time += u64::from(request.sectors.max(1)) * SECTOR * WHOLE / flow.share.max(1);
        flow.in_device += 1;
        self.in_device += 1;
        self.waiting -= 1;
        if flow.waits() {
            self.ready.insert(tenant, flow.time);
        }
        Next::Dispatch(id)
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        let request = &ctx.requests[id];
        let tenant = request.io.tenant;
        let patience = self.patience();
        let flow = &mut self.flows[tenant.0 as usize];
        flow.in_device -= 1;
        flow.served += u64::from(request.sectors);
        flow.last_seen = ctx.now;
        flow.outstanding -= 1;
        if flow.outstanding == 0 {
            flow.busy += ctx.now.since(flow.busy_since);
        }
        self.in_device -= 1;
        if flow.behind && self.depth <= 2 && !flow.waits() && flow.in_device == 0 {
            self.idle = Some((tenant, ctx.now + patience));
        }
        self.completions += 1;
        if self.completions >= WINDOW.max(self.flows.len() as u32) {
            self.completions = 0;
            self.look(ctx.now);
        }
        self.waiting > 0
    }

    fn requeued(&mut self, id: RequestId, ctx: &Context<'_>) {
        let flow = &mut self.flows[ctx.requests[id].io.tenant.0 as usize];
        flow.in_device -= 1;
        flow.outstanding -= 1;
        self.in_device -= 1;
    }

    fn merged(&mut self, join: dumbwaiter_block::Join, ctx: &Context<'_>) {
        let request = &ctx.requests[join.into];
        let sorted = &mut self.flows[request.io.tenant.0 as usize].sorted;
        if join.side == dumbwaiter_block::Side::Front && sorted.contains(join.into) {
            sorted.remove(join.into);
            sorted.insert(join.into, request.sector);
        }
    }

    fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        let tenant = ctx.requests[absorbed].io.tenant.0;
        let flow = &mut self.flows[tenant as usize];
        if flow.sorted.contains(absorbed) {
            flow.sorted.remove(absorbed);
        } else {
            flow.fifo.remove(&mut self.links, absorbed);
        }
        flow.outstanding -= 1;
        self.waiting -= 1;
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        match event {
            Event::TenantChanged(_) => self.learn_shares(ctx),
            // Queued requests stay where they are: both orders are served.
            Event::RotationalChanged(rotational) => self.rotational = rotational,
            Event::DepthChanged(_) | Event::Timer | Event::TaskExited(_) | Event::TaskChanged(_) => {}
        }
    }

    fn describe(&self, _ctx: &Context<'_>) -> String {
        let flows: Vec<String> = self
            .flows
            .iter()
            .map(|f| format!("time {} share {} in device {} behind {}", f.time, f.share, f.in_device, f.behind))
            .collect();
        format!("depth {} of {}, {} in device\n{}\n", self.depth, self.max_depth, self.in_device, flows.join("\n"))
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
