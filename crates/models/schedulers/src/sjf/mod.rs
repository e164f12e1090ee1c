//! `sjf` and `sptf`: the shortest predicted latency first, with a bound on how long anything waits.
//!
//! Requests wait in order of arrival and in a heap by `prediction + number · δ`, where `number` counts arrivals. A request is
//! overtaken by at most `⌈(P_max − P_min) / δ⌉ − 1` later ones, whatever the predictor says, and one older than a limit goes
//! first. Where predictions order pairs of requests no better than chance, arrivals are served in turn. Requests that overlap
//! keep their order if one of them is no read, and priority classes are served one after the other.
//!
//! `sptf` also judges the first requests of the heap again when the device is free: by the distance from the last one sent,
//! the region, and what such distances cost lately.
//!
//! Source: FSL-25-07, *Towards Machine Learning-Based I/O Scheduling* (2025), KML-IOSched; the clamp, the age limit, the order
//! of overlapping requests, the way back to arrival order and `sptf` are ours.

mod accuracy;
mod network;
mod overlaps;
mod position;
mod predictor;
mod settings;

use std::sync::Arc;

use dumbwaiter_block::{
    Context, Event, Io, IoClass, Join, MergeIndex, Nanos, Next, Op, Place, Request, RequestId, Scheduler,
    ServiceOracle, Setup, Side, Tunable,
};

pub use network::LearnedModel;
pub use predictor::{Dispatch, Model, Source};
pub use settings::{SPTF_TUNABLES, TUNABLES};

use crate::mechanisms::list::{Links, List};
use crate::mechanisms::ordered::{Tree, TreeArena};
use accuracy::PairOrder;
use overlaps::{Overlaps, Range};
use predictor::{Predictor, Sent};
use settings::{SETTINGS, Settings};

/// Priority classes: realtime, best effort, idle.
const CLASSES: usize = 3;
/// Least prediction that counts, ns.
const PREDICTION_MIN: u64 = 1_000;
/// Mean latency before any completion, ns: of a disk, and of flash.
const MEAN_AT_FIRST: [u64; 2] = [100_000, 10_000_000];
/// The mean latency follows the last 64 completions or so.
const MEAN_SHIFT: u32 = 6;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Where {
    #[default]
    Out,
    /// At-head requests go before all others.
    Head,
    /// In the heap.
    Free,
    /// Behind a request that it overlaps.
    Waiting,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    place: Where,
    class: u8,
    /// Counts arrivals.
    number: u64,
    arrived: Nanos,
    key: u64,
    /// The prediction that counted when it was sent, and the sector behind the one sent before it.
    predicted: u64,
    position: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    /// All of its requests, oldest first.
    fifo: List,
    /// Those that may go.
    heap: Tree,
}

/// See the module documentation.
#[derive(Clone)]
pub struct Sjf {
    classes: [Class; CLASSES],
    head: List,
    links: Links,
    heap: TreeArena<(u64, u64)>,
    overlaps: Overlaps,
    entries: Vec<Entry>,
    predictor: Predictor,
    accuracy: PairOrder,
    /// It judges positions at dispatch.
    positions: bool,
    rotational: bool,
    device_depth: u32,
    queued: u32,
    /// Requests sent and not complete.
    sent: u32,
    number: u64,
    /// The sector behind the last request sent.
    position: u64,
    mean: u64,
    /// δ and the longest prediction that counts, ns; both change only while nothing is queued.
    delta: u64,
    longest: u64,
    settings: Settings,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    aged: u64,
    in_turn: u64,
    kept_in_order: u64,
}

fn class_of(request: &Request) -> u8 {
    match request.io.ioprio.class() {
        IoClass::Realtime => 0,
        IoClass::BestEffort | IoClass::None => 1,
        IoClass::Idle => 2,
    }
}

fn range_of(request: &Request) -> Range {
    Range::new(request.sector, request.sectors, request.io.op != Op::Read)
}

impl Sjf {
    /// Shortest predicted latency first.
    pub fn new(setup: Setup, source: Source) -> Sjf {
        Sjf::of(setup, source, false)
    }

    /// Shortest positioning time first.
    pub fn by_position(setup: Setup, source: Source) -> Sjf {
        Sjf::of(setup, source, true)
    }

    fn of(setup: Setup, source: Source, positions: bool) -> Sjf {
        let mut sjf = Sjf {
            classes: [Class::default(); CLASSES],
            head: List::default(),
            links: Links::default(),
            heap: TreeArena::default(),
            overlaps: Overlaps::default(),
            entries: Vec::new(),
            predictor: Predictor::new(source),
            accuracy: PairOrder::default(),
            positions,
            rotational: setup.rotational,
            device_depth: setup.commands(),
            queued: 0,
            sent: 0,
            number: 0,
            position: 0,
            mean: MEAN_AT_FIRST[usize::from(setup.rotational)],
            delta: 1,
            longest: 1,
            settings: Settings::new(),
            counts: Counts::default(),
        };
        sjf.rescale();
        sjf
    }

