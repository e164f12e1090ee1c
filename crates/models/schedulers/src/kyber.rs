//! `kyber`: no sorting; four domains served in turn, each with a limited number of requests in the device.
//!
//! Reads, writes, discards and the rest form domains. A request needs a token of its domain to be dispatched, domains
//! are served in fixed rotation with fixed batch sizes, and about every 100 ms latency histograms move the number of
//! tokens: a domain that misses its target gets more, and under congestion one that does well gets fewer.
//!
//! Source: Linux 4.20 to 6.18. Differences: tokens are given out lowest position first (the kernel starts at a hint),
//! and the statistics bug of 6.18 with `iostats` = 0 is not reproduced.

use dumbwaiter_block::{
    Context, Event, Io, Join, MergeIndex, Merging, Nanos, Next, Op, Place, QueueMap, Replayable, RequestId, Scheduler,
    Setup, TagMap, Traits, Tunable,
};

use crate::mechanisms::list::{Links, List};
use crate::none::newest_touching;
use crate::settings::{has_settings, settings, tunables, with_defaults};

const DOMAINS: usize = 4;
/// Domains whose depth is adjusted: reads, writes, discards.
const MEASURED: usize = 3;
const MAX_DEPTH: [u32; DOMAINS] = [256, 128, 64, 16];
const BATCH: [u32; DOMAINS] = [16, 8, 1, 1];
const DISCARD_TARGET_NS: u64 = 5_000_000_000;
const BUCKETS: usize = 8;
/// Buckets up to the target.
const GOOD_BUCKETS: usize = 4;
const MIN_SAMPLES: u32 = 500;

fn domain_of(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Discard => 2,
        _ => 3,
    }
}

settings! {
    const SETTINGS of Kyber;
    read_lat_nsec: "ns", 0, u64::MAX, 2_000_000, "target latency of reads" => (target_ns[0]);
    write_lat_nsec: "ns", 0, u64::MAX, 10_000_000, "target latency of writes" => (target_ns[1]);
}

/// Settings.
pub const TUNABLES: &[Tunable] = &tunables(&SETTINGS);

#[derive(Clone, Copy, Debug, Default)]
struct Histogram([u32; BUCKETS]);

impl Histogram {
    fn add(&mut self, latency: Nanos, target_ns: u64) {
        let width = (target_ns / 4).max(1);
        let bucket = latency.0.saturating_sub(1) / width;
        self.0[(bucket as usize).min(BUCKETS - 1)] += 1;
    }

    /// The bucket in which the `percent`th of a hundred falls.
    fn bucket(&self, percent: u32) -> usize {
        let n: u32 = self.0.iter().sum();
        let mut need = (u64::from(n) * u64::from(percent)).div_ceil(100);
        for (i, count) in self.0[..BUCKETS - 1].iter().enumerate() {
            if u64::from(*count) >= need {
                return i;
            }
            need -= u64::from(*count);
        }
        BUCKETS - 1
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Total = 0,
    Io = 1,
}

/// One hardware queue.
#[derive(Clone, Debug)]
struct Queue {
    /// `lists[domain][cpu]`.
    lists: [Vec<List>; DOMAINS],
    /// Requests in `lists`, by domain.
    listed: [usize; DOMAINS],
    /// Requests taken over from the lists; nothing merges with them any more.
    ready: [List; DOMAINS],
    current: usize,
    batching: u32,
    /// Domains that had a request but no token.
    throttled: [bool; DOMAINS],
}

impl Queue {
    fn has(&self, domain: usize) -> bool {
        self.listed[domain] > 0 || !self.ready[domain].is_empty()
    }
}

/// See the module documentation.
#[derive(Clone)]
pub struct Kyber {
    setup: Setup,
    queue_map: QueueMap,
    queues: Vec<Queue>,
    links: Links,
    /// Token position by request.
    held: Vec<u32>,
    tokens: [TagMap; DOMAINS],
    /// Tokens given back while a hardware queue waited, since the last wake-up.
    freed: [u32; DOMAINS],
    depth: [u32; DOMAINS],
    target_ns: [u64; MEASURED],
    histograms: [[Histogram; 2]; MEASURED],
    /// Tick at which a domain's sampling period is over.
    timeout: [Option<i64>; MEASURED],
    saved_p99: [Option<usize>; MEASURED],
    /// Tick at which depths are adjusted next.
    timer: Option<i64>,
}

impl Kyber {
    /// An empty scheduler.
    pub fn new(setup: Setup) -> Kyber {
        let lists = std::array::from_fn(|_| vec![List::default(); usize::from(setup.cpus.max(1))]);
        let queue = Queue {
            lists,
            listed: [0; DOMAINS],
            ready: Default::default(),
            current: 0,
            batching: 0,
            throttled: [false; DOMAINS],
        };
        let made = Kyber {
            queue_map: setup.queue_map(),
            setup,
            queues: vec![queue; usize::from(setup.hw_queues.max(1))],
            links: Links::default(),
            held: Vec::new(),
            tokens: MAX_DEPTH.map(TagMap::new),
            freed: [0; DOMAINS],
            depth: MAX_DEPTH,
            target_ns: [0, 0, DISCARD_TARGET_NS],
            histograms: Default::default(),
            timeout: [None; MEASURED],
            saved_p99: [None; MEASURED],
            timer: None,
        };
        with_defaults(&SETTINGS, made)
    }

