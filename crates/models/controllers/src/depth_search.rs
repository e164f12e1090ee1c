//! The device depth by trials: the smallest one that moves nearly as much as the deepest that leaves every tenant a backlog.
//!
//! A shallower device leaves more of the choice to the scheduler: shares are more exact and latencies shorter. A deeper one
//! may move more. A trial compares a depth with the reference, in short periods in the order reference, candidate, candidate,
//! reference, so that a load that changes slowly favours neither. A binary search over a ladder of depths needs four trials.

use dumbwaiter_block::{
    Adjustment, BlockLayer, Config, Context, Controller, Effects, Event, Finished, Io, Nanos, Op, SECTOR_BYTES, Scope,
    State, TenantId, Traits,
};

/// The name by which a block layer finds the controller.
pub const NAME: &str = "depth search";

/// The deepest that is tried.
pub const LARGEST: u32 = 128;
/// The depth before the first search; the reference is never below it.
const START: u32 = 32;
/// Depths that are tried.
const LADDER: [u32; 14] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, LARGEST];
/// Part of the reference's throughput that is enough; measured ones vary by two percent.
const ENOUGH: f64 = 0.97;
/// Cost of an I/O beside its bytes, as bytes: small I/Os count by number, large ones by size.
const IO_COST_BYTES: u64 = 16 << 10;
/// Part of what a tenant has outstanding that may be in the device, percent; the rest waits, for the scheduler to choose from.
const BACKLOG_PERCENT: u64 = 75;
/// How often the load is looked at.
const LOOK: Nanos = Nanos::from_ms(10);
/// A period takes at least the shortest time and this many I/Os, but never longer than the longest.
const SHORTEST: Nanos = Nanos::from_ms(50);
const LONGEST: Nanos = Nanos::from_secs(1);
const PERIOD_IOS: u64 = 400;
/// Pairs of periods of one trial.
const FEWEST_PAIRS: usize = 3;
const MOST_PAIRS: usize = 10;
/// Periods in a row in which the load was too light to tell, after which a search waits.
const LIGHT_PERIODS: u32 = 4;
const PAUSE: Nanos = Nanos::from_secs(1);
/// How long a result holds, unless I/Os become twice as large or half as large.
const HOLD: Nanos = Nanos::from_secs(60);

/// I/Os and bytes that the disk has completed since the start, and its backlog.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    ios: u64,
    bytes: u64,
    /// I/Os submitted and not completed.
    outstanding: u64,
    /// The deepest device that leaves every tenant a backlog at its share.
    sharable_depth: u32,
}

impl Load {
    fn work_since(&self, before: &Load) -> u64 {
        // A tenant that went took its counts with it.
        self.bytes.saturating_sub(before.bytes) + self.ios.saturating_sub(before.ios) * IO_COST_BYTES
    }

    fn bytes_per_io_since(&self, before: &Load) -> Option<f64> {
        let ios = self.ios.saturating_sub(before.ios);
        (ios >= PERIOD_IOS).then(|| self.bytes.saturating_sub(before.bytes) as f64 / ios as f64)
    }
}

/// One period of a trial.
#[derive(Clone, Copy, Debug)]
struct Period {
    begun: Nanos,
    /// Where the count begins: requests of the depth before are gone by then.
    settled_ios: u64,
    from: Option<(Nanos, Load)>,
    /// There were more I/Os than the candidate's depth all the time.
    saturated: bool,
}

/// A comparison of one depth with the reference.
#[derive(Clone, Debug)]
struct Trial {
    /// Rungs of the ladder that may be the answer.
    low: usize,
    high: usize,
    candidate: usize,
    reference: u32,
    /// Periods that are over.
    periods: usize,
    /// Work per second of the first period of the pair.
    first: f64,
    /// Candidate over reference, by pair.
    ratios: Vec<f64>,
    period: Period,
    light: u32,
}

impl Trial {
    /// Does this period of a pair run at the reference's depth? Reference, candidate, candidate, reference.
    fn at_reference(&self) -> bool {
        matches!(self.periods % 4, 0 | 3)
    }

    fn depth(&self) -> u32 {
        if self.at_reference() { self.reference } else { LADDER[self.candidate] }
    }

    /// Is the candidate deep enough? `None` if more pairs must tell.
    fn verdict(&self) -> Option<bool> {
        let count = self.ratios.len();
        if count < FEWEST_PAIRS {
            return None;
        }
        let mean = self.mean();
        let variance = self.ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
        let error = 2.0 * (variance / count as f64).sqrt();
        let sure = (mean - ENOUGH).abs() > error || count >= MOST_PAIRS;
        sure.then_some(mean >= ENOUGH)
    }

    fn mean(&self) -> f64 {
        self.ratios.iter().sum::<f64>() / self.ratios.len() as f64
    }
}

