//! The device depth by trials: the smallest one that moves nearly as much as the deepest that leaves every tenant a backlog.
//!
//! A shallower device leaves more of the choice to the scheduler: shares are more exact and latencies shorter. A deeper one
//! may move more. A trial compares a depth with the reference, in short periods in the order reference, candidate, candidate,
//! reference, so that a load that changes slowly favours neither. A binary search over a ladder of depths needs four trials.

use dumbwaiter_block::Nanos;

use crate::tenant::Tenant;

/// The deepest that is tried.
pub(crate) const LARGEST: u32 = 128;
/// The depth before the first search; the reference is never below it.
const START: u32 = 32;
/// Depths that are tried.
const LADDER: [u32; 14] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, LARGEST];
/// Part of the reference's throughput that is enough; measured ones vary by two percent.
const ENOUGH: f64 = 0.97;
/// What an I/O costs beside its bytes, as bytes: small I/Os count by number, large ones by size.
const IO_COST_BYTES: u64 = 16 << 10;
/// Part of what a tenant has outstanding that may be in the device, percent; the rest waits, for the scheduler to choose from.
const BACKLOG_PERCENT: u64 = 75;
/// How often the load is looked at.
pub(crate) const LOOK: Nanos = Nanos::from_ms(10);
/// A period takes at least so long and so many I/Os, but never longer than the longest.
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

/// What the disk has moved since the start, and what it has to do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    pub(crate) ios: u64,
    pub(crate) bytes: u64,
    /// I/Os submitted and not completed.
    pub(crate) outstanding: u64,
    /// The deepest device that leaves every tenant a backlog at its share.
    pub(crate) sharable_depth: u32,
}

impl Load {
    /// The load of these tenants.
    pub(crate) fn of<'a>(tenants: impl Iterator<Item = (u32, &'a Tenant)>) -> Load {
        let mut load = Load { sharable_depth: u32::MAX, ..Load::default() };
        let (mut weights, mut backlogs) = (0u64, Vec::new());
        for (_, tenant) in tenants {
            load.ios += tenant.counts.ios();
            load.bytes += tenant.counts.bytes();
            let backlog = u64::from(tenant.outstanding).saturating_sub(tenant.held_back() as u64);
            // A limit, not the device, keeps such a tenant from its share.
            if backlog > 0 && tenant.held_back() == 0 {
                let weight = u64::from(tenant.effective_weight);
                weights += weight;
                backlogs.push((backlog, weight));
            }
            load.outstanding += backlog;
        }
        if backlogs.len() > 1 {
            let sharable = |(backlog, weight): (u64, u64)| backlog * weights * BACKLOG_PERCENT / (weight * 100);
            let depth = backlogs.into_iter().map(sharable).min().unwrap_or(u64::MAX);
            load.sharable_depth = u32::try_from(depth).unwrap_or(u32::MAX).max(1);
        }
        load
    }

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
enum State {
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

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) depth: u32,
    /// The depth that it was compared with.
    pub(crate) reference: u32,
    /// Part of the throughput at the reference's depth; 1 for the reference itself.
    pub(crate) ratio: f64,
    pub(crate) at: Nanos,
}

/// The search of one disk.
#[derive(Clone, Debug)]
pub(crate) struct DepthSearch {
    largest: u32,
    depth: u32,
    state: State,
    found: Option<Found>,
    /// Ratio of the best candidate of this search.
    ratio: f64,
}

impl DepthSearch {
    /// For a device that holds at most `largest` requests.
    pub(crate) fn new(largest: u32) -> DepthSearch {
        let largest = largest.clamp(1, LARGEST);
        let state = State::Waiting { until: Nanos::ZERO };
        DepthSearch { largest, depth: START.min(largest), state, found: None, ratio: 1.0 }
    }

    /// The depth to be used now.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// The deepest that may be used.
    pub(crate) fn largest(&self) -> u32 {
        self.largest
    }

    /// What the last search found.
    pub(crate) fn found(&self) -> Option<Found> {
        self.found
    }