    /// Tokens per domain now: reads, writes, discards, others.
    pub fn depths(&self) -> [u32; 4] {
        self.depth
    }

    fn cpu_of(&self, cpu: u16) -> usize {
        usize::from(cpu) % usize::from(self.setup.cpus.max(1))
    }

    fn try_domain(&mut self, hw: usize, domain: usize) -> Option<RequestId> {
        let queue = &mut self.queues[hw];
        if !queue.has(domain) {
            return None;
        }
        let Some(token) = self.tokens[domain].take(self.depth[domain]) else {
            queue.throttled[domain] = true;
            return None;
        };
        if queue.ready[domain].is_empty() {
            for list in &mut queue.lists[domain] {
                queue.ready[domain].append(&mut self.links, list);
            }
            queue.listed[domain] = 0;
        }
        let id = queue.ready[domain].pop_front(&mut self.links)?;
        queue.batching += 1;
        self.held[id.index()] = token;
        Some(id)
    }

    fn return_token(&mut self, id: RequestId, domain: usize) -> bool {
        let token = std::mem::replace(&mut self.held[id.index()], u32::MAX);
        if token == u32::MAX {
            return false;
        }
        self.tokens[domain].put(token);
        if !self.queues.iter().any(|queue| queue.throttled[domain]) {
            return false;
        }
        // One wake-up reaches every hardware queue that waits, and which of them runs first takes what there is (Linux: sbitmap;
        // waiters of tokens are not exclusive). Once nothing is out nobody else would wake them.
        self.freed[domain] += 1;
        let batch = if self.queues.len() == 1 { 1 } else { (self.depth[domain] / 8).clamp(1, 8) };
        if self.freed[domain] < batch && self.tokens[domain].used() > 0 {
            return false;
        }
        self.freed[domain] = 0;
        for queue in &mut self.queues {
            queue.throttled[domain] = false;
        }
        true
    }

    /// The bucket of a percentile once there are samples enough or the sampling period is over; clears the histogram.
    fn percentile(&mut self, domain: usize, kind: Kind, percent: u32, now: i64) -> Option<usize> {
        let histogram = &mut self.histograms[domain][kind as usize];
        let samples: u32 = histogram.0.iter().sum();
        if samples == 0 {
            return None;
        }
        let timeout = *self.timeout[domain].get_or_insert(now + self.setup.clock.per_second());
        if samples < MIN_SAMPLES && now < timeout {
            return None;
        }
        self.timeout[domain] = None;
        let bucket = histogram.bucket(percent);
        *histogram = Histogram::default();
        Some(bucket)
    }

