//! Settings of `adaptive`: a row each.

use dumbwaiter_block::{ControlSetting, Nanos, Scope, Tunable};

use crate::switching::Settings;

/// A setting that is a number.
struct Row {
    tunable: Tunable,
    get: fn(&Settings) -> i128,
    set: fn(&mut Settings, i128),
}

const fn row(tunable: Tunable, get: fn(&Settings) -> i128, set: fn(&mut Settings, i128)) -> Row {
    Row { tunable, get, set }
}

fn ms(time: Nanos) -> i128 {
    i128::from(time.0 / 1_000_000)
}

fn time(ms: i128) -> Nanos {
    Nanos::from_ms(ms as u64)
}

const ROWS: [Row; 9] = [
    row(
        Tunable {
            name: "period_ms",
            unit: "ms",
            min: 10,
            max: 60_000,
            default: 100,
            help: "time between two looks at the load",
        },
        |s| ms(s.period),
        |s, v| s.period = time(v),
    ),
    row(
        Tunable {
            name: "confirm",
            unit: "looks",
            min: 1,
            max: 100,
            default: 2,
            help: "looks in a row that must see the same workload; two more for one that was never seen",
        },
        |s| s.confirm.into(),
        |s, v| s.confirm = v as u32,
    ),
    row(
        Tunable {
            name: "dwell_ms",
            unit: "ms",
            min: 0,
            max: 600_000,
            default: 1000,
            help: "least time between two exchanges of the scheduler, trials apart",
        },
        |s| ms(s.dwell),
        |s, v| s.dwell = time(v),
    ),
    row(
        Tunable {
            name: "hysteresis",
            unit: "thousandths",
            min: 0,
            max: 1000,
            default: 20,
            help: "least advantage for which the scheduler is exchanged",
        },
        |s| s.hysteresis.into(),
        |s, v| s.hysteresis = v as u32,
    ),
    row(
        Tunable {
            name: "confidence",
            unit: "thousandths",
            min: 0,
            max: 1000,
            default: 600,
            help: "least confidence of the model for which its table is used",
        },
        |s| s.confidence.into(),
        |s, v| s.confidence = v as u32,
    ),
    row(
        Tunable {
            name: "switches_per_hour",
            unit: "exchanges",
            min: 0,
            max: 1_000_000,
            default: 720,
            help: "most exchanges in an hour, trials apart",
        },
        |s| s.switches_per_hour.into(),
        |s, v| s.switches_per_hour = v as u32,
    ),
    row(
        Tunable {
            name: "slot_ms",
            unit: "ms",
            min: 100,
            max: 60_000,
            default: 10_000,
            help: "longest slot of a trial",
        },
        |s| ms(s.slot),
        |s, v| s.slot = time(v),
    ),
    row(
        Tunable {
            name: "regret",
            unit: "thousandths",
            min: 0,
            max: 1000,
            default: 5,
            help: "share of the time with load that trials may cost",
        },
        |s| s.regret.into(),
        |s, v| s.regret = v as u32,
    ),
    row(
        Tunable {
            name: "allowance_ms",
            unit: "ms",
            min: 0,
            max: 600_000,
            default: 500,
            help: "time that the trials of each workload may cost beyond that share",
        },
        |s| ms(s.allowance),
        |s, v| s.allowance = time(v),
    ),
];

/// The settings, for those who list them.
pub const TUNABLES: &[Tunable] = &{
    let mut found = [ROWS[0].tunable; ROWS.len()];
    let mut i = 0;
    while i < ROWS.len() {
        found[i] = ROWS[i].tunable;
        i += 1;
    }
    found
};

/// The same as settings of a controller: all are the device's.
pub(crate) const SETTINGS: &[ControlSetting] = &{
    let mut found = [ControlSetting { of: Scope::Device, tunable: ROWS[0].tunable }; ROWS.len()];
    let mut i = 0;
    while i < ROWS.len() {
        found[i].tunable = ROWS[i].tunable;
        i += 1;
    }
    found
};

/// The value of a setting.
pub(crate) fn get(settings: &Settings, name: &str) -> Option<i128> {
    ROWS.iter().find(|row| row.tunable.name == name).map(|row| (row.get)(settings))
}

/// Stores a value, which is in range.
pub(crate) fn set(settings: &mut Settings, name: &str, value: i128) {
    if let Some(row) = ROWS.iter().find(|row| row.tunable.name == name) {
        (row.set)(settings, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_of_the_list_are_those_of_the_policy() {
        for tunable in TUNABLES {
            assert_eq!(get(&Settings::default(), tunable.name), Some(tunable.default), "{}", tunable.name);
        }
    }
}
