//! Time series in bounded memory: a run of any length keeps at most [`SLOTS_MAX`] slots, whose length doubles whenever
//! they run out. Queue depths are averaged over time.

use crate::histogram::Coarse;
use crate::result::{Bandwidth, DepthShare, DepthShares, Depths, Nested, NestedRow, Series, TenantSeries};
use dumbwaiter_block::{Nanos, TenantId};

/// Most slots kept; even, so that they join in pairs.
const SLOTS_MAX: usize = 1024;
/// Depths up to this have one bin each.
const DEPTH_EXACT_MAX: u64 = 32;
/// Bins for depths: 0 to 32, then 33-64, 65-128, ... up to 2^63.
const DEPTH_BINS: usize = DEPTH_EXACT_MAX as usize + 1 + 59;
/// Percentiles taken in each interval, with their names.
const NESTED: [(&str, f64); 5] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// Index of p99 in [`NESTED`].
const NESTED_P99: usize = 2;

/// Depth of one queue: the current one, and the time spent at each.
#[derive(Clone, Debug)]
struct Depth {
    now: u64,
    max: u64,
    held_ns: Vec<u64>,
    /// Sum of depth x ns, per slot.
    area: Vec<u128>,
    /// The sum of several queues, whose joint distribution is unknown.
    joined: bool,
}

impl Depth {
    fn new() -> Depth {
        let mut area = Vec::with_capacity(SLOTS_MAX);
        area.push(0);
        Depth { now: 0, max: 0, held_ns: vec![0; DEPTH_BINS], area, joined: false }
    }

    /// Sets the depth from now on. `counts` tells whether the time is past the warm-up, so that the maximum counts.
    #[inline]
    fn set(&mut self, depth: u64, counts: bool) {
        if counts {
            self.max = self.max.max(self.now).max(depth);
        }
        self.now = depth;
    }

    /// Accounts for `ns` spent at the current depth.
    #[inline]
    fn held(&mut self, ns: u64) {
        self.max = self.max.max(self.now);
        self.held_ns[depth_bin(self.now)] += ns;
        let last = self.area.len() - 1;
        self.area[last] += u128::from(self.now) * u128::from(ns);
    }

    /// Adds another queue that was observed over the same time.
    fn join(&mut self, other: &Depth) {
        self.now += other.now;
        self.max += other.max;
        add(&mut self.area, &other.area);
        self.joined = true;
    }

    fn shares(&self) -> DepthShares {
        let total: u64 = self.held_ns.iter().sum();
        let area: u128 = self.area.iter().sum();
        let share = |ns: u64| ns as f64 / total as f64;
        let held = self.held_ns.iter().enumerate().filter(|(_, ns)| **ns > 0 && !self.joined);
        let distribution = held.map(|(bin, &ns)| {
            let (from, to) = depth_bounds(bin);
            DepthShare { from, to, share: share(ns) }
        });
        let mean = if total == 0 { f64::NAN } else { area as f64 / total as f64 };
        DepthShares { mean, max: self.max, distribution: distribution.collect() }
    }
}

fn add<T: Copy + std::ops::AddAssign>(to: &mut [T], from: &[T]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += *from);
}

#[inline]
fn depth_bin(depth: u64) -> usize {
    if depth <= DEPTH_EXACT_MAX {
        return depth as usize;
    }
    // 33-64 follows bin 32, and each doubling has one more bin.
    let doublings = u64::BITS - (depth - 1).leading_zeros() - DEPTH_EXACT_MAX.trailing_zeros();
    (DEPTH_EXACT_MAX as usize + doublings as usize).min(DEPTH_BINS - 1)
}

fn depth_bounds(bin: usize) -> (u64, u64) {
    match bin.checked_sub(DEPTH_EXACT_MAX as usize) {
        None | Some(0) => (bin as u64, bin as u64),
        Some(doublings) => ((DEPTH_EXACT_MAX << (doublings - 1)) + 1, DEPTH_EXACT_MAX << doublings),
    }
}

