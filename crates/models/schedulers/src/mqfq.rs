//! `mqfq`: start-time fair queueing over several hardware queues, which only hold a tenant back that is too far ahead.
//!
//! Each tenant has a virtual start that advances by what it is served, divided by its share. The virtual time is the smallest start of
//! the tenants with requests, queued or in the device. Each hardware queue serves its tenants in turn, whatever their order; a tenant more than
//! a threshold ahead of the virtual time is throttled in all of them until the others have caught up.
//!
//! Source: Hedayati, Shen, Scott, Marty, *Multi-Queue Fair Queueing* (USENIX ATC 2019). Tenants are flows; nested ones are flattened to
//! their share of the whole.

use dumbwaiter_block::{
    Context, Event, Io, Nanos, Next, Place, QueueMap, RequestId, Scheduler, Setup, Traits, Tunable,
};

use crate::mechanisms::flows::{self, Shares, Slots};
use crate::mechanisms::list::{Links, List};
use crate::mechanisms::ordered::{Tree, TreeArena, later};
use crate::settings::{has_settings, settings, tunables, with_defaults};

settings! {
    const SETTINGS of Mqfq;
    threshold_kib: "KiB", 0, 1 << 20, 1024,
        "service of the whole device by which a tenant may be ahead of the others; of it each tenant gets its share"
        => (threshold_kib);
}

/// Settings.
pub const TUNABLES: &[Tunable] = &tunables(&SETTINGS);

/// When a hardware queue whose tenants are all throttled asks again, if no completion lets them go before.
const THROTTLED_RECHECK: Nanos = Nanos::from_ms(3);

/// Where the requests that a tenant has in a hardware queue wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    /// It has none.
    #[default]
    Absent,
    Waiting,
    Throttled,
}

/// One hardware queue.
#[derive(Clone, Debug, Default)]
struct Queue {
    /// Requests by flow.
    lists: Vec<List>,
    turns: Vec<Turn>,
    /// Flows in the order in which they are served; each number stands for a flow.
    ring: List,
    ring_links: Links,
    head: List,
    len: usize,
}

impl Queue {
    fn join_ring(&mut self, flow: usize) {
        self.turns[flow] = Turn::Waiting;
        self.ring.push_back(&mut self.ring_links, RequestId(flow as u32));
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Virtual start of its next request.
    start: u64,
    /// Its requests in all hardware queues.
    queued: usize,
    /// Those and the ones in the device.
    outstanding: usize,
}

/// See the module documentation.
#[derive(Clone)]
pub struct Mqfq {
    queue_map: QueueMap,
    threshold_kib: u64,
    queues: Vec<Queue>,
    links: Links,
    /// By request: it is in the `head` of its hardware queue.
    at_head: Vec<bool>,
    shares: Shares,
    slots: Slots,
    flows: Vec<Flow>,
    /// Flows with requests, queued or in the device, by start.
    busy: Tree,
    busy_forest: TreeArena,
    /// Those held back, by start.
    throttled: Tree,
    throttled_forest: TreeArena,
    /// Virtual time.
    now: u64,
    /// A flow was let go since the last completion.
    released: bool,
    throttlings: u64,
}

impl Mqfq {
    /// An empty scheduler.
    pub fn new(setup: Setup) -> Mqfq {
        let made = Mqfq {
            queue_map: setup.queue_map(),
            threshold_kib: 0,
            queues: vec![Queue::default(); usize::from(setup.hw_queues.max(1))],
            links: Links::default(),
            at_head: Vec::new(),
            shares: Shares::default(),
            slots: Slots::default(),
            flows: Vec::new(),
            busy: Tree::default(),
            busy_forest: TreeArena::default(),
            throttled: Tree::default(),
            throttled_forest: TreeArena::default(),
            now: 0,
            released: false,
            throttlings: 0,
        };
        with_defaults(&SETTINGS, made)
    }

    /// The virtual time up to which a flow may start.
    fn limit(&self) -> u64 {
        self.now.wrapping_add(flows::whole_span(self.threshold_kib * 2))
    }

    /// The virtual time follows the smallest start. Flows that are no longer too far ahead are served again.
    fn advance(&mut self) {
        let Some(first) = self.busy.first() else { return };
        let start = self.busy_forest.key(first);
        if later(start, self.now) {
            self.now = start;
        }
        let limit = self.limit();
        while let Some(flow) = self.throttled.first().filter(|flow| !later(self.throttled_forest.key(*flow), limit)) {
            self.throttled_forest.remove(&mut self.throttled, flow);
            self.let_go(flow as usize);
        }
    }

    fn let_go(&mut self, flow: usize) {
        self.released = true;
        for queue in self.queues.iter_mut().filter(|queue| queue.turns.get(flow) == Some(&Turn::Throttled)) {
            queue.join_ring(flow);
        }
    }

    /// The next flow of a hardware queue that is not too far ahead.
    fn next_flow(&mut self, hw: usize) -> Option<usize> {
        let limit = self.limit();
        loop {
            let queue = &mut self.queues[hw];
            let flow = queue.ring.pop_front(&mut queue.ring_links)?.index();
            let start = self.flows[flow].start;
            if !later(start, limit) {
                return Some(flow);
            }
            queue.turns[flow] = Turn::Throttled;
            if !self.throttled_forest.contains(flow as u32) {
                self.throttlings += 1;
                self.throttled_forest.insert(&mut self.throttled, flow as u32, start);
            }
        }
    }