    /// Takes a look at the load; the depth from now on is [`DepthSearch::depth`].
    pub(crate) fn look(&mut self, now: Nanos, load: &Load) {
        match &mut self.state {
            State::Waiting { until } if now < *until || load.outstanding <= u64::from(self.depth) => {}
            State::Waiting { .. } => self.begin(now, load),
            State::Trying(_) => self.measure(now, load),
            State::Settled { until, bytes_per_io, from } => {
                let size = load.bytes_per_io_since(from);
                let other = match (size, &bytes_per_io) {
                    (Some(size), Some(before)) => size > 2.0 * before || 2.0 * size < *before,
                    _ => false,
                };
                if other || now >= *until {
                    self.state = State::Waiting { until: now };
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
            self.state = State::Settled { until: now + HOLD, bytes_per_io: None, from: *load };
            return;
        }
        let period = self.period(reference, now, load);
        let candidate = (low + high) / 2;
        let (ratios, light) = (Vec::with_capacity(MOST_PAIRS), 0);
        let trial = Trial { low, high, candidate, reference, periods: 0, first: 0.0, ratios, period, light };
        self.state = State::Trying(Box::new(trial));
    }

    /// A period at `depth` begins.
    fn period(&mut self, depth: u32, now: Nanos, load: &Load) -> Period {
        let moves = if depth == self.depth { 0 } else { self.depth + depth };
        self.depth = depth;
        Period { begun: now, settled_ios: load.ios + u64::from(moves), from: None, saturated: true }
    }

    fn measure(&mut self, now: Nanos, load: &Load) {
        let State::Trying(trial) = &mut self.state else { return };
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
            self.state = State::Waiting { until: now + PAUSE };
            return;
        }
        let next = self.period(depth, now, load);
        if let State::Trying(trial) = &mut self.state {
            trial.period = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A device that moves `rate(depth)` I/Os a second under a load of `outstanding`; the depth after `seconds`.
    fn after(
        search: &mut DepthSearch,
        seconds: u64,
        outstanding: u64,
        sharable: u32,
        rate: impl Fn(u32, u64) -> f64,
    ) -> u32 {
        let (mut moved, mut now) = (0.0, Nanos::ZERO);
        for step in 0..seconds * 100 {
            now += LOOK;
            moved += rate(search.depth(), step) / 100.0;
            let ios = moved as u64;
            let load = Load { ios, bytes: ios * 4096, outstanding, sharable_depth: sharable };
            search.look(now, &load);
        }
        search.depth()
    }

    /// More requests at a time help up to `full`.
    fn saturating(full: u32, most: f64) -> impl Fn(u32, u64) -> f64 {
        move |depth, _| most * f64::from(depth.min(full)) / f64::from(full)
    }

    #[test]
    fn the_smallest_depth_that_moves_enough_is_found() {
        for (full, expected) in [(1, 1), (4, 4), (8, 8), (20, 24), (32, 32), (64, 64), (100, 128)] {
            let depth = after(&mut DepthSearch::new(128), 30, 256, u32::MAX, saturating(full, 40_000.0));
            assert_eq!(depth, expected, "full at {full}");
        }
    }

    #[test]
    fn no_depth_is_tried_that_takes_a_tenant_its_backlog() {
        let mut search = DepthSearch::new(128);
        assert_eq!(after(&mut search, 30, 256, 50, saturating(100, 40_000.0)), 48);
        assert_eq!(search.found().map(|found| found.reference), Some(48));
    }

    #[test]
    fn a_light_load_changes_nothing() {
        let mut search = DepthSearch::new(128);
        assert_eq!(after(&mut search, 20, 4, u32::MAX, saturating(1, 10_000.0)), 32);
        assert_eq!(search.found(), None);
    }

    #[test]
    fn other_sizes_begin_a_new_search_at_once() {
        let mut search = DepthSearch::new(128);
        assert_eq!(after(&mut search, 20, 256, u32::MAX, saturating(4, 40_000.0)), 4);
        let (mut ios, mut bytes, mut now) = (10_000_000u64, 10_000_000u64 * 4096, Nanos::from_secs(30));
        for _ in 0..1500 {
            now += LOOK;
            ios += u64::from(search.depth().min(64));
            bytes += u64::from(search.depth().min(64)) << 20;
            search.look(now, &Load { ios, bytes, outstanding: 256, sharable_depth: u32::MAX });
        }
        assert_eq!(search.depth(), 64);
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
            let mut search = DepthSearch::new(128);
            after(&mut search, 150, 512, u32::MAX, |depth, step| curve(depth, step) * noise(step));
            // The depth of this moment may be one that the next search tries.
            let depth = search.found().map(|found| found.depth);
            let got = depth.map_or(0.0, |depth| curve(depth, 0)) / most;
            prop_assert!(got >= 0.95, "{got} of the throughput at {depth:?}, full at {full}");
        }
    }
}
