//! Settings under the kernel's names, and a switch for each mechanism.

use dumbwaiter_block::{TickClock, Tunable};

use super::generation::Generation;
use crate::settings::{Setting, join, settings, with_defaults};

/// Largest budget before the device's rate is known, sectors.
pub(super) const DEFAULT_MAX_BUDGET: u64 = 16384;

macro_rules! mechanisms {
    ($($name:ident $original:literal $v1:literal $v7r8:literal $mainline:literal $help:literal;)*) => {
        /// The mechanisms that are switched on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) struct Mechanisms {
            $(pub(super) $name: bool,)*
        }

        impl Mechanisms {
            pub(super) const fn of(generation: Generation) -> Mechanisms {
                match generation {
                    Generation::Original => Mechanisms { $($name: $original == 1,)* },
                    Generation::V1 => Mechanisms { $($name: $v1 == 1,)* },
                    Generation::V7r8 => Mechanisms { $($name: $v7r8 == 1,)* },
                    Generation::Mainline => Mechanisms { $($name: $mainline == 1,)* },
                }
            }

            const fn settings(self) -> [Setting<Values>; SWITCHES] {
                settings! {
                    $($name: "bool", 0, 1, self.$name, concat!("mechanism: ", $help) => (on.$name);)*
                }
            }
        }

        const SWITCHES: usize = [$($original),*].len();
    };
}

// Which generations have it: original, v1, v7r8, mainline.
mechanisms! {
    raising 0 1 1 1 "raise interactive queues";
    linear_raise 0 1 0 0 "a raise falls with the service, and starts again after 20 s; otherwise it is constant for a time";
    raise_default_only 0 0 0 1 "raise only queues of the default weight";
    raised_timeout 0 1 1 1 "extend the slots of raised queues by the factor of their raise";
    raised_idle 0 0 1 1 "idle longer for raised queues";
    soft_rt 0 0 1 1 "raise soft real-time queues";
    bursts 0 0 1 1 "do not raise queues created in large bursts";
    async_raising 0 0 1 1 "raise busy async queues at times";
    merging 0 0 1 1 "merge queues of processes that read next to each other";
    stable_merge 0 0 0 1 "merge queues created together";
    injection 0 0 0 1 "inject a few requests of other queues while idling";
    wakers 0 0 0 1 "serve the queue whose completions the awaited queue depends on";
    preemption 0 0 0 1 "end a slot early for a queue with precedence";
    hole_recovery 0 0 0 1 "a queue that returns soon keeps its budget and timestamps";
    depth_limits 0 0 0 1 "limit the tags of async requests and of queues above their share";
    small_requests 0 0 1 1 "one small request does not end idling";
    symmetry 0 0 1 1 "do not idle for shares if all queues have equal weights, nor for throughput on devices that queue commands";
    budget_doubling 0 1 1 1 "budgets are doubled and quartered; otherwise steps of fixed size";
    slow_charge 1 1 1 1 "charge slots that are slow or time out early more than they were served";
    time_charge 0 0 0 1 "charge them for their time; otherwise the whole budget";
    slow_as_documented 0 0 0 0 "without time_charge: a slot that cannot use its budget in time is slow; otherwise, as in the code, one that can";
    group_weights 0 1 1 1 "tenants have their configured weights; otherwise equal ones";
    group_double_charge 0 0 0 1 "charge a group that changes in mid-slot twice for its service";
    idle_look_in 0 0 1 1 "the idle class is served every 200 ms";
}

/// Values of the settings.
#[derive(Clone)]
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
    pub(super) raise_coeff: u32,
    /// Sectors after which an interactive raise ends; 0: no such end.
    pub(super) raise_sectors: u64,
    pub(super) async_charge: u64,
    pub(super) on: Mechanisms,
    pub(super) history: Option<History>,
    rows: &'static [Setting<Values>],
    clock: TickClock,
}

/// History-based budgets (H+BFQ).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    /// Sectors.
    pub(super) default_budget: u64,
    /// Tenants that count; 0: those active.
    pub(super) tenants: u64,
    /// Sectors after exhaustion; 0: the default budget ÷ tenants.
    pub(super) exhausted_budget: u64,
}

const INT: i32 = i32::MAX;