#[derive(Clone, Debug)]
enum Phase {
    /// The next heavy load begins a search.
    Waiting {
        until: Nanos,
    },
    Trying(Box<Trial>),
    Settled {
        until: Nanos,
        bytes_per_io: Option<f64>,
        from: Load,
    },
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Found {
    depth: u32,
    /// The depth that it was compared with.
    reference: u32,
    /// Part of the throughput at the reference's depth; 1 for the reference itself.
    ratio: f64,
    at: Nanos,
}

/// The search of one disk.
#[derive(Clone, Debug)]
struct Search {
    largest: u32,
    depth: u32,
    state: Phase,
    found: Option<Found>,
    /// Ratio of the best candidate of this search.
    ratio: f64,
}

impl Search {
    /// For a device that holds at most `largest` requests.
    fn new(largest: u32) -> Search {
        let largest = largest.clamp(1, LARGEST);
        let state = Phase::Waiting { until: Nanos::ZERO };
        Search { largest, depth: START.min(largest), state, found: None, ratio: 1.0 }
    }

    /// Takes a look at the load; the depth from now on is `depth`.
    fn look(&mut self, now: Nanos, load: &Load) {
        match &mut self.state {
            Phase::Waiting { until } if now < *until || load.outstanding <= u64::from(self.depth) => {}
            Phase::Waiting { .. } => self.begin(now, load),
            Phase::Trying(_) => self.measure(now, load),
            Phase::Settled { until, bytes_per_io, from } => {
                let size = load.bytes_per_io_since(from);
                let other = match (size, &bytes_per_io) {
                    (Some(size), Some(before)) => size > 2.0 * before || 2.0 * size < *before,
                    _ => false,
                };
                if other || now >= *until {
                    self.state = Phase::Waiting { until: now };
                } else if size.is_some() {
                    (*bytes_per_io, *from) = (bytes_per_io.or(size), *load);
                }
            }
        }
    }

    fn begin(&mut self, now: Nanos, load: &Load) {
        let reference = load.sharable_depth.max(START).min(self.largest);
        // The ladder begins with 1, and no device holds less.
        let high = LADDER.iter().rposition(|rung| *rung <= reference).unwrap_or(0);
        self.ratio = 1.0;
        self.try_between(0, high, LADDER[high], now, load);
    }

    /// Begins the next trial, or ends the search.
    fn try_between(&mut self, low: usize, high: usize, reference: u32, now: Nanos, load: &Load) {
        if low >= high {
            self.depth = LADDER[high];
            self.found = Some(Found { depth: self.depth, reference, ratio: self.ratio, at: now });
            self.state = Phase::Settled { until: now + HOLD, bytes_per_io: None, from: *load };
            return;
        }
        let period = self.period(reference, now, load);
        let candidate = (low + high) / 2;
        let (ratios, light) = (Vec::with_capacity(MOST_PAIRS), 0);
        let trial = Trial { low, high, candidate, reference, periods: 0, first: 0.0, ratios, period, light };
        self.state = Phase::Trying(Box::new(trial));
    }

    /// A period at `depth` begins.
    fn period(&mut self, depth: u32, now: Nanos, load: &Load) -> Period {
        let moves = if depth == self.depth { 0 } else { self.depth + depth };
        self.depth = depth;
        Period { begun: now, settled_ios: load.ios + u64::from(moves), from: None, saturated: true }
    }

    fn measure(&mut self, now: Nanos, load: &Load) {
        let Phase::Trying(trial) = &mut self.state else { return };
        let period = &mut trial.period;
        let Some((since, from)) = period.from else {
            if load.ios >= period.settled_ios || now.since(period.begun) >= LONGEST {
                period.from = Some((now, *load));
            }
            return;
        };
        period.saturated &= load.outstanding > u64::from(LADDER[trial.candidate]);
        let (time, ios) = (now.since(since), load.ios.saturating_sub(from.ios));
        if time < SHORTEST || (ios < PERIOD_IOS && time < LONGEST) {
            return;
        }
        if !period.saturated {
            trial.light += 1;
            let (depth, give_up) = (trial.depth(), trial.light >= LIGHT_PERIODS);
            self.again(depth, give_up, now, load);
            return;
        }
        trial.light = 0;
        let rate = load.work_since(&from) as f64 / time.0 as f64;
        let at_reference = trial.at_reference();
        let second = trial.periods % 2 == 1;
        if second {
            let (candidate, reference) = if at_reference { (trial.first, rate) } else { (rate, trial.first) };
            trial.ratios.push(if reference > 0.0 { candidate / reference } else { 1.0 });
        }
        trial.first = rate;
        trial.periods += 1;
        let (low, high, candidate, reference) = (trial.low, trial.high, trial.candidate, trial.reference);
        match trial.verdict() {
            Some(true) => {
                self.ratio = trial.mean();
                self.try_between(low, candidate, reference, now, load);
            }
            Some(false) => self.try_between(candidate + 1, high, reference, now, load),
            None => {
                let depth = trial.depth();
                self.again(depth, false, now, load);
            }
        }
    }

