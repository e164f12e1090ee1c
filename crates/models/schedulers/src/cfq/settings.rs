//! Versions, the clock, and the tunables under their kernel names.

use dumbwaiter_block::{Nanos, Setup, TickClock, Tunable};

use crate::settings::{settings, tunables, with_defaults};

/// The Linux release to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Linux 3.10: idles on any device.
    K310,
    /// Linux 3.18: does not idle where there is no arm.
    K318,
    /// Linux 4.20: counts nanoseconds, attributes writeback, idles for groups on flash.
    K420,
}

impl Version {
    /// Reads a Linux release: up to 3.17 is followed as 3.10, up to 4.7 as 3.18, up to 4.20 as 4.20.
    pub fn parse(release: &str) -> Option<Version> {
        let mut numbers = release.split(['.', '-']).map(|n| n.parse::<u32>().ok());
        match (numbers.next()??, numbers.next().unwrap_or(Some(0))?) {
            (3, 0..=17) => Some(Version::K310),
            (3, _) | (4, 0..=7) => Some(Version::K318),
            (4, 8..=20) => Some(Version::K420),
            _ => None,
        }
    }
}

/// Time as the scheduler counts it: ticks, or nanoseconds from 4.8 on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    ticks: TickClock,
    fine: bool,
    /// One second.
    pub(super) second: i64,
    /// One tick.
    pub(super) tick: i64,
    /// The tick counted last, and the nanoseconds at which it began and ended.
    last: (i64, u64, u64),
}

/// No span is longer, so that products of two of them and a weight stay in range.
const LONGEST: i64 = 1 << 44;

impl Clock {
    pub(super) fn new(ticks: TickClock, fine: bool) -> Clock {
        if fine {
            Clock { ticks, fine, second: 1_000_000_000, tick: ticks.period.0.max(1) as i64, last: (0, 0, 0) }
        } else {
            Clock { ticks, fine, second: ticks.per_second().max(1), tick: 1, last: (0, 0, 0) }
        }
    }

    pub(super) fn count(&mut self, at: Nanos) -> i64 {
        if self.fine {
            return at.0 as i64;
        }
        // Most calls are within the tick of the last.
        let (tick, began, ended) = self.last;
        if (began..ended).contains(&at.0) {
            return tick;
        }
        let tick = self.ticks.ticks(at);
        self.last = (tick, self.ticks.time_of(tick).0, self.ticks.time_of(tick + 1).0);
        tick
    }

    /// Is the count now more than `span` beyond what it was at `then`?
    pub(super) fn longer_than(&self, span: i64, then: Nanos, now: Nanos) -> bool {
        let nanos = if self.fine { 1 } else { self.ticks.period.0 };
        // A difference of ticks is never larger than that of the times, which is cheaper to compute.
        now.since(then).0 > (span as u64).saturating_mul(nanos)
            && (self.fine || self.ticks.ticks(now) - self.ticks.ticks(then) > span)
    }

    /// When the count becomes `count`.
    pub(super) fn time_of(&self, count: i64) -> Nanos {
        if self.fine { Nanos(count.max(0) as u64) } else { self.ticks.time_of(count) }
    }

    /// Ticks round up, as the kernel's do.
    pub(super) fn span_of_us(&self, us: i64) -> i64 {
        let nanos = (us.max(0) as u64).saturating_mul(1000);
        let count = if self.fine { nanos } else { nanos.div_ceil(self.ticks.period.0.max(1)) };
        count.min(LONGEST as u64) as i64
    }

    pub(super) fn span_of_ms(&self, ms: i64) -> i64 {
        let ms = ms.max(0) as u64;
        let count = if self.fine { Nanos::from_ms(ms).0.min(LONGEST as u64) as i64 } else { self.ticks.from_ms(ms) };
        count.min(LONGEST)
    }
}

const MOST: u32 = u32::MAX;
const MOST_US: u64 = u32::MAX as u64 * 1000;

