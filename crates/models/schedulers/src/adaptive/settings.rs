//! Settings of `adaptive`.

use dumbwaiter_block::{Nanos, Tunable};
use dumbwaiter_controllers::switching::Settings;

/// Settings that are numbers.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "period_ms",
        unit: "ms",
        min: 10,
        max: 60_000,
        default: 100,
        help: "time between two looks at the load",
    },
    Tunable {
        name: "confirm",
        unit: "looks",
        min: 1,
        max: 100,
        default: 2,
        help: "looks in a row that must see the same workload; two more for one that was never seen",
    },
    Tunable {
        name: "dwell_ms",
        unit: "ms",
        min: 0,
        max: 600_000,
        default: 1000,
        help: "least time between two exchanges of the scheduler, trials apart",
    },
    Tunable {
        name: "hysteresis",
        unit: "thousandths",
        min: 0,
        max: 1000,
        default: 20,
        help: "least advantage for which the scheduler is exchanged",
    },
    Tunable {
        name: "confidence",
        unit: "thousandths",
        min: 0,
        max: 1000,
        default: 600,
        help: "least confidence of the model for which its table is used",
    },
    Tunable {
        name: "switches_per_hour",
        unit: "exchanges",
        min: 0,
        max: 1_000_000,
        default: 720,
        help: "most exchanges in an hour, trials apart",
    },
    Tunable { name: "slot_ms", unit: "ms", min: 100, max: 60_000, default: 10_000, help: "longest slot of a trial" },
    Tunable {
        name: "regret",
        unit: "thousandths",
        min: 0,
        max: 1000,
        default: 5,
        help: "share of the time with load that trials may cost",
    },
    Tunable {
        name: "allowance_ms",
        unit: "ms",
        min: 0,
        max: 600_000,
        default: 500,
        help: "time that the trials of each workload may cost beyond that share",
    },
];

/// The value of a setting.
pub(super) fn get(settings: &Settings, name: &str) -> Option<i128> {
    let ms = |time: Nanos| i128::from(time.0 / 1_000_000);
    Some(match name {
        "period_ms" => ms(settings.period),
        "confirm" => settings.confirm.into(),
        "dwell_ms" => ms(settings.dwell),
        "hysteresis" => settings.hysteresis.into(),
        "confidence" => settings.confidence.into(),
        "switches_per_hour" => settings.switches_per_hour.into(),
        "slot_ms" => ms(settings.slot),
        "regret" => settings.regret.into(),
        "allowance_ms" => ms(settings.allowance),
        _ => return None,
    })
}

/// Stores a value, which is in range.
pub(super) fn set(settings: &mut Settings, name: &str, value: i128) {
    let (number, time) = (value as u32, Nanos::from_ms(value as u64));
    match name {
        "period_ms" => settings.period = time,
        "confirm" => settings.confirm = number,
        "dwell_ms" => settings.dwell = time,
        "hysteresis" => settings.hysteresis = number,
        "confidence" => settings.confidence = number,
        "switches_per_hour" => settings.switches_per_hour = number,
        "slot_ms" => settings.slot = time,
        "regret" => settings.regret = number,
        "allowance_ms" => settings.allowance = time,
        _ => {}
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
