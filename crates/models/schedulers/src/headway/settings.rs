//! Settings.

use dumbwaiter_block::{Nanos, Tunable};

/// Settings.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "slice_us",
        unit: "us",
        min: 0,
        max: 1_000_000,
        default: 100_000,
        help: "longest exclusive slice of one task on a disk; 0: no exclusive slices",
    },
    Tunable {
        name: "patience_us",
        unit: "us",
        min: 0,
        max: 100_000,
        default: 8_000,
        help: "longest idling of a disk for the next request of a task with an exclusive slice, or a tenant behind its share",
    },
    Tunable {
        name: "flash_patience_us",
        unit: "us",
        min: 0,
        max: 100_000,
        default: 500,
        help: "longest idling of flash for the next request of a tenant behind its share",
    },
    Tunable {
        name: "batch",
        unit: "requests",
        min: 1,
        max: 1024,
        default: 64,
        help: "reads or writes in a row on flash while both are queued",
    },
    Tunable {
        name: "low_latency",
        unit: "0 or 1",
        min: 0,
        max: 1,
        default: 1,
        help: "prefer fresh tasks within their tenant",
    },
    Tunable {
        name: "follow_shares",
        unit: "0 or 1",
        min: 0,
        max: 1,
        default: 1,
        help: "reduce the queue depth while a tenant is behind its share",
    },
    Tunable {
        name: "run_kib",
        unit: "KiB",
        min: 0,
        max: 1024,
        default: 0,
        help: "what a task of a tenant of mean weight may move in a row on flash; 0: turns change with each request",
    },
    Tunable {
        name: "join_kib",
        unit: "KiB",
        min: 0,
        max: 1024,
        default: 0,
        help: "neighbouring requests of a task go to flash as one of up to this size; 0: each goes alone",
    },
];

/// Values of the settings, in the order of [`TUNABLES`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    values: [u64; TUNABLES.len()],
}

impl Default for Settings {
    fn default() -> Self {
        Settings { values: std::array::from_fn(|i| TUNABLES[i].default as u64) }
    }
}

impl Settings {
    pub(super) fn get(&self, name: &str) -> Option<i128> {
        TUNABLES.iter().position(|t| t.name == name).map(|i| i128::from(self.values[i]))
    }

    pub(super) fn set(&mut self, name: &str, value: i128) {
        if let Some(i) = TUNABLES.iter().position(|t| t.name == name) {
            self.values[i] = value as u64;
        }
    }

    pub(super) fn slice(&self) -> Nanos {
        Nanos::from_us(self.values[0])
    }

    /// How long the device idles for an expected request.
    pub(super) fn patience(&self, rotational: bool) -> Nanos {
        Nanos::from_us(self.values[if rotational { 1 } else { 2 }])
    }

    pub(super) fn batch(&self) -> u64 {
        self.values[3]
    }

    pub(super) fn low_latency(&self) -> bool {
        self.values[4] != 0
    }

    pub(super) fn follow_shares(&self) -> bool {
        self.values[5] != 0
    }

    pub(super) fn run_sectors(&self) -> u64 {
        self.values[6] * 2
    }

    pub(super) fn join_sectors(&self) -> u64 {
        self.values[7] * 2
    }
}