    fn adjust(&mut self, now: i64) {
        let mut congested = false;
        for domain in 0..MEASURED {
            congested |= self.percentile(domain, Kind::Io, 90, now).is_some_and(|p| p >= GOOD_BUCKETS);
        }
        for (domain, most) in MAX_DEPTH.into_iter().enumerate().take(MEASURED) {
            let mut p99 = self.percentile(domain, Kind::Total, 99, now);
            if congested {
                p99 = p99.or(self.saved_p99[domain]);
                self.saved_p99[domain] = None;
            } else if p99.is_some() {
                self.saved_p99[domain] = p99;
            }
            if let Some(p) = p99
                && (congested || p >= GOOD_BUCKETS)
            {
                self.depth[domain] = (self.depth[domain] * (p as u32 + 1) / 4).clamp(1, most);
            }
        }
    }
}

impl Scheduler for Kyber {
    fn traits(&self) -> Traits {
        Traits { per_queue: true, merging: Merging::Own, ..Traits::default() }
    }

    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        if id.index() >= self.held.len() {
            self.held.resize(id.index() + 1, u32::MAX);
        }
        let io = &ctx.requests[id].io;
        let (domain, cpu) = (domain_of(io.op), self.cpu_of(io.cpu));
        let queue = &mut self.queues[self.queue_map.of(io.cpu)];
        queue.listed[domain] += 1;
        match place {
            Place::Tail => queue.lists[domain][cpu].push_back(&mut self.links, id),
            Place::Head => queue.lists[domain][cpu].push_front(&mut self.links, id),
        }
    }

    fn has_work(&self, hw_queue: usize) -> bool {
        (0..DOMAINS).any(|d| self.queues[hw_queue].has(d))
    }

    fn next(&mut self, hw_queue: usize, _ctx: &Context<'_>) -> Next {
        let queue = &self.queues[hw_queue];
        if queue.batching < BATCH[queue.current]
            && let Some(id) = self.try_domain(hw_queue, queue.current)
        {
            return Next::Dispatch(id);
        }
        self.queues[hw_queue].batching = 0;
        for _ in 0..DOMAINS {
            let next = (self.queues[hw_queue].current + 1) % DOMAINS;
            self.queues[hw_queue].current = next;
            if let Some(id) = self.try_domain(hw_queue, next) {
                return Next::Dispatch(id);
            }
        }
        Next::Empty
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        let request = &ctx.requests[id];
        let domain = domain_of(request.io.op);
        if domain < MEASURED {
            let target = self.target_ns[domain];
            let [total, io] = &mut self.histograms[domain];
            total.add(ctx.now.since(request.start), target);
            io.add(ctx.now.since(request.issue), target);
            // A timer set for a tick fires when that tick has passed.
            let clock = &self.setup.clock;
            let due = clock.ticks(ctx.now) + clock.per_second() / 10 + 1;
            self.timer = Some(self.timer.map_or(due, |t| t.min(due)));
        }
        self.return_token(id, domain)
    }

    fn requeued(&mut self, id: RequestId, ctx: &Context<'_>) {
        self.return_token(id, domain_of(ctx.requests[id].io.op));
    }

    fn merge(&mut self, io: &Io, index: &MergeIndex, ctx: &Context<'_>) -> Option<Join> {
        let queue = &self.queues[self.queue_map.of(io.cpu)];
        let list = &queue.lists[domain_of(io.op)][self.cpu_of(io.cpu)];
        newest_touching(list.iter_back(&self.links), io, index.limits(), ctx)
    }

    fn limit(&self, io: &Io, nr_requests: u32) -> u32 {
        let waits = io.op == Op::Read || io.flags.any(SYNC_MARKS);
        if waits { nr_requests } else { self.smallest_limit(nr_requests) }
    }

    fn smallest_limit(&self, nr_requests: u32) -> u32 {
        let whole = self.setup.at_attach.nr_requests.unwrap_or(nr_requests);
        (whole - whole.div_ceil(4)).min(nr_requests).max(1)
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        let now = self.setup.clock.ticks(ctx.now);
        if event == Event::Timer && self.timer.is_some_and(|t| t <= now) {
            self.timer = None;
            self.adjust(now);
        }
    }

    fn timer(&self) -> Option<Nanos> {
        self.timer.map(|tick| self.setup.clock.time_of(tick))
    }

    has_settings!(SETTINGS, TUNABLES);

    fn replayable(&mut self) -> Option<&mut dyn Replayable> {
        Some(self)
    }

