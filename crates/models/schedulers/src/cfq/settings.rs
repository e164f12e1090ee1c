//! Versions, the clock, and the tunables under their kernel names.

use dumbwaiter_block::{Nanos, Setup, TickClock, Tunable};

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

const MOST: i128 = u32::MAX as i128;

const fn tunable(name: &'static str, unit: &'static str, min: i128, default: i128, help: &'static str) -> Tunable {
    Tunable { name, unit, min, max: MOST, default, help }
}

/// Settings.
pub const TUNABLES: &[Tunable] = &[
    tunable("quantum", "requests", 1, 8, "requests of one queue in the device while others wait"),
    tunable("fifo_expire_sync", "ms", 1, 125, "a synchronous request goes first after this long"),
    tunable("fifo_expire_async", "ms", 1, 250, "an asynchronous request goes first after this long"),
    tunable("back_seek_max", "KiB", 0, 16_384, "the longest distance backwards to a next request"),
    tunable("back_seek_penalty", "factor", 1, 2, "factor by which a distance backwards counts more"),
    tunable("slice_sync", "ms", 1, 100, "slice of a synchronous queue of level 4"),
    tunable("slice_async", "ms", 1, 40, "slice of an asynchronous queue of level 4"),
    tunable("slice_async_rq", "requests", 1, 2, "scales the requests of an async slice: twice this per level above 8"),
    tunable(
        "slice_idle",
        "ms",
        0,
        0,
        "time to idle for a queue's next request; 8 on a disk with a moving arm, and in 3.10",
    ),
    tunable("group_idle", "ms", 0, 8, "time to idle for a tenant's next request"),
    Tunable { name: "low_latency", unit: "bool", min: 0, max: 1, default: 1, help: "scale slices to target_latency" },
    tunable("target_latency", "ms", 1, 300, "target time for one round of all queues"),
    micros("slice_sync_us", 1, 100_000, "slice_sync in microseconds; ticks, up to 4.7, round up"),
    micros("slice_async_us", 1, 40_000, "slice_async in microseconds"),
    micros("slice_idle_us", 0, 0, "slice_idle in microseconds"),
    micros("group_idle_us", 0, 8000, "group_idle in microseconds"),
    micros("target_latency_us", 1, 300_000, "target_latency in microseconds"),
    weight("leaf_weight", 100, "weight of a tenant's own tasks beside the tenants nested in it"),
    weight("root_leaf_weight", 200, "weight of the root's own tasks, and of write-back up to 4.7, beside the tenants"),
];

const fn micros(name: &'static str, min: i128, default: i128, help: &'static str) -> Tunable {
    Tunable { name, unit: "us", min, max: MOST * 1000, default, help }
}

const fn weight(name: &'static str, default: i128, help: &'static str) -> Tunable {
    Tunable { name, unit: "weight", min: 1, max: 10_000, default, help }
}

/// The same setting in milliseconds and in microseconds.
fn twin(name: &str) -> Option<(usize, bool)> {
    let (other, fine) = match name.strip_suffix("_us") {
        Some(coarse) => (TUNABLES.iter().position(|t| t.name == coarse), true),
        None => (TUNABLES.iter().position(|t| t.name.strip_suffix("_us") == Some(name)), false),
    };
    Some((other?, fine))
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
    /// As they were set.
    values: [i64; TUNABLES.len()],
}

impl Settings {
    /// The defaults; those that the kernel states as parts of a second are such parts.
    pub(super) fn new(version: Version, setup: &Setup, clock: &Clock) -> Settings {
        let idles = setup.rotational_at_attach() || version == Version::K310;
        let mut values = [0; TUNABLES.len()];
        for (value, tunable) in values.iter_mut().zip(TUNABLES) {
            *value = match tunable.name {
                "slice_idle" if idles => 8,
                "slice_idle_us" if idles => 8000,
                _ => tunable.default as i64,
            };
        }
        let part = |of: i64, divisor: i64| (of * clock.second / divisor).max(1);
        Settings {
            quantum: 8,
            fifo_expire: [part(1, 4), part(1, 8)],
            back_seek_sectors: 16_384 * 2,
            back_seek_penalty: 2,
            slice: [part(1, 25), part(1, 10)],
            slice_async_rq: 2,
            slice_idle: if idles { part(1, 125) } else { 0 },
            group_idle: part(1, 125),
            low_latency: true,
            target_latency: part(3, 10),
            leaf_weight: [100, 200],
            values,
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<i128> {
        TUNABLES.iter().position(|t| t.name == name).map(|i| i128::from(self.values[i]))
    }

    pub(super) fn set(&mut self, name: &str, value: i128, clock: &Clock) {
        let Some(i) = TUNABLES.iter().position(|t| t.name == name) else { return };
        self.values[i] = value as i64;
        let count = value as u32;
        let mut span = clock.span_of_ms(value as i64);
        if let Some((twin, fine)) = twin(name) {
            self.values[twin] = if fine { value as i64 / 1000 } else { value as i64 * 1000 };
            if fine {
                span = clock.span_of_us(value as i64);
            }
        }
        match name {
            "quantum" => self.quantum = count,
            "fifo_expire_sync" => self.fifo_expire[1] = span,
            "fifo_expire_async" => self.fifo_expire[0] = span,
            "back_seek_max" => self.back_seek_sectors = u64::from(count) * 2,
            "back_seek_penalty" => self.back_seek_penalty = u64::from(count),
            "slice_sync" | "slice_sync_us" => self.slice[1] = span,
            "slice_async" | "slice_async_us" => self.slice[0] = span,
            "slice_async_rq" => self.slice_async_rq = count,
            "slice_idle" | "slice_idle_us" => self.slice_idle = span,
            "group_idle" | "group_idle_us" => self.group_idle = span,
            "low_latency" => self.low_latency = value != 0,
            "leaf_weight" => self.leaf_weight[0] = count,
            "root_leaf_weight" => self.leaf_weight[1] = count,
            _ => self.target_latency = span,
        }
    }
}