/// Time series and nested percentiles of a run.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// Start of the first slot.
    start: Nanos,
    /// Length of the intervals that nested percentiles are taken over.
    interval: Nanos,
    /// Length of a slot: the interval times a power of two.
    slot: Nanos,
    slot_end: Nanos,
    interval_end: Nanos,
    /// Depths are accounted for up to this time.
    depth_at: Nanos,
    tenants: usize,
    /// Bytes by slot and tenant, row by row.
    bytes: Vec<u64>,
    /// Whether the tenant submitted I/O in the slot, row by row as `bytes`.
    active: Vec<bool>,
    ops: Vec<u64>,
    p99_us: Vec<f64>,
    scheduler: Depth,
    device: Depth,
    /// Latencies of the current interval.
    current: Coarse,
    current_any: bool,
    /// Distribution over intervals of each of [`NESTED`].
    nested: [Coarse; NESTED.len()],
}

impl Timeline {
    pub(crate) fn new(start: Nanos, interval: Nanos, tenants: usize) -> Timeline {
        let mut bytes = Vec::with_capacity(SLOTS_MAX * tenants);
        let mut active = Vec::with_capacity(SLOTS_MAX * tenants);
        active.resize(tenants, false);
        let mut ops = Vec::with_capacity(SLOTS_MAX);
        let mut p99_us = Vec::with_capacity(SLOTS_MAX);
        bytes.resize(tenants, 0);
        ops.push(0);
        p99_us.push(f64::NAN);
        Timeline {
            start,
            interval,
            slot: interval,
            slot_end: start + interval,
            interval_end: start + interval,
            depth_at: start,
            tenants,
            bytes,
            active,
            ops,
            p99_us,
            scheduler: Depth::new(),
            device: Depth::new(),
            current: Coarse::new(),
            current_any: false,
            nested: NESTED.map(|_| Coarse::new()),
        }
    }

    /// Length of the intervals that nested percentiles are taken over.
    pub(crate) fn interval(&self) -> Nanos {
        self.interval
    }

    /// Counts a completion at `now` of an I/O submitted at `submit`. `latency` is the [`Coarse`] bucket of its latency, or
    /// `None` if that does not count.
    #[inline]
    pub(crate) fn record(&mut self, submit: Nanos, now: Nanos, tenant: TenantId, bytes: u64, latency: Option<usize>) {
        if now >= self.interval_end {
            self.advance(now);
        }
        let slot = self.ops.len() - 1;
        self.ops[slot] += 1;
        self.bytes[slot * self.tenants + tenant.0 as usize] += bytes;
        self.active[slot * self.tenants + tenant.0 as usize] = true;
        if submit < self.slot_start(slot) {
            self.mark_active(submit, tenant);
        }
        if let Some(bucket) = latency {
            self.current.add(bucket);
            self.current_any = true;
        }
    }

    /// Marks the slots since `from` as ones in which the tenant had I/O outstanding.
    pub(crate) fn mark_active(&mut self, from: Nanos, tenant: TenantId) {
        let first = (from.since(self.start).0 / self.slot.0) as usize;
        for slot in first..self.ops.len() {
            self.active[slot * self.tenants + tenant.0 as usize] = true;
        }
    }

    /// Sets the queue depths from `now` on.
    #[inline]
    pub(crate) fn depth(&mut self, now: Nanos, scheduler: u64, device: u64) {
        if now >= self.interval_end {
            self.advance(now);
        }
        self.hold_until(now);
        let counts = now >= self.start;
        self.scheduler.set(scheduler, counts);
        self.device.set(device, counts);
    }

    /// Accounts for the current depths up to `now`.
    #[inline]
    fn hold_until(&mut self, now: Nanos) {
        let ns = now.since(self.depth_at).0;
        if ns > 0 {
            self.depth_at = now;
            self.scheduler.held(ns);
            self.device.held(ns);
        }
    }