    fn describe(&self, ctx: &Context<'_>) -> String {
        let mut text =
            format!("tick {} depth {:?} timer {:?}\n", self.setup.clock.ticks(ctx.now), self.depth, self.timer);
        for (hw, queue) in self.queues.iter().enumerate() {
            text += &format!(
                "queue {hw}: domain {} batching {} listed {:?} ready {:?} tokens in use {:?}\n",
                queue.current,
                queue.batching,
                queue.listed,
                queue.ready.map(|l| l.len()),
                self.tokens.each_ref().map(TagMap::used)
            );
        }
        text
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}

impl Replayable for Kyber {
    fn take(&mut self, id: RequestId, hw_queue: usize, ctx: &Context<'_>) {
        let io = &ctx.requests[id].io;
        let (domain, cpu) = (domain_of(io.op), self.cpu_of(io.cpu));
        let queue = &mut self.queues[hw_queue];
        if queue.ready[domain].is_empty() {
            for list in &mut queue.lists[domain] {
                queue.ready[domain].append(&mut self.links, list);
            }
            queue.listed[domain] = 0;
        }
        if queue.ready[domain].iter(&self.links).any(|r| r == id) {
            queue.ready[domain].remove(&mut self.links, id);
        } else {
            queue.lists[domain][cpu].remove(&mut self.links, id);
            queue.listed[domain] -= 1;
        }
        if queue.current != domain {
            queue.current = domain;
            queue.batching = 0;
        }
        queue.batching += 1;
        if let Some(token) = self.tokens[domain].take(u32::MAX) {
            self.held[id.index()] = token;
        }
    }
}

const SYNC_MARKS: dumbwaiter_block::Flags =
    dumbwaiter_block::Flags::SYNC.with(dumbwaiter_block::Flags::FUA).with(dumbwaiter_block::Flags::PREFLUSH);

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked example K8 of the specification.
    #[test]
    fn percentiles_of_k8() {
        assert_eq!(Histogram([10, 0, 0, 0, 0, 0, 0, 490]).bucket(90), 7);
        assert_eq!(Histogram([300, 150, 45, 5, 0, 0, 0, 0]).bucket(99), 2);
    }

    #[test]
    fn buckets_are_quarters_of_the_target() {
        let mut h = Histogram::default();
        for latency in [0, 1, 500_000, 500_001, 2_000_000, 2_000_001, 3_500_001, u64::MAX] {
            h.add(Nanos(latency), 2_000_000);
        }
        assert_eq!(h.0, [3, 1, 0, 1, 1, 0, 0, 2]);
    }

    fn loaded(samples: u32, total: usize, io: usize) -> Kyber {
        let mut k = Kyber::new(Setup::default());
        k.histograms[0][0].0[total] = samples;
        k.histograms[0][1].0[io] = samples;
        k
    }

    #[test]
    fn depth_follows_the_bucket_and_is_clamped() {
        for (bucket, want) in [(0, 64), (1, 128), (2, 192), (3, 256), (4, 256), (7, 256)] {
            let mut k = loaded(500, bucket, 7);
            k.adjust(0);
            assert_eq!(k.depth[0], want, "bucket {bucket}");
        }
        for (bucket, want) in [(3, 1), (6, 1), (7, 2)] {
            let mut k = loaded(500, bucket, 7);
            k.depth[0] = 1;
            k.adjust(0);
            assert_eq!(k.depth[0], want, "bucket {bucket} at depth 1");
        }
        let mut k = loaded(500, 0, 0);
        k.adjust(0);
        assert_eq!(k.depth[0], 256, "without congestion nothing shrinks");
    }

    #[test]
    fn few_samples_wait_a_second_that_the_io_histogram_consumes() {
        let mut k = loaded(499, 7, 7);
        k.adjust(100);
        assert_eq!(k.timeout[0], Some(350));
        k.adjust(349);
        assert_eq!(k.histograms[0][1].0[7], 499, "still collecting");
        k.adjust(350);
        assert_eq!(k.histograms[0][1].0[7], 0, "the I/O histogram was evaluated");
        assert_eq!(k.histograms[0][0].0[7], 499, "the total one started a new second");
        assert_eq!(k.timeout[0], Some(600));
        let mut k = loaded(500, 7, 7);
        k.adjust(100);
        assert_eq!(k.timeout[0], None);
    }