    /// Derives δ and the clamp from the mean latency. Nothing may be queued: keys would lose their order.
    fn rescale(&mut self) {
        self.delta = (self.mean / self.settings.delta_fraction).max(1);
        self.longest = self.mean.saturating_mul(self.settings.clamp).max(PREDICTION_MIN);
    }

    /// A request older than this goes first.
    fn age_limit(&self) -> Nanos {
        match self.settings.age_ms {
            0 => {
                let least = if self.rotational { Nanos::from_ms(2000) } else { Nanos::from_ms(50) };
                Nanos(self.mean.saturating_mul(20 * u64::from(self.device_depth))).max(least)
            }
            ms => Nanos::from_ms(ms),
        }
    }

    fn dispatch_at(&self, now: Nanos) -> Dispatch {
        Dispatch { now, position: self.position, in_device: self.sent }
    }

    fn follows_predictions(&self) -> bool {
        !self.settings.fallback || self.accuracy.trusted()
    }

    fn enter_heap(&mut self, id: RequestId) {
        let Entry { class, key, number, .. } = self.entries[id.index()];
        self.heap.insert(&mut self.classes[usize::from(class)].heap, id.0, (key, number));
    }

    /// Takes a request out of every structure.
    fn leave(&mut self, id: RequestId) {
        let Entry { place, class, .. } = self.entries[id.index()];
        self.entries[id.index()].place = Where::Out;
        self.queued -= 1;
        let class = &mut self.classes[usize::from(class)];
        match place {
            Where::Out => self.queued += 1,
            Where::Head => self.head.remove(&mut self.links, id),
            Where::Free | Where::Waiting => {
                class.fifo.remove(&mut self.links, id);
                if place == Where::Free {
                    self.heap.remove(&mut class.heap, id.0);
                }
                self.overlaps.remove(id, place == Where::Waiting);
            }
        }
    }

    /// Requests that waited for one that has left may go.
    fn release(&mut self) {
        while let Some(id) = self.overlaps.release() {
            self.entries[id.index()].place = Where::Free;
            self.enter_heap(id);
        }
    }

    /// The oldest request of all, if it is older than the limit. Nothing earlier can be in its way.
    fn overdue(&self, now: Nanos) -> Option<RequestId> {
        let fronts = self.classes.iter().filter_map(|class| class.fifo.front());
        let oldest = fronts.min_by_key(|id| self.entries[id.index()].number)?;
        let waited = now.since(self.entries[oldest.index()].arrived);
        (waited > self.age_limit()).then_some(oldest)
    }

    fn choose(&mut self, ctx: &Context<'_>) -> Option<RequestId> {
        if let Some(id) = self.head.front() {
            return Some(id);
        }
        if let Some(id) = self.overdue(ctx.now) {
            self.counts.aged += 1;
            return Some(id);
        }
        let class = self.classes.iter().find(|class| !class.heap.is_empty())?;
        if !self.follows_predictions() {
            let front = class.fifo.front().filter(|id| self.entries[id.index()].place == Where::Free);
            self.counts.in_turn += 1;
            return front.or_else(|| class.heap.first().map(RequestId));
        }
        if self.positions { self.best_position(class, ctx) } else { class.heap.first().map(RequestId) }
    }

    /// Of the first requests of the heap the one whose position is cheapest, its age counted in.
    fn best_position(&self, class: &Class, ctx: &Context<'_>) -> Option<RequestId> {
        let mut best: Option<(u64, RequestId)> = None;
        let mut at = class.heap.first();
        for _ in 0..self.settings.heads {
            let Some(id) = at.map(RequestId) else { break };
            let cost = self.predictor.of_position(&ctx.requests[id], self.dispatch_at(ctx.now)).min(self.longest);
            let cost = cost.saturating_add(self.entries[id.index()].number.saturating_mul(self.delta));
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, id));
            }
            at = self.heap.next(id.0);
        }
        best.map(|(_, id)| id)
    }

    /// Learns from a request that the device finished.
    fn learn(&mut self, id: RequestId, ctx: &Context<'_>) {
        let request = &ctx.requests[id];
        let Some(entry) = self.entries.get(id.index()).copied().filter(|_| request.sectors > 0) else { return };
        let latency = ctx.now.since(request.issue);
        self.mean = (self.mean - (self.mean >> MEAN_SHIFT)).saturating_add(latency.0 >> MEAN_SHIFT).max(1);
        if entry.predicted > 0 {
            self.accuracy.record(entry.predicted, latency.0);
        }
        let alone_on_a_disk = self.rotational && self.device_depth == 1;
        let sent = Sent { position: entry.position, predicted: entry.predicted, alone_on_a_disk };
        self.predictor.completed(request, latency, ctx.now);
        if self.positions {
            self.predictor.learn_position(request, sent, latency, ctx.now);
        }
    }

    fn entry(&mut self, id: RequestId) -> &mut Entry {
        if id.index() >= self.entries.len() {
            self.entries.resize(id.index() + 1, Entry::default());
        }
        &mut self.entries[id.index()]
    }
}