    /// The next period of the trial, or a pause with the depth that was found last.
    fn again(&mut self, depth: u32, give_up: bool, now: Nanos, load: &Load) {
        if give_up {
            self.depth = self.found.map_or(START.min(self.largest), |found| found.depth);
            self.state = Phase::Waiting { until: now + PAUSE };
            return;
        }
        let next = self.period(depth, now, load);
        if let Phase::Trying(trial) = &mut self.state {
            trial.period = next;
        }
    }
}

/// I/Os in flight of each tenant, and the I/Os and bytes that all have completed.
#[derive(Clone, Debug, Default)]
struct Moved {
    ios: u64,
    bytes: u64,
    /// I/Os submitted and not finished, by tenant.
    outstanding: Vec<u32>,
    all_outstanding: u64,
}

impl Moved {
    fn outstanding(&mut self, tenant: TenantId) -> &mut u32 {
        let index = tenant.0 as usize;
        if index >= self.outstanding.len() {
            self.outstanding.resize(index + 1, 0);
        }
        &mut self.outstanding[index]
    }

    /// The load now; what a limit parks is none.
    fn load(&self, ctx: &Context<'_>) -> Load {
        let mut parked = vec![0u32; self.outstanding.len()];
        for (_, request) in ctx.requests.iter().filter(|(_, request)| request.state == State::Parked) {
            if let Some(own) = parked.get_mut(request.io.tenant.0 as usize) {
                *own += 1;
            }
        }
        let mut load = Load { ios: self.ios, bytes: self.bytes, outstanding: 0, sharable_depth: u32::MAX };
        let (mut weights, mut backlogs) = (0u64, Vec::new());
        for (index, (outstanding, parked)) in self.outstanding.iter().zip(&parked).enumerate() {
            let backlog = u64::from(outstanding.saturating_sub(*parked));
            load.outstanding += backlog;
            // A limit, not the device, keeps such a tenant from its share.
            if backlog > 0 && *parked == 0 {
                let weight = ctx.tenants.tenant(TenantId(index as u32)).map_or(1, |tenant| u64::from(tenant.weight));
                weights += weight;
                backlogs.push((backlog, weight));
            }
        }
        if backlogs.len() > 1 {
            let sharable = |(backlog, weight): (u64, u64)| backlog * weights * BACKLOG_PERCENT / (weight * 100);
            let depth = backlogs.into_iter().map(sharable).min().unwrap_or(u64::MAX);
            load.sharable_depth = u32::try_from(depth).unwrap_or(u32::MAX).max(1);
        }
        load
    }
}

/// Searches the device depth while the load runs.
#[derive(Clone, Debug)]
pub struct DepthSearch {
    search: Search,
    moved: Moved,
    next_look: Nanos,
}

/// Searches the depth of a layer's device, at most `largest`, from now on.
pub fn search_depth(layer: &mut BlockLayer, now: Nanos, largest: u32) {
    layer.remove_controller(now, NAME);
    let search = DepthSearch::new(largest);
    layer.set_device_depth(now, search.search.depth);
    layer.add_controller(now, Box::new(search));
}

impl DepthSearch {
    /// For a device that holds at most `largest` requests and begins with the smaller of that and 32.
    pub fn new(largest: u32) -> DepthSearch {
        DepthSearch { search: Search::new(largest), moved: Moved::default(), next_look: Nanos::ZERO }
    }
}

impl Controller for DepthSearch {
    fn name(&self) -> &'static str {
        NAME
    }

    fn attached(
        &mut self,
        _config: &Config,
        _traits: &Traits,
        under_way: &mut dyn Iterator<Item = u32>,
        _ctx: &Context<'_>,
    ) {
        self.moved.outstanding = under_way.collect();
        self.moved.all_outstanding = self.moved.outstanding.iter().map(|ios| u64::from(*ios)).sum();
    }

    fn admitted(&mut self, io: &Io, _ctx: &Context<'_>) {
        *self.moved.outstanding(io.tenant) += 1;
        self.moved.all_outstanding += 1;
    }

    fn finished(&mut self, done: &Finished, _ctx: &Context<'_>, _out: &mut Effects) {
        let outstanding = self.moved.outstanding(done.io.tenant);
        *outstanding = outstanding.saturating_sub(1);
        self.moved.all_outstanding = self.moved.all_outstanding.saturating_sub(1);
        if done.result.is_ok() && matches!(done.io.op, Op::Read | Op::Write) {
            self.moved.ios += 1;
            self.moved.bytes += u64::from(done.io.sectors) * SECTOR_BYTES;
        }
    }

