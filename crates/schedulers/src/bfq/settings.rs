//! Settings under the kernel's names, and a switch for each mechanism.

use dumbwaiter_block::{TickClock, Tunable};

/// Which mechanisms are at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mechanisms {
    pub(super) raising: bool,
    pub(super) soft_rt: bool,
    pub(super) bursts: bool,
    pub(super) async_raising: bool,
    pub(super) merging: bool,
    pub(super) stable_merge: bool,
    pub(super) injection: bool,
    pub(super) wakers: bool,
    pub(super) preemption: bool,
    pub(super) hole_recovery: bool,
    pub(super) depth_limits: bool,
}

/// Values of the settings.
#[derive(Clone, Debug)]
pub(super) struct Values {
    pub(super) back_seek_max: u64,
    pub(super) back_seek_penalty: u64,
    /// Async and sync, ns.
    pub(super) fifo_expire: [u64; 2],
    pub(super) low_latency: bool,
    /// 0: by the peak rate.
    pub(super) max_budget: u64,
    /// ns.
    pub(super) slice_idle: u64,
    pub(super) strict_guarantees: bool,
    /// Ticks.
    pub(super) timeout: i64,
    pub(super) on: Mechanisms,
}

const fn tunable(
    name: &'static str,
    unit: &'static str,
    min: i128,
    max: i128,
    default: i128,
    help: &'static str,
) -> Tunable {
    Tunable { name, unit, min, max, default, help }
}

const INT: i128 = i32::MAX as i128;

const fn switch(name: &'static str, help: &'static str) -> Tunable {
    tunable(name, "bool", 0, 1, 1, help)
}

/// Settings: the kernel's, then the switches.
pub const TUNABLES: &[Tunable] = &[
    tunable("back_seek_max", "KiB", 0, INT, 16384, "how far back a request may lie and still be compared by distance"),
    tunable("back_seek_penalty", "factor", 1, INT, 2, "what a distance backwards counts, compared with one forwards"),
    tunable("fifo_expire_async", "ms", 0, INT, 250, "an async request's deadline, looked at once in a slot"),
    tunable("fifo_expire_sync", "ms", 0, INT, 125, "a sync request's deadline, looked at once in a slot"),
    tunable("low_latency", "bool", 0, 1, 1, "raise the weight of interactive and soft real-time queues"),
    tunable(
        "max_budget",
        "sectors",
        0,
        INT,
        0,
        "largest budget of a slot; 0: what the peak rate moves in timeout_sync",
    ),
    tunable("slice_idle", "ms", 0, INT, 8, "how long the device is kept idle for a queue; 0: never"),
    tunable("slice_idle_us", "us", 0, u32::MAX as i128, 8000, "slice_idle in microseconds"),
    tunable("strict_guarantees", "bool", 0, 1, 0, "one request in the device at a time, and always idle"),
    tunable("timeout_sync", "ms", 1, INT, 124, "longest slot, in ticks of 4 ms"),
    switch("raising", "mechanism: raise interactive queues"),
    switch("soft_rt", "mechanism: raise soft real-time queues"),
    switch("bursts", "mechanism: do not raise queues created in large bursts"),
    switch("async_raising", "mechanism: raise busy async queues now and then"),
    switch("merging", "mechanism: merge queues of processes that read next to each other"),
    switch("stable_merge", "mechanism: merge queues created together"),
    switch("injection", "mechanism: serve others in small doses while idling"),
    switch("wakers", "mechanism: serve the queue that the awaited one waits for"),
    switch("preemption", "mechanism: end a slot early for a queue that deserves it more"),
    switch("hole_recovery", "mechanism: a queue that comes back soon keeps its budget and stamps"),
    switch("depth_limits", "mechanism: limit the slots of async requests and of queues above their share"),
];

impl Mechanisms {
    pub(super) const MAINLINE: Mechanisms = Mechanisms {
        raising: true,
        soft_rt: true,
        bursts: true,
        async_raising: true,
        merging: true,
        stable_merge: true,
        injection: true,
        wakers: true,
        preemption: true,
        hole_recovery: true,
        depth_limits: true,
    };

    fn field(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "raising" => &mut self.raising,
            "soft_rt" => &mut self.soft_rt,
            "bursts" => &mut self.bursts,
            "async_raising" => &mut self.async_raising,
            "merging" => &mut self.merging,
            "stable_merge" => &mut self.stable_merge,
            "injection" => &mut self.injection,
            "wakers" => &mut self.wakers,
            "preemption" => &mut self.preemption,
            "hole_recovery" => &mut self.hole_recovery,
            "depth_limits" => &mut self.depth_limits,
            _ => return None,
        })
    }
}

impl Values {
    pub(super) fn new(clock: &TickClock, on: Mechanisms) -> Values {
        Values {
            back_seek_max: 16384,
            back_seek_penalty: 2,
            fifo_expire: [250_000_000, 125_000_000],
            low_latency: true,
            max_budget: 0,
            slice_idle: 8_000_000,
            strict_guarantees: false,
            timeout: (clock.per_second() / 8).max(1),
            on,
        }
    }

    pub(super) fn get(&self, name: &str, clock: &TickClock) -> Option<i128> {
        Some(match name {
            "back_seek_max" => i128::from(self.back_seek_max),
            "back_seek_penalty" => i128::from(self.back_seek_penalty),
            "fifo_expire_async" => i128::from(self.fifo_expire[0] / 1_000_000),
            "fifo_expire_sync" => i128::from(self.fifo_expire[1] / 1_000_000),
            "low_latency" => i128::from(self.low_latency),
            "max_budget" => i128::from(self.max_budget),
            "slice_idle" => i128::from(self.slice_idle / 1_000_000),
            "slice_idle_us" => i128::from(self.slice_idle / 1000),
            "strict_guarantees" => i128::from(self.strict_guarantees),
            "timeout_sync" => i128::from(self.timeout) * i128::from(clock.period.0) / 1_000_000,
            _ => i128::from(*self.on.clone().field(name)?),
        })
    }

    pub(super) fn set(&mut self, name: &str, value: i128, clock: &TickClock) {
        let number = value.clamp(0, i128::from(u64::MAX)) as u64;
        match name {
            "back_seek_max" => self.back_seek_max = number,
            "back_seek_penalty" => self.back_seek_penalty = number,
            "fifo_expire_async" => self.fifo_expire[0] = number.saturating_mul(1_000_000),
            "fifo_expire_sync" => self.fifo_expire[1] = number.saturating_mul(1_000_000),
            "low_latency" => self.low_latency = number != 0,
            "max_budget" => self.max_budget = number,
            "slice_idle" => self.slice_idle = number.saturating_mul(1_000_000),
            "slice_idle_us" => self.slice_idle = number.saturating_mul(1000),
            "strict_guarantees" => {
                if number != 0 && !self.strict_guarantees {
                    self.slice_idle = self.slice_idle.max(8_000_000);
                }
                self.strict_guarantees = number != 0;
            }
            "timeout_sync" => self.timeout = clock.from_ms(number.max(1)),
            _ => {
                if let Some(field) = self.on.field(name) {
                    *field = number != 0;
                }
            }
        }
    }
}
