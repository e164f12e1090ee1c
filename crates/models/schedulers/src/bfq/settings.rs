//! Settings under the kernel's names, and a switch for each mechanism.

use dumbwaiter_block::{TickClock, Tunable};

use super::generation::Generation;

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

            fn field(&mut self, name: &str) -> Option<&mut bool> {
                Some(match name {
                    $(stringify!($name) => &mut self.$name,)*
                    _ => return None,
                })
            }

            /// With budgets by history the unused part of a budget is kept, so it must not be charged as well.
            const fn with_history(self) -> Mechanisms {
                Mechanisms { slow_charge: false, ..self }
            }

            const fn switches(self) -> [Tunable; SWITCHES] {
                [$(tunable(stringify!($name), "bool", 0, 1, self.$name as i128, concat!("mechanism: ", $help)),)*]
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
    pub(super) raise_coeff: u32,
    /// Sectors after which an interactive raise ends; 0: no such end.
    pub(super) raise_sectors: u64,
    pub(super) async_charge: u64,
    pub(super) on: Mechanisms,
    pub(super) history: Option<History>,
}

/// History-based budgets (H+BFQ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct History {
    /// Sectors.
    pub(super) default_budget: u64,
    /// Tenants that count; 0: those active.
    pub(super) tenants: u64,
    /// Sectors after exhaustion; 0: the default budget ÷ tenants.
    pub(super) exhausted_budget: u64,
}

impl History {
    const NEW: History = History { default_budget: DEFAULT_MAX_BUDGET, tenants: 0, exhausted_budget: 0 };
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

/// The kernel's settings, then those of single mechanisms, then the switches.
const fn settings(generation: Generation, history: bool) -> [Tunable; 13 + SWITCHES] {
    let constants = Constants::of(generation);
    let max_budget = max_budget(history);
    let mechanisms = mechanisms(generation, history);
    let first = [
        tunable(
            "back_seek_max",
            "KiB",
            0,
            INT,
            16384,
            "largest distance behind the head at which a request competes by distance",
        ),
        tunable("back_seek_penalty", "factor", 1, INT, 2, "factor by which a distance backwards counts more"),
        tunable("fifo_expire_async", "ms", 0, INT, 250, "deadline of an async request, checked once per slot"),
        tunable("fifo_expire_sync", "ms", 0, INT, 125, "deadline of a sync request, checked once per slot"),
        tunable(
            "low_latency",
            "bool",
            0,
            1,
            constants.low_latency as i128,
            "raise the weight of interactive and soft real-time queues",
        ),
        tunable(
            "max_budget",
            "sectors",
            0,
            INT,
            max_budget as i128,
            "largest budget of a slot; 0: the data of one timeout_sync at the measured peak rate",
        ),
        tunable("slice_idle", "ms", 0, INT, 8, "how long the device idles for a queue; 0: never"),
        tunable("slice_idle_us", "us", 0, u32::MAX as i128, 8000, "slice_idle in microseconds"),
        tunable("strict_guarantees", "bool", 0, 1, 0, "keep one request in the device, and always idle"),
        tunable("timeout_sync", "ms", 1, INT, 124, "longest slot, in ticks of 4 ms"),
        tunable(
            "raise_coeff",
            "factor",
            1,
            1000,
            constants.raise_coeff as i128,
            "factor by which the weight of interactive queues is raised",
        ),
        tunable(
            "raise_sectors",
            "sectors",
            0,
            INT,
            constants.raise_sectors as i128,
            "service after which a raise ends; 0: by time alone",
        ),
        tunable(
            "async_charge",
            "factor",
            1,
            100,
            constants.async_charge as i128,
            "factor by which a sector of an async request counts",
        ),
    ];
    join(first, mechanisms.switches())
}

/// 0: by the peak rate.
const fn max_budget(history: bool) -> u64 {
    if history { DEFAULT_MAX_BUDGET } else { 0 }
}

const fn mechanisms(generation: Generation, history: bool) -> Mechanisms {
    let all = Mechanisms::of(generation);
    if history { all.with_history() } else { all }
}

const fn join<const A: usize, const B: usize, const C: usize>(a: [Tunable; A], b: [Tunable; B]) -> [Tunable; C] {
    let mut all = [tunable("", "", 0, 0, 0, ""); C];
    let mut i = 0;
    while i < A + B {
        all[i] = if i < A { a[i] } else { b[i - A] };
        i += 1;
    }
    all
}

const HISTORY: [Tunable; 3] = [
    tunable(
        "default_budget",
        "sectors",
        1,
        INT,
        DEFAULT_MAX_BUDGET as i128,
        "a queue's first budget, and its next one if little is left after a slot that did not exhaust it",
    ),
    tunable(
        "history_tenants",
        "tenants",
        0,
        INT,
        0,
        "divisor of the default budget for a queue that exhausts its budget; 0: number of active tenants",
    ),
    tunable(
        "exhausted_budget",
        "sectors",
        0,
        INT,
        0,
        "budget after exhaustion; 0: default_budget ÷ tenants, at least default_budget ÷ 32",
    ),
];

macro_rules! lists {
    ($($generation:ident $plain:ident $history:ident;)*) => {
        $(
            static $plain: [Tunable; 13 + SWITCHES] = settings(Generation::$generation, false);
            static $history: [Tunable; 16 + SWITCHES] = join(HISTORY, settings(Generation::$generation, true));
        )*

        /// The settings, with a generation's defaults.
        pub const fn tunables(generation: Generation, history: bool) -> &'static [Tunable] {
            match (generation, history) {
                $((Generation::$generation, false) => &$plain, (Generation::$generation, true) => &$history,)*
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
        let constants = Constants::of(generation);
        Values {
            back_seek_max: 16384,
            back_seek_penalty: 2,
            fifo_expire: [250_000_000, 125_000_000],
            low_latency: constants.low_latency,
            max_budget: max_budget(history),
            slice_idle: 8_000_000,
            strict_guarantees: false,
            timeout: (clock.per_second() / 8).max(1),
            raise_coeff: constants.raise_coeff,
            raise_sectors: constants.raise_sectors,
            async_charge: constants.async_charge,
            on: mechanisms(generation, history),
            history: history.then_some(History::NEW),
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
            "raise_coeff" => i128::from(self.raise_coeff),
            "raise_sectors" => i128::from(self.raise_sectors),
            "async_charge" => i128::from(self.async_charge),
            "default_budget" => i128::from(self.history?.default_budget),
            "history_tenants" => i128::from(self.history?.tenants),
            "exhausted_budget" => i128::from(self.history?.exhausted_budget),
            _ => i128::from(*self.on.clone().field(name)?),
        })
    }

    pub(super) fn set(&mut self, name: &str, value: i128, clock: &TickClock) {
        let number = value.clamp(0, i128::from(u64::MAX)) as u64;
        if let Some(history) = &mut self.history {
            match name {
                "default_budget" => history.default_budget = number,
                "history_tenants" => history.tenants = number,
                "exhausted_budget" => history.exhausted_budget = number,
                _ => {}
            }
        }
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
            "raise_coeff" => self.raise_coeff = number as u32,
            "raise_sectors" => self.raise_sectors = number,
            "async_charge" => self.async_charge = number,
            _ => {
                if let Some(field) = self.on.field(name) {
                    *field = number != 0;
                }
            }
        }
    }
}