    /// Closes the intervals and slots that end at or before `now`.
    #[cold]
    fn advance(&mut self, now: Nanos) {
        self.close_interval();
        while now >= self.slot_end {
            let end = self.slot_end;
            self.hold_until(end);
            if self.ops.len() == SLOTS_MAX {
                self.join_pairs();
            } else {
                self.bytes.resize(self.bytes.len() + self.tenants, 0);
                self.active.resize(self.active.len() + self.tenants, false);
                self.ops.push(0);
                self.p99_us.push(f64::NAN);
                self.scheduler.area.push(0);
                self.device.area.push(0);
                self.slot_end += self.slot;
            }
            if end == Nanos::MAX {
                break;
            }
        }
        let passed = now.since(self.start).0 / self.interval.0;
        self.interval_end = self.start + Nanos((passed + 1).saturating_mul(self.interval.0));
    }

    fn close_interval(&mut self) {
        if !self.current_any {
            return;
        }
        self.current_any = false;
        let Some(found) = self.current.quantiles(NESTED.map(|(_, quantile)| quantile)) else { return };
        for (over, ns) in self.nested.iter_mut().zip(found) {
            over.add(Coarse::bucket(ns));
        }
        let last = self.p99_us.len() - 1;
        self.p99_us[last] = self.p99_us[last].max(found[NESTED_P99] as f64 / 1e3);
        self.current.clear();
    }

    /// Doubles the length of slots. All of them are full, so the next one opens after them.
    fn join_pairs(&mut self) {
        let half = self.ops.len() / 2;
        for i in 0..half {
            if i > 0 {
                self.copy(2 * i, i);
            }
            self.fold(2 * i + 1, i);
        }
        self.truncate(half);
        self.slot = self.slot + self.slot;
    }

    /// Adds slot `from` to slot `to`.
    fn fold(&mut self, from: usize, to: usize) {
        self.ops[to] += self.ops[from];
        self.p99_us[to] = self.p99_us[to].max(self.p99_us[from]);
        self.scheduler.area[to] += self.scheduler.area[from];
        self.device.area[to] += self.device.area[from];
        for t in 0..self.tenants {
            self.bytes[to * self.tenants + t] += self.bytes[from * self.tenants + t];
            self.active[to * self.tenants + t] |= self.active[from * self.tenants + t];
        }
    }

    fn copy(&mut self, from: usize, to: usize) {
        self.ops[to] = self.ops[from];
        self.p99_us[to] = self.p99_us[from];
        self.scheduler.area[to] = self.scheduler.area[from];
        self.device.area[to] = self.device.area[from];
        self.bytes.copy_within(from * self.tenants..(from + 1) * self.tenants, to * self.tenants);
        self.active.copy_within(from * self.tenants..(from + 1) * self.tenants, to * self.tenants);
    }

    fn truncate(&mut self, slots: usize) {
        self.ops.truncate(slots);
        self.p99_us.truncate(slots);
        self.scheduler.area.truncate(slots);
        self.device.area.truncate(slots);
        self.bytes.truncate(slots * self.tenants);
        self.active.truncate(slots * self.tenants);
    }

    /// Adds the timeline of another ring over the same time, up to `now` or the last event of either.
    ///
    /// Slots and mean depths are sums. An interval keeps percentiles of its latencies only: each ring's interval counts
    /// once in the nested table, and p99 of a slot is the higher of both, an upper bound of the joint p99.
    pub(crate) fn join(&mut self, mut other: Timeline, now: Nanos) {
        for one in [&mut *self, &mut other] {
            if now >= one.interval_end {
                one.advance(now);
            }
            one.hold_until(now);
            one.close_interval();
        }
        // The number and length of slots depend on time alone.
        assert_eq!((self.slot_end, self.ops.len()), (other.slot_end, other.ops.len()), "timelines of different runs");
        add(&mut self.ops, &other.ops);
        add(&mut self.bytes, &other.bytes);
        self.active.iter_mut().zip(&other.active).for_each(|(active, more)| *active |= more);
        self.p99_us.iter_mut().zip(&other.p99_us).for_each(|(p99, more)| *p99 = p99.max(*more));
        self.scheduler.join(&other.scheduler);
        self.device.join(&other.device);
        self.nested.iter_mut().zip(&other.nested).for_each(|(over, more)| over.join(more));
    }