    #[test]
    fn a_saved_p99_serves_the_next_congestion_once() {
        let mut k = loaded(500, 0, 0);
        k.adjust(0);
        assert_eq!(k.saved_p99[0], Some(0));
        k.histograms[1][1].0[7] = 500;
        k.adjust(10);
        assert_eq!((k.depth[0], k.saved_p99[0]), (64, None));
    }

    /// Tokens are the disk's: with any number of hardware queues 256 reads are in the device, and the eighth that comes back lets every
    /// waiting queue run.
    #[test]
    fn tokens_are_of_the_disk_and_a_batch_wakes_every_queue() {
        use dumbwaiter_block::{BlockLayer, Config, Io, Tenants};
        for queues in [2u16, 10] {
            let setup = Setup {
                cpus: queues,
                hw_queues: queues,
                device_depth: 1023 * u32::from(queues),
                nr_requests: 256,
                ..Setup::default()
            };
            let config = Config { setup, ..Config::default() };
            let mut layer =
                BlockLayer::new(config, Box::new(Kyber::new(setup)) as Box<dyn Scheduler>, Tenants::default());
            let now = Nanos::ZERO;
            for n in 0..u64::from(queues) * 200 {
                let cpu = (n % u64::from(queues)) as u16;
                layer.submit(now, Io { cpu, sector: n * 1000, sectors: 8, ..Io::default() }, None);
            }
            let mut sent: Vec<RequestId> = std::iter::from_fn(|| layer.poll(now)).collect();
            assert_eq!(sent.len(), 256);
            let mut waiting = vec![200; usize::from(queues)];
            for id in &sent {
                waiting[usize::from(layer.hw_queue(*id))] -= 1;
            }
            let mut served = vec![0; usize::from(queues)];
            for round in 0..u32::from(queues) * 20 {
                for n in 0..8 {
                    assert_eq!(layer.poll(now), None, "{n} tokens wake nobody");
                    let id = sent.remove(0);
                    layer.complete(now, id, Ok(()), &mut Vec::new());
                }
                let more: Vec<RequestId> = std::iter::from_fn(|| layer.poll(now)).collect();
                if layer.queued() > 0 {
                    assert_eq!((more.len(), layer.in_device()), (8, 256), "round {round}");
                }
                for id in &more {
                    served[usize::from(layer.hw_queue(*id))] += 1;
                }
                sent.extend(more);
            }
            assert!(served.iter().zip(&waiting).all(|(n, waited)| *n > 0 || *waited == 0), "{served:?} {waiting:?}");
        }
    }

    /// Five of ten hardware queues wait, and the first that runs takes what came back: each of the five is the first equally often.
    #[test]
    fn queues_that_wait_for_tokens_take_turns() {
        use dumbwaiter_block::{BlockLayer, Config, Io, Tenants};
        let setup = Setup { cpus: 10, hw_queues: 10, device_depth: 10_230, nr_requests: 2048, ..Setup::default() };
        let config = Config { setup, ..Config::default() };
        let mut layer = BlockLayer::new(config, Box::new(Kyber::new(setup)) as Box<dyn Scheduler>, Tenants::default());
        let now = Nanos::ZERO;
        for n in 0..5 * 1000 {
            layer.submit(now, Io { cpu: (n % 5) as u16, sector: n * 1000, sectors: 8, ..Io::default() }, None);
        }
        let mut sent: Vec<RequestId> = std::iter::from_fn(|| layer.poll(now)).collect();
        let mut served = [0; 10];
        for _ in 0..5 * 40 {
            for id in sent.drain(..8) {
                layer.complete(now, id, Ok(()), &mut Vec::new());
            }
            let more: Vec<RequestId> = std::iter::from_fn(|| layer.poll(now)).collect();
            for id in &more {
                served[usize::from(layer.hw_queue(*id))] += 1;
            }
            sent.extend(more);
        }
        assert_eq!(served, [320, 320, 320, 320, 320, 0, 0, 0, 0, 0]);
    }
}
