//! Which settings a search for better ones tries, and with which values.
//!
//! These are the settings that each manual names as the ones that matter. Switches of single mechanisms, limits that only protect
//! against misuse and second names of the same setting are not searched.

/// A setting that is worth a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Searched {
    /// The name of the tunable.
    pub name: &'static str,
    /// Values to try beside the default, in the tunable's unit, ascending.
    pub values: &'static [i128],
}

const fn of(name: &'static str, values: &'static [i128]) -> Searched {
    Searched { name, values }
}

const MQ_DEADLINE: &[Searched] = &[
    of("read_expire", &[20, 50, 100, 200, 1000, 2000]),
    of("write_expire", &[200, 1000, 2000, 20_000]),
    of("fifo_batch", &[1, 2, 4, 8, 32, 64]),
    of("writes_starved", &[1, 4, 8, 16]),
    of("async_depth", &[8, 16, 32, 48]),
];

const DEADLINE: &[Searched] = MQ_DEADLINE.split_at(4).0;

const KYBER: &[Searched] = &[
    of(
        "read_lat_nsec",
        &[100_000, 250_000, 500_000, 1_000_000, 4_000_000, 8_000_000, 20_000_000, 50_000_000, 100_000_000, 250_000_000],
    ),
    of(
        "write_lat_nsec",
        &[500_000, 1_000_000, 2_500_000, 5_000_000, 20_000_000, 50_000_000, 100_000_000, 500_000_000, 1_000_000_000],
    ),
];

const CFQ: &[Searched] = &[
    of("slice_idle", &[0, 1, 2, 4, 8, 12]),
    of("group_idle", &[0, 2, 4, 16]),
    of("quantum", &[1, 4, 16, 32]),
    of("slice_sync", &[20, 50, 200, 400]),
    of("slice_async", &[10, 20, 80]),
    of("fifo_expire_async", &[60, 500, 1000]),
    of("target_latency", &[75, 150, 600]),
    of("low_latency", &[0]),
];

const BFQ: &[Searched] = &[
    of("slice_idle", &[0, 1, 2, 4, 12, 16]),
    of("low_latency", &[0]),
    of("timeout_sync", &[16, 40, 80, 250]),
    of("max_budget", &[256, 1024, 4096, 32_768]),
    of("fifo_expire_sync", &[20, 60, 250, 500]),
    of("fifo_expire_async", &[60, 500, 1000]),
    of("back_seek_max", &[0, 131_072]),
    of("strict_guarantees", &[1]),
];

const HEADWAY: &[Searched] = &[
    of("slice_us", &[0, 25_000, 50_000, 200_000, 400_000]),
    of("patience_us", &[0, 2000, 4000, 16_000]),
    of("flash_patience_us", &[0, 100, 250, 1000, 2000]),
    of("batch", &[1, 8, 16, 32, 128, 256]),
    of("low_latency", &[0]),
    of("follow_shares", &[0]),
];

const SJF: &[Searched] =
    &[of("delta_fraction", &[16, 64, 1024, 4096]), of("clamp", &[4, 8, 32, 64]), of("age_ms", &[20, 100, 500, 2000])];

const ADIOS: &[Searched] = &[
    of("global_latency_window", &[1_000_000, 4_000_000, 8_000_000, 32_000_000, 64_000_000]),
    of("bq_refill_below_ratio", &[0, 10, 40, 80]),
    of("lat_target_read", &[200_000, 1_000_000, 10_000_000, 50_000_000]),
    of("lat_target_write", &[10_000_000, 100_000_000, 500_000_000]),
    of("batch_limit_read", &[8, 16, 72, 128]),
    of("batch_limit_write", &[8, 24, 128]),
    of("read_priority", &[0, 4, 12, 16]),
    of("batch_order", &[1]),
];

const ANTICIPATORY: &[Searched] = &[of("antic_expire", &[0, 2, 4, 12, 20]), of("depth", &[2, 4, 8, 16])];

const MQFQ: &[Searched] = &[of("threshold_kib", &[64, 256, 512, 2048, 8192])];

/// The searched settings by scheduler. One that is not listed has none.
const SEARCHED: &[(&str, &[Searched])] = &[
    ("mq-deadline", MQ_DEADLINE),
    ("deadline", DEADLINE),
    ("kyber", KYBER),
    ("cfq", CFQ),
    ("a-cfq", CFQ),
    ("bfq", BFQ),
    ("adios", ADIOS),
    ("anticipatory", ANTICIPATORY),
    ("mqfq", MQFQ),
    ("h-bfq", BFQ.split_at(7).0),
    ("headway", HEADWAY),
    ("sjf", SJF),
    ("sptf", SJF),
];

pub(super) fn searched(scheduler: &str) -> &'static [Searched] {
    SEARCHED.iter().find(|(name, _)| *name == scheduler).map_or(&[], |(_, settings)| settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Choice, REGISTRY, find};

    #[test]
    fn every_searched_setting_is_a_tunable_that_takes_its_values() {
        for (name, settings) in SEARCHED {
            assert!(find(name).is_some(), "{name} is not in the registry");
            for setting in *settings {
                for value in setting.values {
                    let text = format!("{name}:{}={value}", setting.name);
                    assert!(Choice::parse(&text).is_ok(), "{text}: {:?}", Choice::parse(&text).err());
                }
                assert!(setting.values.windows(2).all(|pair| pair[0] < pair[1]), "{name}: {}", setting.name);
            }
        }
    }

    #[test]
    fn no_searched_value_is_the_default() {
        for entry in REGISTRY {
            for setting in entry.searched() {
                // cfq idles on disks and not on flash.
                if entry.name.ends_with("cfq") && setting.name == "slice_idle" {
                    continue;
                }
                let tunable = entry.tunables.iter().find(|t| t.name == setting.name);
                let default = tunable.map(|t| t.default);
                assert!(default.is_some_and(|d| !setting.values.contains(&d)), "{}: {}", entry.name, setting.name);
            }
        }
    }
}