    /// Closes the timeline at `end`.
    pub(crate) fn finish(&mut self, end: Nanos) {
        if end >= self.interval_end {
            self.advance(end);
        }
        self.hold_until(end);
        self.close_interval();
        // A remainder below half a slot joins the slot before: rates over very short times mislead.
        let last = self.ops.len() - 1;
        if last > 0 && end.since(self.slot_start(last)).0 < self.slot.0 / 2 {
            self.fold(last, last - 1);
            self.truncate(last);
        }
    }

    fn slot_start(&self, slot: usize) -> Nanos {
        self.start + Nanos(self.slot.0.saturating_mul(slot as u64))
    }

    /// Lengths of the slots in s; the last may be shorter or up to half longer. Empty for an empty timeline.
    fn lengths_s(&self, end: Nanos) -> Vec<f64> {
        let last = self.ops.len() - 1;
        let rest = end.since(self.slot_start(last)).as_secs_f64();
        let mut lengths = vec![self.slot.as_secs_f64(); last];
        lengths.extend((rest > 0.0).then_some(rest));
        lengths
    }

    /// Start, length (s), bytes of each tenant and whether each tenant submitted I/O, for each slot.
    pub(crate) fn slots(&self, end: Nanos) -> impl Iterator<Item = (Nanos, f64, &[u64], &[bool])> {
        let row = |i: usize| i * self.tenants..(i + 1) * self.tenants;
        let lengths = self.lengths_s(end).into_iter().enumerate();
        lengths.map(move |(i, length)| (self.slot_start(i), length, &self.bytes[row(i)], &self.active[row(i)]))
    }

    pub(crate) fn series(&self, end: Nanos, names: &[String]) -> Series {
        let lengths = self.lengths_s(end);
        let n = lengths.len();
        let rate = |value: f64, i: usize| value / lengths[i];
        let bytes_of = |i: usize, t: usize| self.bytes[i * self.tenants + t] as f64;
        let total = |i: usize| (0..self.tenants).map(|t| self.bytes[i * self.tenants + t]).sum::<u64>() as f64;
        let mean_depth = |depth: &Depth| (0..n).map(|i| rate(depth.area[i] as f64 / 1e9, i)).collect();
        Series {
            interval_s: self.slot.as_secs_f64(),
            times: (0..n).map(|i| self.slot_start(i).as_secs_f64()).collect(),
            mb_per_s: (0..n).map(|i| rate(total(i) / 1e6, i)).collect(),
            iops: (0..n).map(|i| rate(self.ops[i] as f64, i)).collect(),
            p99_us: self.p99_us[..n].to_vec(),
            pv: Vec::new(),
            depth_scheduler: mean_depth(&self.scheduler),
            depth_device: mean_depth(&self.device),
            tenants: names
                .iter()
                .enumerate()
                .map(|(t, name)| TenantSeries {
                    name: name.clone(),
                    mb_per_s: (0..n).map(|i| rate(bytes_of(i, t) / 1e6, i)).collect(),
                })
                .collect(),
        }
    }

