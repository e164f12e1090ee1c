//! `d2fq`: fair queueing by the drive's own classes. Requests go to the drive in order of arrival, each in a class by how far its tenant is
//! ahead.
//!
//! Each tenant has a virtual time that advances by what it sends, divided by its share; the global virtual time is the smallest of the tenants
//! with requests under way. A request of a tenant that is hardly ahead goes to the drive's high class, of one further ahead to the medium one, and else
//! to the low one. The drive serves its classes by weighted round robin, so that tenants that are ahead slow down, without any
//! request being held back.
//!
//! Source: Woo, Ahn, Lee and others, *D2FQ: Device-Direct Fair Queueing for NVMe SSDs* (FAST 2021). The ratio of the classes' weights is
//! fixed. Tenants are flows; nested ones are flattened to their share of the whole.

use dumbwaiter_block::{Context, Event, Next, Place, RequestId, Scheduler, Setup, Tunable};

use crate::mechanisms::flows::{self, Shares};
use crate::mechanisms::list::{Links, List};
use crate::mechanisms::ordered::{Tree, TreeArena, later};
use crate::settings::{has_settings, settings, tunables, with_defaults};

settings! {
    const SETTINGS of D2fq;
    medium_kib: "KiB", 0, 1 << 20, 256, "service of the whole device by which a tenant is ahead in the medium class" => (medium_kib);
    low_kib: "KiB", 0, 1 << 20, 1024, "service of the whole device by which a tenant is ahead in the low class" => (low_kib);
    high_weight: "", 1, 256, 64, "weight of the high class, with 1 for the low one; chosen when it is attached" => (high_weight);
    medium_weight: "", 1, 256, 8, "weight of the medium class; chosen when it is attached" => (medium_weight);
}

/// Settings.
pub const TUNABLES: &[Tunable] = &tunables(&SETTINGS);

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Virtual time.
    time: u64,
    /// Its requests queued and in the device.
    outstanding: u32,
}

/// See the module documentation.
#[derive(Clone, Default)]
pub struct D2fq {
    fifo: List,
    links: Links,
    shares: Shares,
    flows: Vec<Flow>,
    /// Flows with requests under way, by virtual time.
    busy: Tree,
    forest: TreeArena,
    /// Smallest virtual time of those.
    now: u64,
    /// By request: its class, and whether its flow has paid for it.
    classes: Vec<(u8, bool)>,
    medium_kib: u64,
    low_kib: u64,
    high_weight: u32,
    medium_weight: u32,
    sent: [u64; 3],
}

impl D2fq {
    /// An empty scheduler.
    pub fn new(_setup: Setup) -> D2fq {
        with_defaults(&SETTINGS, D2fq::default())
    }

    fn advance(&mut self) {
        if let Some(first) = self.busy.first() {
            let least = self.forest.key(first);
            self.now = if later(least, self.now) { least } else { self.now };
        }
    }

    fn class_of(&self, flow: usize) -> u8 {
        let ahead = |kib: u64| later(self.flows[flow].time, self.now.wrapping_add(flows::whole_span(2 * kib)));
        match (ahead(self.medium_kib), ahead(self.low_kib)) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        }
    }

    /// One request of a flow fewer is under way.
    fn leave(&mut self, flow: usize) {
        let Some(state) = self.flows.get_mut(flow).filter(|state| state.outstanding > 0) else { return };
        state.outstanding -= 1;
        if state.outstanding == 0 {
            self.forest.remove(&mut self.busy, flow as u32);
        }
    }
}

impl Scheduler for D2fq {
    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        self.shares.learn_once(ctx);
        let request = &ctx.requests[id];
        let flow = flows::flow_of(request);
        let now = self.now;
        let state = flows::entry(&mut self.flows, flow);
        state.outstanding += 1;
        if state.outstanding == 1 {
            state.time = if later(state.time, now) { state.time } else { now };
            self.forest.insert(&mut self.busy, flow as u32, state.time);
        }
        let class = flows::entry(&mut self.classes, id.index());
        match place {
            Place::Tail => {
                *class = (0, false);
                self.fifo.push_back(&mut self.links, id);
            }
            Place::Head => self.fifo.push_front(&mut self.links, id),
        }
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        !self.fifo.is_empty()
    }

    fn next(&mut self, _hw_queue: usize, ctx: &Context<'_>) -> Next {
        let Some(id) = self.fifo.pop_front(&mut self.links) else { return Next::Empty };
        let request = &ctx.requests[id];
        let flow = flows::flow_of(request);
        self.advance();
        let class = self.class_of(flow);
        self.sent[usize::from(class)] += 1;
        let paid = std::mem::replace(&mut self.classes[id.index()], (class, true)).1;
        if !paid {
            let span = flows::span(flows::sectors_of(request), self.shares.of(flow));
            self.flows[flow].time = self.flows[flow].time.wrapping_add(span);
            self.forest.rekey(&mut self.busy, flow as u32, self.flows[flow].time);
        }
        Next::Dispatch(id)
    }

    fn device_class(&self, id: RequestId) -> u8 {
        self.classes.get(id.index()).map_or(1, |class| class.0)
    }

    fn class_weights(&self) -> Option<[u32; 3]> {
        Some([self.high_weight, self.medium_weight, 1])
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        self.leave(flows::flow_of(&ctx.requests[id]));
        false
    }

    fn requeued(&mut self, id: RequestId, ctx: &Context<'_>) {
        self.leave(flows::flow_of(&ctx.requests[id]));
    }

    fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        self.fifo.remove(&mut self.links, absorbed);
        self.leave(flows::flow_of(&ctx.requests[absorbed]));
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        match event {
            Event::TenantAdded(_) | Event::TenantChanged(_) => self.shares.learn(ctx),
            Event::TenantRetired(tenant) => {
                flows::entry(&mut self.flows, tenant.0 as usize).time = self.now;
                self.shares.learn(ctx);
            }
            _ => {}
        }
    }

    has_settings!(SETTINGS, TUNABLES);

    fn counters(&self, count: &mut dyn FnMut(&'static str, u64)) {
        count("sent_high", self.sent[0]);
        count("sent_medium", self.sent[1]);
        count("sent_low", self.sent[2]);
    }

    fn describe(&self, _ctx: &Context<'_>) -> String {
        format!("virtual time {}, {} tenants busy, sent by class {:?}\n", self.now, self.busy.len(), self.sent)
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
