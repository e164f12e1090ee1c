//! `adios`: batches of requests chosen by deadlines that are predicted from learned latencies.
//!
//! For each type of request (read, write, discard, other) a line, base + slope · size, is learned from completions. A
//! request's deadline is its start, and unless it is marked synchronous also the target of its type and its predicted latency.
//! Reads wait in one tree and all others in a second one. A batch, limited by number and by predicted time, moves from the trees
//! to one of two pages while the other one is served by type. Deadlines only decide which batch a request joins.
//!
//! Source: the Adaptive Deadline I/O Scheduler 3.2.0 (2026), out of tree. The time of the last completion and the samples are kept per
//! device, not per CPU.

mod models;
mod page;
mod settings;
#[cfg(test)]
mod tests;

use dumbwaiter_block::{
    Context, Event, Flags, Io, Join, MergeIndex, Nanos, Next, Op, Place, Request, RequestId, Scheduler, Setup, Tunable,
};

use crate::mechanisms::list::List;
use crate::mechanisms::ordered::Tree;
use models::{DISCARD, OTHER, READ, Sample, TYPES, WRITE};
use page::{Page, Storage};
pub use settings::TUNABLES;
use settings::{SETTINGS, Settings};

/// Deadlines within 2^20 ns, about a millisecond, are equal.
const QUANTUM_BITS: u32 = 20;
/// Weights of nice levels -20 to 19, as the CPU scheduler has them.
const NICE_WEIGHTS: [i64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];
/// Evaluations of the models follow completions within this time, ms.
const EVALUATION_DELAY_MS: u64 = 100;
/// Few samples are evaluated after this time, ms.
const EVALUATION_INTERVAL_MS: u64 = 1500;
/// With `separate_models`, models that are still unknown after this time no longer keep requests in order of arrival.
const LEARNING_MAX: Nanos = Nanos::from_secs(5);