    /// Variation over the complete slots: of one tenant, or of all together.
    pub(crate) fn bandwidth(&self, end: Nanos, tenant: Option<usize>) -> Bandwidth {
        let mut lengths = self.lengths_s(end);
        lengths.retain(|l| *l >= self.slot.as_secs_f64());
        let tenants = tenant.map_or(0..self.tenants, |t| t..t + 1);
        let bytes = |i: usize| tenants.clone().map(|t| self.bytes[i * self.tenants + t]).sum::<u64>();
        let mb_per_s: Vec<f64> = lengths.iter().enumerate().map(|(i, l)| bytes(i) as f64 / 1e6 / l).collect();
        let sample = crate::stats::Sample::of(&mb_per_s);
        if sample.n < 2 {
            return Bandwidth { min: f64::NAN, max: f64::NAN, stddev: f64::NAN, cv: f64::NAN };
        }
        Bandwidth {
            min: mb_per_s.iter().copied().fold(f64::INFINITY, f64::min),
            max: mb_per_s.iter().copied().fold(0.0, f64::max),
            stddev: sample.stddev,
            cv: if sample.mean > 0.0 { sample.stddev / sample.mean } else { f64::NAN },
        }
    }

    pub(crate) fn depths(&self) -> Depths {
        Depths { scheduler: self.scheduler.shares(), device: self.device.shares() }
    }