impl Scheduler for Sjf {
    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        if self.queued == 0 {
            self.rescale();
        }
        let request = &ctx.requests[id];
        self.queued += 1;
        if place == Place::Head {
            *self.entry(id) = Entry { place: Where::Head, position: self.position, ..Entry::default() };
            self.head.push_front(&mut self.links, id);
            return;
        }
        let predicted =
            self.predictor.of_arrival(request, self.dispatch_at(ctx.now)).clamp(PREDICTION_MIN, self.longest);
        self.number += 1;
        let number = self.number;
        let waits = self.overlaps.add(id, range_of(request));
        let class = class_of(request);
        let entry = Entry {
            place: if waits { Where::Waiting } else { Where::Free },
            class,
            number,
            arrived: ctx.now,
            key: predicted.saturating_add(number.saturating_mul(self.delta)),
            predicted,
            position: self.position,
        };
        *self.entry(id) = entry;
        self.classes[usize::from(class)].fifo.push_back(&mut self.links, id);
        if waits {
            self.counts.kept_in_order += 1;
        } else {
            self.enter_heap(id);
        }
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        self.queued > 0
    }

    fn next(&mut self, _hw_queue: usize, ctx: &Context<'_>) -> Next {
        // A choice made before the device has room would be made too early: the arm is still on its way.
        if self.sent >= self.device_depth {
            return Next::Empty;
        }
        let Some(id) = self.choose(ctx) else { return Next::Empty };
        self.leave(id);
        self.sent += 1;
        let request = &ctx.requests[id];
        if self.positions {
            let predicted =
                self.predictor.of_position(request, Dispatch { in_device: self.sent - 1, ..self.dispatch_at(ctx.now) });
            self.entries[id.index()].predicted = predicted;
        }
        self.entries[id.index()].position = self.position;
        self.position = request.end();
        if self.overlaps.any_waits() {
            self.release();
        }
        Next::Dispatch(id)
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        self.sent = self.sent.saturating_sub(1);
        self.learn(id, ctx);
        self.queued > 0
    }

    fn requeued(&mut self, _id: RequestId, _ctx: &Context<'_>) {
        self.sent = self.sent.saturating_sub(1);
    }

    fn merge(&mut self, io: &Io, index: &MergeIndex, ctx: &Context<'_>) -> Option<Join> {
        let join = index.lookup(io, ctx)?;
        self.allow_merge(join.into, io, ctx).then_some(join)
    }

    /// A merge lets the arrival pass all that is queued: it may not pass what it overlaps.
    fn allow_merge(&self, _queued: RequestId, io: &Io, _ctx: &Context<'_>) -> bool {
        let range = Range::new(io.sector, io.sectors, io.op != Op::Read);
        !self.overlaps.any_waits() && !self.overlaps.must_wait(range)
    }

    fn merged(&mut self, join: Join, ctx: &Context<'_>) {
        let place = self.entries[join.into.index()].place;
        if join.side != Side::Range && matches!(place, Where::Free | Where::Waiting) {
            self.overlaps.grow(join.into, range_of(&ctx.requests[join.into]), place == Where::Waiting);
        }
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        self.leave(absorbed);
        let place = self.entries[survivor.index()].place;
        if matches!(place, Where::Free | Where::Waiting) {
            self.overlaps.grow(survivor, range_of(&ctx.requests[survivor]), place == Where::Waiting);
        }
        self.release();
    }

    fn event(&mut self, event: Event, _ctx: &Context<'_>) {
        match event {
            Event::DepthChanged { device_depth, .. } => self.device_depth = device_depth,
            Event::RotationalChanged(rotational) => self.rotational = rotational,
            _ => {}
        }
    }

    fn attach_oracle(&mut self, oracle: &Arc<dyn ServiceOracle>) {
        self.predictor.attach(oracle);
    }

    fn tunables(&self) -> &'static [Tunable] {
        if self.positions { SPTF_TUNABLES } else { TUNABLES }
    }

    fn get(&self, name: &str) -> Option<i128> {
        crate::settings::get(&SETTINGS[..self.tunables().len()], &self.settings, name)
    }

    fn set(&mut self, name: &str, value: i128) {
        crate::settings::set(&SETTINGS, &mut self.settings, name, value);
        if self.queued == 0 {
            self.rescale();
        }
    }

    fn counters(&self, count: &mut dyn FnMut(&'static str, u64)) {
        count("age_limit_dispatches", self.counts.aged);
        count("arrival_order_dispatches", self.counts.in_turn);
        count("overlaps_kept_in_order", self.counts.kept_in_order);
        count("pair_order_permille", self.accuracy.share().into());
        count("mean_latency_us", self.mean / 1000);
    }

    fn describe(&self, _ctx: &Context<'_>) -> String {
        let following = if self.follows_predictions() { "predictions" } else { "arrival" };
        format!(
            "by {following}: {} queued, pair order {} ‰, mean {} us, delta {} ns, longest {} us, oldest goes after {}\n",
            self.queued,
            self.accuracy.share(),
            self.mean / 1000,
            self.delta,
            self.longest / 1000,
            self.age_limit()
        )
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