fn type_of(op: Op) -> usize {
    match op {
        Op::Read => READ,
        Op::Write => WRITE,
        Op::Discard => DISCARD,
        _ => OTHER,
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Where {
    #[default]
    Out,
    /// In a list that precedes everything else.
    First,
    Barrier,
    Tree,
    Page,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    place: Where,
    kind: usize,
    synchronous: bool,
    /// Inserted, and not complete yet.
    managed: bool,
    start: u64,
    deadline: u64,
    predicted: u64,
    bytes: u64,
}

/// Predicted work between the choice of a batch and its completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct InFlight {
    count: u64,
    ns: u64,
}

/// See the module documentation.
#[derive(Clone)]
pub struct Adios {
    setup: Setup,
    settings: Settings,
    entries: Vec<Entry>,
    storage: Storage,
    /// At-head requests, and those that arrive while the models are unknown.
    first: [List; 2],
    /// Reads, and all others, by deadline.
    trees: [Tree; 2],
    pages: [Page; 2],
    current: usize,
    /// Arrivals behind a flush, from which the list begins.
    barrier: List,
    behind_flush: bool,
    /// Whose turn it is: negative that of the second tree.
    bias: i64,
    in_flight: InFlight,
    queued: usize,
    /// The models are known.
    stable: bool,
    first_arrival: Option<Nanos>,
    arrived: [bool; TYPES],
    last_completion: Option<Nanos>,
    /// The sector behind the last completed request; 0: unknown.
    last_position: u64,
    /// The sector behind the last request sent, and whether the sweep descends.
    head: u64,
    descending: bool,
    /// Tick at which the models are evaluated.
    timer: Option<i64>,
    /// The request that an arrival is about to join by itself.
    joined: Option<RequestId>,
    batches: u64,
    largest: [u64; TYPES],
}

impl Adios {
    /// An empty scheduler that knows no latency.
    pub fn new(setup: Setup) -> Adios {
        Adios {
            setup,
            settings: Settings::new(setup.rotational_at_attach()),
            entries: Vec::new(),
            storage: Storage::default(),
            first: Default::default(),
            trees: Default::default(),
            pages: Default::default(),
            current: 0,
            barrier: List::default(),
            behind_flush: false,
            bias: 0,
            in_flight: InFlight::default(),
            queued: 0,
            stable: false,
            first_arrival: None,
            arrived: [false; TYPES],
            last_completion: None,
            last_position: 0,
            head: 0,
            descending: false,
            timer: None,
            joined: None,
            batches: 0,
            largest: [0; TYPES],
        }
    }

    fn rules(&self) -> models::Rules {
        self.settings.rules(self.setup.clock.from_ms(EVALUATION_INTERVAL_MS))
    }

    fn predict(&self, kind: usize, bytes: u64) -> u64 {
        self.settings.models.predict(kind, bytes).min(self.settings.latency_limit_ns)
    }

    fn deadline(&self, entry: &Entry) -> u64 {
        if entry.synchronous {
            return entry.start;
        }
        let predicted = if self.settings.compliance_flags & 1 == 0 { entry.predicted } else { 0 };
        entry.start.saturating_add(self.settings.target_ns[entry.kind]).saturating_add(predicted)
    }

    fn entry_for(&mut self, id: RequestId, request: &Request) -> &mut Entry {
        if id.index() >= self.entries.len() {
            self.entries.resize(id.index() + 1, Entry::default());
        }
        let (kind, bytes) = (type_of(request.io.op), request.bytes());
        let mut entry = Entry {
            kind,
            synchronous: request.io.flags.has(Flags::SYNC),
            managed: true,
            start: request.start.0,
            predicted: self.predict(kind, bytes),
            bytes,
            ..Entry::default()
        };
        entry.deadline = self.deadline(&entry);
        self.entries[id.index()] = entry;
        &mut self.entries[id.index()]
    }

    /// From the choice for a batch (or at once where there is none) on, a request counts as work of the device.
    fn count_in(&mut self, id: RequestId) {
        self.in_flight.count += 1;
        self.in_flight.ns = self.in_flight.ns.saturating_add(self.entries[id.index()].predicted);
    }

    fn count_out(&mut self, id: RequestId) {
        let Some(entry) = self.entries.get_mut(id.index()).filter(|entry| entry.managed) else { return };
        entry.managed = false;
        self.in_flight.count = self.in_flight.count.saturating_sub(1);
        self.in_flight.ns = self.in_flight.ns.saturating_sub(entry.predicted);
    }

    fn push_first(&mut self, list: usize, id: RequestId) {
        self.entries[id.index()].place = Where::First;
        self.first[list].push_back(&mut self.storage.links, id);
        self.count_in(id);
    }

    fn enter_tree(&mut self, id: RequestId) {
        let entry = &mut self.entries[id.index()];
        entry.place = Where::Tree;
        let tree = &mut self.trees[usize::from(entry.kind != READ)];
        self.storage.forest.insert(tree, id.0, entry.deadline >> QUANTUM_BITS);
    }

    fn leave_tree(&mut self, id: RequestId) {
        let tree = &mut self.trees[usize::from(self.entries[id.index()].kind != READ)];
        self.storage.forest.remove(tree, id.0);
    }

    /// Are the models known well enough to choose by them?
    fn knows_enough(&self, now: Nanos) -> bool {
        let known = |kind: usize| self.settings.models.line(kind).base > 0;
        if !self.settings.separate_models {
            return known(READ) && known(WRITE);
        }
        let mut seen = (READ..=DISCARD).filter(|kind| self.arrived[*kind]).peekable();
        let all = seen.peek().is_some() && seen.all(known);
        all || self.first_arrival.is_some_and(|first| now.since(first) >= LEARNING_MAX)
    }

    fn insert_while_learning(&mut self, id: RequestId, place: Place, now: Nanos) {
        self.arrived[self.entries[id.index()].kind] = true;
        self.first_arrival.get_or_insert(now);
        self.push_first(usize::from(place == Place::Tail), id);
        self.stable = self.knows_enough(now);
    }

    fn pop_first(&mut self, ctx: &Context<'_>) -> Option<RequestId> {
        let order = if self.settings.head_first { [0, 1] } else { [1, 0] };
        let list = order.into_iter().find(|list| !self.first[*list].is_empty())?;
        let id = self.first[list].pop_front(&mut self.storage.links);
        if self.first[list].is_empty() {
            self.turn(ctx);
        }
        id
    }

    /// The direction of the sweep over the current page.
    fn turn(&mut self, ctx: &Context<'_>) {
        let page = &self.pages[self.current];
        if page.by_sector() {
            self.descending = page.middle(ctx).is_some_and(|middle| self.head > middle);
        }
    }

    fn pop_page(&mut self, ctx: &Context<'_>) -> Option<RequestId> {
        let back = 1 - self.current;
        let serving = !self.pages[self.current].is_empty();
        let waiting = self.trees.iter().any(|tree| !tree.is_empty());
        if self.pages[back].is_empty() && waiting {
            let low = u128::from(self.settings.window_ns) * u128::from(self.settings.refill_percent) / 100;
            if !serving || self.in_flight.ns == 0 || u128::from(self.in_flight.ns) < low {
                self.fill(back, ctx);
            }
        }
        if !serving && !self.pages[back].is_empty() {
            self.current = back;
            self.turn(ctx);
        }
        self.pages[self.current].pop(&mut self.storage, self.descending)
    }

    /// The request that is next by deadline and bias, and whether its tree pays for it.
    fn first_by_deadline(&self) -> Option<(usize, RequestId, bool)> {
        let by_bias = usize::from(self.bias < 0);
        let deadline = |id: u32| self.entries[id as usize].deadline;
        Some(match (self.trees[0].first(), self.trees[1].first()) {
            (Some(read), Some(other)) => {
                let (chosen, left) = if by_bias == 0 { (read, other) } else { (other, read) };
                (by_bias, RequestId(chosen), deadline(chosen) > deadline(left))
            }
            (Some(id), None) => (0, RequestId(id), by_bias == 0),
            (None, Some(id)) => (1, RequestId(id), by_bias == 1),
            (None, None) => return None,
        })
    }

    /// Moves a batch from the trees to a page. The first request always fits.
    fn fill(&mut self, to: usize, ctx: &Context<'_>) {
        let by_sector = self.settings.batch_order && self.setup.rotational;
        self.pages[to].begin(by_sector);
        let (ahead, mut added) = (self.in_flight.ns, 0u64);
        let mut count = 0u64;
        while let Some((tree, id, pays)) = self.first_by_deadline() {
            let Entry { kind, predicted, deadline, start, .. } = self.entries[id.index()];
            let time = ahead.saturating_add(added).saturating_add(predicted);
            let full = self.pages[to].counts[kind] >= self.settings.batch_limit[kind];
            if count > 0 && (self.settings.models.line(kind).base == 0 || full || time > self.settings.window_ns) {
                break;
            }
            if pays {
                self.pay(tree, predicted);
            }
            self.leave_tree(id);
            self.entries[id.index()].place = Where::Page;
            let list = match kind {
                OTHER => OTHER,
                _ if by_sector => usize::from(deadline != start),
                kind => kind,
            };
            let page = &mut self.pages[to];
            page.push(&mut self.storage, list, id);
            page.counts[kind] += 1;
            count += 1;
            added = added.saturating_add(predicted);
        }
        self.in_flight.count += count;
        self.in_flight.ns = ahead.saturating_add(added);
        self.batches += 1;
        let page = &mut self.pages[to];
        for (largest, count) in self.largest.iter_mut().zip(page.counts) {
            *largest = count.max(*largest);
        }
        let several = if self.settings.sort_long_lists { page.sortable() > 1 } else { page.counts[WRITE] > 1 };
        if by_sector && several {
            page.sort(&mut self.storage, ctx);
        }
    }

    /// A tree that is served before an earlier deadline, or alone, pays for it by its weight.
    fn pay(&mut self, tree: usize, predicted: u64) {
        let sign = if tree == 0 { -1 } else { 1 };
        if predicted == 0 {
            self.bias = sign;
            return;
        }
        let weight = if tree == 0 { NICE_WEIGHTS[(self.settings.read_priority + 20) as usize] } else { 1024 };
        let paid = (i128::from(predicted) * i128::from(weight)) >> 10;
        self.bias = self.bias.saturating_add(sign * paid.min(i64::MAX.into()) as i64);
    }

    /// Lets the flush at the head of the barrier go, and then what arrived up to the next flush. `false` without a barrier.
    fn release_barrier(&mut self, ctx: &Context<'_>) -> bool {
        if !self.behind_flush {
            return false;
        }
        if let Some(flush) = self.barrier.pop_front(&mut self.storage.links) {
            self.push_first(1, flush);
        }
        while let Some(id) = self.barrier.front().filter(|id| ctx.requests[*id].io.op != Op::Flush) {
            self.barrier.remove(&mut self.storage.links, id);
            self.enter_tree(id);
        }
        self.behind_flush = !self.barrier.is_empty();
        true
    }

    /// Learns from the time since the completion before, or since the request was sent to an idle device.
    fn learn(&mut self, id: RequestId, ctx: &Context<'_>) {
        let request = &ctx.requests[id];
        let Some(entry) = self.entries.get(id.index()).copied() else { return };
        if entry.kind == OTHER {
            self.last_position = 0;
            return;
        }
        let since = self.last_completion.unwrap_or(request.issue);
        self.last_completion = (self.in_flight.count > 0).then_some(ctx.now);
        if entry.bytes == 0 || ctx.now < since {
            return;
        }
        let latency_ns = ctx.now.since(since).0;
        let distance = request.sector.abs_diff(self.last_position);
        let far = self.setup.rotational && self.last_position > 0 && distance > 0;
        let weight = if far { u64::from(distance.ilog2()) + 2 } else { 1 };
        self.last_position = request.end();
        if latency_ns > self.settings.latency_limit_ns {
            return;
        }
        let (now, rules) = (self.setup.clock.ticks(ctx.now), self.rules());
        let sample = Sample { bytes: entry.bytes, predicted_ns: entry.predicted, latency_ns, weight };
        self.settings.models.sample(entry.kind, sample, now, &rules);
        let due = now + self.setup.clock.from_ms(EVALUATION_DELAY_MS) + 1;
        self.timer = Some(self.timer.map_or(due, |timer| timer.min(due)));
    }
}

impl Scheduler for Adios {
    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        let request = &ctx.requests[id];
        self.entry_for(id, request);
        self.queued += 1;
        self.joined = None;
        if !self.stable {
            self.insert_while_learning(id, place, ctx.now);
        } else if place == Place::Head {
            self.push_first(0, id);
        } else if self.behind_flush || request.io.op == Op::Flush {
            self.behind_flush = true;
            self.entries[id.index()].place = Where::Barrier;
            self.barrier.push_back(&mut self.storage.links, id);
        } else {
            self.enter_tree(id);
        }
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        self.queued > 0
    }

    fn next(&mut self, _hw_queue: usize, ctx: &Context<'_>) -> Next {
        loop {
            if let Some(id) = self.pop_first(ctx).or_else(|| self.pop_page(ctx)) {
                self.entries[id.index()].place = Where::Out;
                self.queued -= 1;
                self.head = ctx.requests[id].end();
                return Next::Dispatch(id);
            }
            if !self.release_barrier(ctx) {
                return Next::Empty;
            }
        }
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        self.count_out(id);
        self.learn(id, ctx);
        false
    }

    fn requeued(&mut self, id: RequestId, _ctx: &Context<'_>) {
        self.count_out(id);
    }

    fn merge(&mut self, io: &Io, index: &MergeIndex, ctx: &Context<'_>) -> Option<Join> {
        let join = index.lookup(io, ctx).filter(|join| self.allow_merge(join.into, io, ctx))?;
        self.joined = Some(join.into);
        Some(join)
    }

    fn allow_merge(&self, queued: RequestId, _io: &Io, _ctx: &Context<'_>) -> bool {
        !self.behind_flush && self.entries[queued.index()].place == Where::Tree
    }

    /// A request that grew by a single I/O goes behind those of its quantum.
    fn merged(&mut self, join: Join, ctx: &Context<'_>) {
        let alone = self.joined.take() == Some(join.into);
        let id = join.into;
        if self.entries[id.index()].place != Where::Tree || !(alone || self.settings.predict_merged) {
            return;
        }
        self.leave_tree(id);
        if self.settings.predict_merged {
            let bytes = ctx.requests[id].bytes();
            let predicted = self.predict(self.entries[id.index()].kind, bytes);
            let entry = Entry { bytes, predicted, ..self.entries[id.index()] };
            self.entries[id.index()] = Entry { deadline: self.deadline(&entry), ..entry };
        }
        self.enter_tree(id);
    }

    fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, _ctx: &Context<'_>) {
        if self.entries[absorbed.index()].place == Where::Tree {
            self.leave_tree(absorbed);
            self.entries[absorbed.index()] = Entry::default();
            self.queued -= 1;
        }
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        let now = self.setup.clock.ticks(ctx.now);
        match event {
            Event::Timer if self.timer.is_some_and(|timer| timer <= now) => {
                self.timer = None;
                let rules = self.rules();
                self.settings.models.evaluate_all(now, &rules);
            }
            Event::RotationalChanged(rotational) => self.setup.rotational = rotational,
            _ => {}
        }
    }

    fn timer(&self) -> Option<Nanos> {
        self.timer.map(|tick| self.setup.clock.time_of(tick))
    }

    fn tunables(&self) -> &'static [Tunable] {
        TUNABLES
    }

    fn get(&self, name: &str) -> Option<i128> {
        crate::settings::get(&SETTINGS, &self.settings, name)
    }

    fn set(&mut self, name: &str, value: i128) {
        crate::settings::set(&SETTINGS, &mut self.settings, name, value);
        if name == "read_priority" {
            self.bias = 0;
        }
    }

    fn counters(&self, count: &mut dyn FnMut(&'static str, u64)) {
        count("batches", self.batches);
        count("largest_batch_reads", self.largest[READ]);
        count("largest_batch_writes", self.largest[WRITE]);
        count("largest_batch_discards", self.largest[DISCARD]);
        count("read_base_ns", self.settings.models.line(READ).base);
        count("read_slope_ns_per_kib", self.settings.models.line(READ).slope);
        count("write_base_ns", self.settings.models.line(WRITE).base);
        count("write_slope_ns_per_kib", self.settings.models.line(WRITE).slope);
    }

    fn describe(&self, _ctx: &Context<'_>) -> String {
        let InFlight { count, ns } = self.in_flight;
        let mut text = format!(
            "models {}, bias {}, in flight {count} of {ns} ns, batches {}\n",
            if self.stable { "known" } else { "unknown" },
            self.bias,
            self.batches
        );
        for (kind, name) in ["read", "write", "discard", "other"].into_iter().enumerate() {
            let line = self.settings.models.line(kind);
            text += &format!("{name}: {} ns + {} ns/KiB\n", line.base, line.slope);
        }
        text
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