    /// The nested table; `cumulative` gives the percentiles of the whole run, in us, 1.0 the exact maximum.
    pub(crate) fn nested(&self, cumulative: impl Fn(f64) -> f64) -> Nested {
        let max = cumulative(1.0);
        // The bound of a bucket may exceed the longest latency in it.
        let at = |over: &Coarse, quantile: f64| match over.percentile_us(quantile) {
            us if us > max => max,
            us => us,
        };
        let rows = NESTED.iter().zip(&self.nested).map(|((name, quantile), over)| NestedRow {
            percentile: (*name).to_string(),
            cumulative: cumulative(*quantile),
            best: at(over, 0.0),
            p50: at(over, 0.5),
            p90: at(over, 0.9),
            p99: at(over, 0.99),
            worst: at(over, 1.0),
        });
        let intervals = self.nested[NESTED_P99].len();
        Nested { interval_s: self.interval.as_secs_f64(), intervals, rows: rows.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Nanos = Nanos::from_ms(1);

    #[test]
    fn depth_bins_cover_every_depth_without_gaps() {
        for depth in 0..5000u64 {
            let (from, to) = depth_bounds(depth_bin(depth));
            assert!((from..=to).contains(&depth), "{depth} in {from}..={to}");
        }
        assert_eq!(depth_bounds(depth_bin(33)), (33, 64));
        assert_eq!(depth_bounds(depth_bin(64)), (33, 64));
        assert_eq!(depth_bounds(depth_bin(65)), (65, 128));
        depth_bin(u64::MAX);
    }

    #[test]
    fn depth_is_averaged_over_time() {
        // 0 for 1 ms, 4 for 1.5 ms, 2 for 1.5 ms: slots of 2 ms hold (0 + 4) / 2 and (4 + 3 x 2) / 4.
        let mut t = Timeline::new(Nanos::ZERO, Nanos::from_ms(2), 1);
        t.depth(MS, 4, 0);
        t.depth(Nanos::from_us(2500), 2, 1);
        t.finish(Nanos::from_ms(4));
        let s = t.series(Nanos::from_ms(4), &[]);
        assert_eq!(s.depth_scheduler, [2.0, 2.5]);
        assert_eq!(s.depth_device, [0.0, 0.75]);
        let d = t.depths().scheduler;
        assert_eq!((d.mean, d.max), (2.25, 4));
        assert_eq!(d.distribution.iter().map(|b| b.share).collect::<Vec<_>>(), [0.25, 0.375, 0.375]);
    }

    #[test]
    fn a_depth_held_since_the_warm_up_counts_from_its_end() {
        let deepest = |changes: &[(u64, u64)]| {
            let mut t = Timeline::new(MS, MS, 1);
            changes.iter().for_each(|(us, depth)| t.depth(Nanos::from_us(*us), *depth, 0));
            t.finish(Nanos::from_ms(2));
            t.depths().scheduler.max
        };
        assert_eq!(deepest(&[(0, 3)]), 3);
        assert_eq!(deepest(&[(0, 7), (900, 3)]), 3);
        assert_eq!(deepest(&[(0, 7), (1500, 3)]), 7);
    }

    #[test]
    fn an_idle_gap_of_years_is_bounded_in_memory_and_time() {
        let mut t = Timeline::new(Nanos::ZERO, MS, 2);
        t.record(Nanos(5), Nanos(5), TenantId(1), 4096, Some(Coarse::bucket(5_000)));
        t.depth(Nanos(10), 3, 1);
        let late = Nanos::from_secs(3_000_000_000);
        t.record(late, late, TenantId(0), 512, Some(Coarse::bucket(7_000)));
        t.finish(late);
        let s = t.series(late, &["a".into(), "b".into()]);
        assert!(s.times.len() <= SLOTS_MAX);
        assert_eq!(t.bytes.iter().sum::<u64>(), 4608);
        assert!(s.tenants[1].mb_per_s[0] > 0.0 && s.tenants[0].mb_per_s[s.times.len() - 1] > 0.0);
        assert_eq!(t.nested(|_| 7.0).intervals, 2);
        assert_eq!(t.nested(|_| 7.0).rows[4].worst, 7.0);
        t.record(Nanos::MAX, Nanos::MAX, TenantId(0), 1, Some(1));
        t.finish(Nanos::MAX);
    }

    #[test]
    fn the_last_interval_keeps_its_real_length() {
        let mut t = Timeline::new(MS, Nanos::from_ms(2), 1);
        t.record(Nanos::from_ms(2), Nanos::from_ms(2), TenantId(0), 2_000, Some(1));
        t.record(Nanos::from_ms(4), Nanos::from_ms(4), TenantId(0), 1_000, Some(1));
        let end = Nanos::from_us(4500);
        t.finish(end);
        let s = t.series(end, &["t".into()]);
        assert_eq!(s.times, [0.001, 0.003]);
        assert_eq!(s.mb_per_s, [1.0, 1.0 / 1.5]);
        assert!(t.bandwidth(end, None).stddev.is_nan(), "one complete interval has no deviation");
    }

    #[test]
    fn a_short_remainder_joins_the_interval_before() {
        let mut t = Timeline::new(Nanos::ZERO, Nanos::from_ms(2), 1);
        for at in [1, 2, 4] {
            t.record(Nanos::from_ms(at), Nanos::from_ms(at), TenantId(0), 1_000, Some(1));
        }
        t.finish(Nanos::from_ms(4));
        let s = t.series(Nanos::from_ms(4), &[]);
        assert_eq!(s.mb_per_s, [0.5, 1.0], "a completion at the very end counts");
    }

    proptest! {
        #[test]
        fn joining_slots_loses_nothing(steps in prop::collection::vec((0u64..40_000_000, 0u64..100, 0u64..100), 1..300)) {
            let mut t = Timeline::new(Nanos::ZERO, MS, 1);
            let (mut now, mut bytes, mut area, mut depth) = (Nanos::ZERO, 0, 0u128, 0u64);
            for (gap, size, d) in steps.iter().copied() {
                area += u128::from(gap) * u128::from(depth);
                now += Nanos(gap);
                depth = d;
                bytes += size;
                t.record(now, now, TenantId(0), size, Some(1));
                t.depth(now, d, 0);
            }
            let end = now + Nanos(1);
            t.finish(end);
            area += u128::from(depth);
            prop_assert_eq!(t.bytes.iter().sum::<u64>(), bytes);
            prop_assert_eq!(t.ops.iter().sum::<u64>(), steps.len() as u64);
            prop_assert_eq!(t.scheduler.area.iter().sum::<u128>(), area);
            prop_assert_eq!(t.scheduler.held_ns.iter().sum::<u64>(), end.0);
            prop_assert!(t.ops.len() <= SLOTS_MAX);
        }
    }
}