/// The kernel's settings, then those of single mechanisms, then the switches.
const fn settings(generation: Generation) -> [Setting<Values>; 13 + SWITCHES] {
    let constants = Constants::of(generation);
    let first: [Setting<Values>; 13] = settings! {
        back_seek_max: "KiB", 0, INT, 16384, "largest distance behind the head at which a request competes by distance"
            => (back_seek_max);
        back_seek_penalty: "factor", 1, INT, 2, "factor by which a distance backwards counts more" => (back_seek_penalty);
        fifo_expire_async: "ms", 0, INT, 250, "deadline of an async request, checked once per slot"
            => { |v| (v.fifo_expire[0] / 1_000_000).into(), |v, ms| v.fifo_expire[0] = ms as u64 * 1_000_000 };
        fifo_expire_sync: "ms", 0, INT, 125, "deadline of a sync request, checked once per slot"
            => { |v| (v.fifo_expire[1] / 1_000_000).into(), |v, ms| v.fifo_expire[1] = ms as u64 * 1_000_000 };
        low_latency: "bool", 0, 1, constants.low_latency, "raise the weight of interactive and soft real-time queues"
            => (low_latency);
        max_budget: "sectors", 0, INT, 0,
            "largest budget of a slot; 0: the data of one timeout_sync at the measured peak rate" => (max_budget);
        slice_idle: "ms", 0, INT, 8, "how long the device idles for a queue; 0: never"
            => { |v| (v.slice_idle / 1_000_000).into(), |v, ms| v.slice_idle = ms as u64 * 1_000_000 };
        slice_idle_us: "us", 0, u32::MAX, 8000, "slice_idle in microseconds"
            => { |v| (v.slice_idle / 1000).into(), |v, us| v.slice_idle = us as u64 * 1000 };
        strict_guarantees: "bool", 0, 1, 0, "keep one request in the device, and always idle"
            => { |v| v.strict_guarantees.into(), |v, on| v.set_strict_guarantees(on != 0) };
        timeout_sync: "ms", 1, INT, 124, "longest slot, in ticks of 4 ms"
            => { |v| i128::from(v.timeout) * i128::from(v.clock.period.0) / 1_000_000, |v, ms| v.timeout = v.clock.from_ms(ms as u64) };
        raise_coeff: "factor", 1, 1000, constants.raise_coeff, "factor by which the weight of interactive queues is raised"
            => (raise_coeff);
        raise_sectors: "sectors", 0, INT, constants.raise_sectors, "service after which a raise ends; 0: by time alone"
            => (raise_sectors);
        async_charge: "factor", 1, 100, constants.async_charge, "factor by which a sector of an async request counts"
            => (async_charge);
    };
    join(first, Mechanisms::of(generation).settings())
}

const HISTORY: [Setting<Values>; 3] = settings! {
    default_budget: "sectors", 1, INT, DEFAULT_MAX_BUDGET,
        "a queue's first budget, and its next one if little is left after a slot that did not exhaust it"
        => { |v| v.history.map_or(0, |h| h.default_budget).into(), |v, sectors| v.set_history(|h| h.default_budget = sectors as u64) };
    history_tenants: "tenants", 0, INT, 0,
        "divisor of the default budget for a queue that exhausts its budget; 0: number of active tenants"
        => { |v| v.history.map_or(0, |h| h.tenants).into(), |v, tenants| v.set_history(|h| h.tenants = tenants as u64) };
    exhausted_budget: "sectors", 0, INT, 0, "budget after exhaustion; 0: default_budget ÷ tenants, at least default_budget ÷ 32"
        => { |v| v.history.map_or(0, |h| h.exhausted_budget).into(), |v, sectors| v.set_history(|h| h.exhausted_budget = sectors as u64) };
};

macro_rules! lists {
    ($($generation:ident $plain:ident $history:ident;)*) => {
        $(
            static $plain: [Setting<Values>; 13 + SWITCHES] = settings(Generation::$generation);
            static $history: [Setting<Values>; 16 + SWITCHES] = join(HISTORY, settings(Generation::$generation));
        )*

        fn rows(generation: Generation, history: bool) -> &'static [Setting<Values>] {
            match (generation, history) {
                $((Generation::$generation, false) => &$plain, (Generation::$generation, true) => &$history,)*
            }
        }

        /// The settings, with a generation's defaults.
        pub const fn tunables(generation: Generation, history: bool) -> &'static [Tunable] {
            match (generation, history) {
                $(
                    (Generation::$generation, false) => const { &crate::settings::tunables(&$plain) },
                    (Generation::$generation, true) => const { &crate::settings::tunables(&$history) },
                )*
            }
        }
    };
}

lists! {
    Original ORIGINAL H_ORIGINAL;
    V1 V1 H_V1;
    V7r8 V7R8 H_V7R8;
    Mainline MAINLINE H_MAINLINE;
}

/// Defaults that differ between generations, other than switches.
struct Constants {
    low_latency: bool,
    raise_coeff: u32,
    raise_sectors: u64,
    async_charge: u64,
}

impl Constants {
    const fn of(generation: Generation) -> Constants {
        let (low_latency, raise_coeff, raise_sectors, async_charge) = match generation {
            Generation::Original => (false, 1, 0, 1),
            Generation::V1 => (true, 11, 49_152, 11),
            Generation::V7r8 => (true, 20, 0, 11),
            Generation::Mainline => (true, 30, 120_000, 3),
        };
        Constants { low_latency, raise_coeff, raise_sectors, async_charge }
    }
}

impl Values {
    pub(super) fn new(clock: &TickClock, generation: Generation, history: bool) -> Values {
        let empty = Values {
            back_seek_max: 0,
            back_seek_penalty: 0,
            fifo_expire: [0; 2],
            low_latency: false,
            max_budget: 0,
            slice_idle: 0,
            strict_guarantees: false,
            timeout: 0,
            raise_coeff: 0,
            raise_sectors: 0,
            async_charge: 0,
            on: Mechanisms::of(generation),
            history: history.then_some(History::default()),
            rows: rows(generation, history),
            clock: *clock,
        };
        let mut made = with_defaults(empty.rows, empty);
        made.timeout = (clock.per_second() / 8).max(1);
        made
    }

    pub(super) fn get(&self, name: &str) -> Option<i128> {
        crate::settings::get(self.rows, self, name)
    }

    pub(super) fn set(&mut self, name: &str, value: i128) {
        crate::settings::set(self.rows, self, name, value);
    }

    fn set_strict_guarantees(&mut self, on: bool) {
        if on && !self.strict_guarantees {
            self.slice_idle = self.slice_idle.max(8_000_000);
        }
        self.strict_guarantees = on;
    }

    fn set_history(&mut self, change: impl FnOnce(&mut History)) {
        if let Some(history) = &mut self.history {
            change(history);
        }
    }
}