    /// A request of a flow was inserted.
    fn begins(&mut self, flow: usize) {
        let now = self.now;
        let state = flows::entry(&mut self.flows, flow);
        state.outstanding += 1;
        if state.outstanding == 1 {
            state.start = if later(state.start, now) { state.start } else { now };
            self.busy_forest.insert(&mut self.busy, flow as u32, state.start);
        }
        self.slots.took(flow, &self.shares);
    }

    /// A request of a flow is complete, returned by the driver, or part of another.
    fn ends(&mut self, flow: usize) {
        self.slots.gave_back(flow, &self.shares);
        let Some(state) = self.flows.get_mut(flow).filter(|state| state.outstanding > 0) else { return };
        state.outstanding -= 1;
        if state.outstanding == 0 {
            self.busy_forest.remove(&mut self.busy, flow as u32);
        }
    }

    /// One request of a flow fewer is queued.
    fn leave(&mut self, flow: usize) {
        self.flows[flow].queued -= 1;
        if self.flows[flow].queued == 0 && self.throttled_forest.contains(flow as u32) {
            self.throttled_forest.remove(&mut self.throttled, flow as u32);
        }
    }
}

impl Scheduler for Mqfq {
    fn traits(&self) -> Traits {
        Traits { per_queue: true, ..Traits::default() }
    }

    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        self.shares.learn_once(ctx);
        let request = &ctx.requests[id];
        self.begins(flows::flow_of(request));
        let queue = &mut self.queues[self.queue_map.of(request.io.cpu)];
        queue.len += 1;
        *flows::entry(&mut self.at_head, id.index()) = place == Place::Head;
        if place == Place::Head {
            return queue.head.push_front(&mut self.links, id);
        }
        let flow = flows::flow_of(request);
        flows::entry(&mut queue.lists, flow).push_back(&mut self.links, id);
        self.flows[flow].queued += 1;
        if *flows::entry(&mut queue.turns, flow) == Turn::Absent {
            // One that is held back is so in all queues.
            if self.throttled_forest.contains(flow as u32) {
                queue.turns[flow] = Turn::Throttled;
            } else {
                queue.join_ring(flow);
            }
        }
    }

    fn has_work(&self, hw_queue: usize) -> bool {
        self.queues[hw_queue].len > 0
    }

    fn next(&mut self, hw_queue: usize, ctx: &Context<'_>) -> Next {
        let queue = &mut self.queues[hw_queue];
        if let Some(id) = queue.head.pop_front(&mut self.links) {
            queue.len -= 1;
            return Next::Dispatch(id);
        }
        self.advance();
        let Some(flow) = self.next_flow(hw_queue) else { return Next::WaitUntil(ctx.now + THROTTLED_RECHECK) };
        let queue = &mut self.queues[hw_queue];
        let Some(id) = queue.lists[flow].pop_front(&mut self.links) else { return Next::Empty };
        queue.len -= 1;
        if queue.lists[flow].is_empty() {
            queue.turns[flow] = Turn::Absent;
        } else {
            queue.join_ring(flow);
        }
        let span = flows::span(flows::sectors_of(&ctx.requests[id]), self.shares.of(flow));
        let start = self.flows[flow].start.wrapping_add(span);
        self.flows[flow].start = start;
        self.busy_forest.rekey(&mut self.busy, flow as u32, start);
        self.leave(flow);
        self.advance();
        Next::Dispatch(id)
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        self.ends(flows::flow_of(&ctx.requests[id]));
        self.advance();
        std::mem::take(&mut self.released)
    }

    fn requeued(&mut self, id: RequestId, ctx: &Context<'_>) {
        self.ends(flows::flow_of(&ctx.requests[id]));
    }

    fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        let request = &ctx.requests[absorbed];
        let flow = flows::flow_of(request);
        self.ends(flow);
        let queue = &mut self.queues[self.queue_map.of(request.io.cpu)];
        queue.len -= 1;
        if self.at_head[absorbed.index()] {
            return queue.head.remove(&mut self.links, absorbed);
        }
        queue.lists[flow].remove(&mut self.links, absorbed);
        if queue.lists[flow].is_empty() {
            if queue.turns[flow] == Turn::Waiting {
                queue.ring.remove(&mut queue.ring_links, RequestId(flow as u32));
            }
            queue.turns[flow] = Turn::Absent;
        }
        self.leave(flow);
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
                flows::entry(&mut self.flows, tenant.0 as usize).start = self.now;
                self.shares.learn(ctx);
                self.slots.reweigh(&self.shares);
            }
            _ => {}
        }
    }

    has_settings!(SETTINGS, TUNABLES);

    fn counters(&self, count: &mut dyn FnMut(&'static str, u64)) {
        count("throttlings", self.throttlings);
    }

    fn describe(&self, _ctx: &Context<'_>) -> String {
        format!("virtual time {}, {} tenants busy, {} throttled\n", self.now, self.busy.len(), self.throttled.len())
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