settings! {
    pub(super) const SETTINGS of Settings;
    quantum: "requests", 1, MOST, 8, "requests of one queue in the device while others wait" => (quantum);
    fifo_expire_sync: "ms", 1, MOST, 125, "a synchronous request goes first after this long"
        => { |s| in_ms(s.us.fifo[1]), |s, ms| s.fifo_expire[1] = span_of_ms(&s.clock, &mut s.us.fifo[1], ms) };
    fifo_expire_async: "ms", 1, MOST, 250, "an asynchronous request goes first after this long"
        => { |s| in_ms(s.us.fifo[0]), |s, ms| s.fifo_expire[0] = span_of_ms(&s.clock, &mut s.us.fifo[0], ms) };
    back_seek_max: "KiB", 0, MOST, 16_384, "the longest distance backwards to a next request"
        => { |s| (s.back_seek_sectors / 2).into(), |s, kib| s.back_seek_sectors = kib as u64 * 2 };
    back_seek_penalty: "factor", 1, MOST, 2, "factor by which a distance backwards counts more" => (back_seek_penalty);
    slice_sync: "ms", 1, MOST, 100, "slice of a synchronous queue of level 4"
        => { |s| in_ms(s.us.slice[1]), |s, ms| s.slice[1] = span_of_ms(&s.clock, &mut s.us.slice[1], ms) };
    slice_async: "ms", 1, MOST, 40, "slice of an asynchronous queue of level 4"
        => { |s| in_ms(s.us.slice[0]), |s, ms| s.slice[0] = span_of_ms(&s.clock, &mut s.us.slice[0], ms) };
    slice_async_rq: "requests", 1, MOST, 2, "scales the requests of an async slice: twice this per level above 8" => (slice_async_rq);
    slice_idle: "ms", 0, MOST, 0, "time to idle for a queue's next request; 8 on a disk with a moving arm, and in 3.10"
        => { |s| in_ms(s.us.slice_idle), |s, ms| s.slice_idle = span_of_ms(&s.clock, &mut s.us.slice_idle, ms) };
    group_idle: "ms", 0, MOST, 8, "time to idle for a tenant's next request"
        => { |s| in_ms(s.us.group_idle), |s, ms| s.group_idle = span_of_ms(&s.clock, &mut s.us.group_idle, ms) };
    low_latency: "bool", 0, 1, 1, "scale slices to target_latency" => (low_latency);
    target_latency: "ms", 1, MOST, 300, "target time for one round of all queues"
        => { |s| in_ms(s.us.target_latency), |s, ms| s.target_latency = span_of_ms(&s.clock, &mut s.us.target_latency, ms) };
    slice_sync_us: "us", 1, MOST_US, 100_000, "slice_sync in microseconds; ticks, up to 4.7, round up"
        => { |s| s.us.slice[1].into(), |s, us| s.slice[1] = span_of_us(&s.clock, &mut s.us.slice[1], us) };
    slice_async_us: "us", 1, MOST_US, 40_000, "slice_async in microseconds"
        => { |s| s.us.slice[0].into(), |s, us| s.slice[0] = span_of_us(&s.clock, &mut s.us.slice[0], us) };
    slice_idle_us: "us", 0, MOST_US, 0, "slice_idle in microseconds"
        => { |s| s.us.slice_idle.into(), |s, us| s.slice_idle = span_of_us(&s.clock, &mut s.us.slice_idle, us) };
    group_idle_us: "us", 0, MOST_US, 8000, "group_idle in microseconds"
        => { |s| s.us.group_idle.into(), |s, us| s.group_idle = span_of_us(&s.clock, &mut s.us.group_idle, us) };
    target_latency_us: "us", 1, MOST_US, 300_000, "target_latency in microseconds"
        => { |s| s.us.target_latency.into(), |s, us| s.target_latency = span_of_us(&s.clock, &mut s.us.target_latency, us) };
    leaf_weight: "weight", 1, 10_000, 100, "weight of a tenant's own tasks beside the tenants nested in it" => (leaf_weight[0]);
    root_leaf_weight: "weight", 1, 10_000, 200, "weight of the root's own tasks, and of write-back up to 4.7, beside the tenants"
        => (leaf_weight[1]);
}

/// Settings.
pub const TUNABLES: &[Tunable] = &tunables(&SETTINGS);

fn in_ms(us: i64) -> i128 {
    (us / 1000).into()
}

/// Keeps a time as it was set, and returns it in the units of the clock.
fn span_of_ms(clock: &Clock, kept: &mut i64, ms: i128) -> i64 {
    *kept = ms as i64 * 1000;
    clock.span_of_ms(ms as i64)
}

/// As [`span_of_ms`].
fn span_of_us(clock: &Clock, kept: &mut i64, us: i128) -> i64 {
    *kept = us as i64;
    clock.span_of_us(us as i64)
}

/// Times as they were set, us.
#[derive(Clone, Copy, Debug, Default)]
struct Micros {
    fifo: [i64; 2],
    slice: [i64; 2],
    slice_idle: i64,
    group_idle: i64,
    target_latency: i64,
}

/// Settings in the units of the clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) quantum: u32,
    /// Async, sync.
    pub(super) fifo_expire: [i64; 2],
    pub(super) back_seek_sectors: u64,
    pub(super) back_seek_penalty: u64,
    /// Async, sync.
    pub(super) slice: [i64; 2],
    pub(super) slice_async_rq: u32,
    pub(super) slice_idle: i64,
    pub(super) group_idle: i64,
    pub(super) low_latency: bool,
    pub(super) target_latency: i64,
    /// Of a tenant's own tasks, of the root's.
    pub(super) leaf_weight: [u32; 2],
    us: Micros,
    clock: Clock,
}

impl Settings {
    /// The defaults; those that the kernel states as parts of a second are such parts.
    pub(super) fn new(version: Version, setup: &Setup, clock: &Clock) -> Settings {
        let empty = Settings {
            quantum: 0,
            fifo_expire: [0; 2],
            back_seek_sectors: 0,
            back_seek_penalty: 0,
            slice: [0; 2],
            slice_async_rq: 0,
            slice_idle: 0,
            group_idle: 0,
            low_latency: false,
            target_latency: 0,
            leaf_weight: [0; 2],
            us: Micros::default(),
            clock: *clock,
        };
        let mut made = with_defaults(&SETTINGS, empty);
        let part = |of: i64, divisor: i64| (of * clock.second / divisor).max(1);
        made.fifo_expire = [part(1, 4), part(1, 8)];
        made.slice = [part(1, 25), part(1, 10)];
        made.group_idle = part(1, 125);
        made.target_latency = part(3, 10);
        if setup.rotational_at_attach() || version == Version::K310 {
            (made.slice_idle, made.us.slice_idle) = (part(1, 125), 8000);
        }
        made
    }
}
