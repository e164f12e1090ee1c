//! Settings of `sjf` and `sptf`.

use dumbwaiter_block::Tunable;

use crate::settings::{settings, tunables, with_defaults};

// A stronger pull of age undoes what predictions save: with a `delta_fraction` of 64 `sptf` loses 6 % of the throughput of 32
// random reads.
settings! {
    pub(super) const SETTINGS of Settings;
    delta_fraction: "", 1, 1_000_000, 256,
        "each arrival counts as long as the mean latency divided by this: how fast waiting outweighs a prediction"
        => (delta_fraction);
    clamp: "mean latencies", 1, 10_000, 16, "longest prediction that counts" => (clamp);
    age_ms: "ms", 0, 600_000, 0,
        "an older request goes first; 0: 20 mean latencies for each request that the device may hold, at least 50 ms, on a disk 2 s"
        => (age_ms);
    fallback: "bool", 0, 1, 1, "serve in order of arrival while predictions order fewer than 55 % of pairs rightly" => (fallback);
    heads: "requests", 1, 64, 32, "requests whose position is judged at each dispatch" => (heads);
}

/// Settings of `sptf`.
pub const SPTF_TUNABLES: &[Tunable] = &tunables(&SETTINGS);

/// Settings of `sjf`, which judges no positions.
pub const TUNABLES: &[Tunable] = SPTF_TUNABLES.split_at(4).0;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settings {
    pub(super) delta_fraction: u64,
    pub(super) clamp: u64,
    pub(super) age_ms: u64,
    pub(super) fallback: bool,
    pub(super) heads: u32,
}

impl Settings {
    pub(super) fn new() -> Settings {
        with_defaults(&SETTINGS, Settings::default())
    }
}