    fn event(&mut self, event: Event, _ctx: &Context<'_>, _out: &mut Effects) {
        if let Event::TenantRetired(tenant) = event {
            *self.moved.outstanding(tenant) = 0;
        }
    }

    fn timer(&self) -> Option<Nanos> {
        (self.moved.all_outstanding > 0).then_some(self.next_look)
    }

    fn tick(&mut self, ctx: &Context<'_>, out: &mut Effects) {
        self.next_look = ctx.now + LOOK;
        let before = self.search.depth;
        self.search.look(ctx.now, &self.moved.load(ctx));
        if self.search.depth != before {
            out.adjust(Adjustment::DeviceDepth(self.search.depth));
        }
    }

    /// The largest depth that is tried; and once a search has ended, the depth that it found, the one that it was compared with, the ratio of
    /// their throughputs in millionths, and when.
    fn counters(&self, scope: Scope, count: &mut dyn FnMut(&'static str, u64)) {
        if scope != Scope::Device {
            return;
        }
        count("depth_search_largest", self.search.largest.into());
        if let Some(found) = self.search.found {
            count("depth_search_depth", found.depth.into());
            count("depth_search_reference", found.reference.into());
            count("depth_search_ratio_ppm", (found.ratio * 1e6).round() as u64);
            count("depth_search_at_ns", found.at.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A device that moves `rate(depth)` I/Os a second under a load of `outstanding`; the depth after `seconds`.
    fn after(
        search: &mut Search,
        seconds: u64,
        outstanding: u64,
        sharable: u32,
        rate: impl Fn(u32, u64) -> f64,
    ) -> u32 {
        let (mut moved, mut now) = (0.0, Nanos::ZERO);
        for step in 0..seconds * 100 {
            now += LOOK;
            moved += rate(search.depth, step) / 100.0;
            let ios = moved as u64;
            let load = Load { ios, bytes: ios * 4096, outstanding, sharable_depth: sharable };
            search.look(now, &load);
        }
        search.depth
    }

    /// More requests at a time help up to `full`.
    fn saturating(full: u32, most: f64) -> impl Fn(u32, u64) -> f64 {
        move |depth, _| most * f64::from(depth.min(full)) / f64::from(full)
    }

    #[test]
    fn the_smallest_depth_that_moves_enough_is_found() {
        for (full, expected) in [(1, 1), (4, 4), (8, 8), (20, 24), (32, 32), (64, 64), (100, 128)] {
            let depth = after(&mut Search::new(128), 30, 256, u32::MAX, saturating(full, 40_000.0));
            assert_eq!(depth, expected, "full at {full}");
        }
    }

    #[test]
    fn no_depth_is_tried_that_takes_a_tenant_its_backlog() {
        let mut search = Search::new(128);
        assert_eq!(after(&mut search, 30, 256, 50, saturating(100, 40_000.0)), 48);
        assert_eq!(search.found.map(|found| found.reference), Some(48));
    }

    #[test]
    fn a_light_load_changes_nothing() {
        let mut search = Search::new(128);
        assert_eq!(after(&mut search, 20, 4, u32::MAX, saturating(1, 10_000.0)), 32);
        assert_eq!(search.found, None);
    }

    #[test]
    fn other_sizes_begin_a_new_search_at_once() {
        let mut search = Search::new(128);
        assert_eq!(after(&mut search, 20, 256, u32::MAX, saturating(4, 40_000.0)), 4);
        let (mut ios, mut bytes, mut now) = (10_000_000u64, 10_000_000u64 * 4096, Nanos::from_secs(30));
        for _ in 0..1500 {
            now += LOOK;
            ios += u64::from(search.depth.min(64));
            bytes += u64::from(search.depth.min(64)) << 20;
            search.look(now, &Load { ios, bytes, outstanding: 256, sharable_depth: u32::MAX });
        }
        assert_eq!(search.depth, 64);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn at_least_95_percent_are_moved_in_spite_of_noise(full in 1u32..128, most in 500.0f64..500_000.0, seed: u64) {
            let noise = move |step: u64| {
                let mut z = step.wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                z ^= z >> 29;
                z = z.wrapping_mul(0xbf58_476d_1ce4_e5b9);
                0.95 + 0.1 * ((z >> 40) as f64 / (1u64 << 24) as f64)
            };
            let curve = saturating(full, most);
            let mut search = Search::new(128);
            after(&mut search, 150, 512, u32::MAX, |depth, step| curve(depth, step) * noise(step));
            // The depth of this moment may be one that the next search tries.
            let depth = search.found.map(|found| found.depth);
            let got = depth.map_or(0.0, |depth| curve(depth, 0)) / most;
            prop_assert!(got >= 0.95, "{got} of the throughput at {depth:?}, full at {full}");
        }
    }
}
