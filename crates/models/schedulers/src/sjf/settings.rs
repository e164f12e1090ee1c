//! Settings of `sjf` and `sptf`.

use dumbwaiter_block::Tunable;

/// A stronger pull of age undoes what predictions save: 64 costs `sptf` 6 % of the throughput of 32 random reads.
const DELTA: Tunable = Tunable {
    name: "delta_fraction",
    unit: "",
    min: 1,
    max: 1_000_000,
    default: 256,
    help: "each arrival counts as long as the mean latency divided by this: how fast waiting outweighs a prediction",
};
const CLAMP: Tunable = Tunable {
    name: "clamp",
    unit: "mean latencies",
    min: 1,
    max: 10_000,
    default: 16,
    help: "longest prediction that counts",
};
const AGE: Tunable = Tunable {
    name: "age_ms",
    unit: "ms",
    min: 0,
    max: 600_000,
    default: 0,
    help: "an older request goes first; 0: 20 mean latencies for each request that the device may hold, at least 50 ms, on a disk 2 s",
};
const FALLBACK: Tunable = Tunable {
    name: "fallback",
    unit: "bool",
    min: 0,
    max: 1,
    default: 1,
    help: "serve in order of arrival while predictions order fewer than 55 % of pairs rightly",
};

/// Settings of `sjf`.
pub const TUNABLES: &[Tunable] = &[DELTA, CLAMP, AGE, FALLBACK];

/// Settings of `sptf`.
pub const SPTF_TUNABLES: &[Tunable] = &[
    DELTA,
    CLAMP,
    AGE,
    FALLBACK,
    Tunable {
        name: "heads",
        unit: "requests",
        min: 1,
        max: 64,
        default: 32,
        help: "requests whose position is judged at each dispatch",
    },
];
