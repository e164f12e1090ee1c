//! Settings.

use dumbwaiter_block::{Nanos, Tunable};

use super::depth::Following;
use crate::settings::{settings, tunables, with_defaults};

settings! {
    pub(super) const SETTINGS of Settings;
    slice_us: "us", 0, 1_000_000, 100_000, "longest exclusive slice of one task on a disk; 0: no exclusive slices" => (slice_us);
    patience_us: "us", 0, 100_000, 8_000,
        "longest idling of a disk for the next request of a task with an exclusive slice, or a tenant behind its share"
        => (patience_us);
    flash_patience_us: "us", 0, 100_000, 500, "longest idling of flash for the next request of a tenant behind its share"
        => (flash_patience_us);
    batch: "requests", 1, 1024, 64, "reads or writes in a row on flash while both are queued" => (batch);
    low_latency: "0 or 1", 0, 1, 1, "prefer fresh tasks within their tenant" => (low_latency);
    follow_shares: "0 or 1", 0, 1, 1, "reduce the queue depth while a tenant is behind its share" => (follow_shares);
    give_up_percent: "%", 0, 100, 100,
        "throughput that may be given up for the share of a tenant that keeps no backlog; 100: its share, whatever that costs"
        => (give_up_percent);
    hold_us: "us", 0, 100_000, 0,
        "longest time on flash for which a tenant ahead of its share waits for one that is behind and ran empty; 0: it goes on"
        => (hold_us);
    run_kib: "KiB", 0, 1024, 0,
        "what a task of a tenant of mean weight may move in a row on flash; 0: turns change with each request" => (run_kib);
    join_kib: "KiB", 0, 1024, 0,
        "neighbouring requests of a task go to flash as one of up to this size; 0: each goes alone" => (join_kib);
}

/// Settings.
pub const TUNABLES: &[Tunable] = &tunables(&SETTINGS);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settings {
    slice_us: u64,
    patience_us: u64,
    flash_patience_us: u64,
    pub(super) batch: u64,
    pub(super) low_latency: bool,
    pub(super) follow_shares: bool,
    pub(super) give_up_percent: u64,
    hold_us: u64,
    run_kib: u64,
    join_kib: u64,
}

impl Settings {
    pub(super) fn new() -> Settings {
        with_defaults(&SETTINGS, Settings::default())
    }

    pub(super) fn slice(&self) -> Nanos {
        Nanos::from_us(self.slice_us)
    }

    /// How long the device idles for an expected request.
    pub(super) fn patience(&self, rotational: bool) -> Nanos {
        Nanos::from_us(if rotational { self.patience_us } else { self.flash_patience_us })
    }

    /// Is any throughput given up for a share?
    pub(super) fn gives_up_all(&self) -> bool {
        self.give_up_percent == 100
    }

    pub(super) fn following(&self) -> Following {
        Following { shares: self.follow_shares, give_up_percent: self.give_up_percent }
    }

    /// How long a tenant that is ahead waits for one that ran empty.
    pub(super) fn hold(&self) -> Nanos {
        Nanos::from_us(self.hold_us)
    }

    pub(super) fn run_sectors(&self) -> u64 {
        self.run_kib * 2
    }

    pub(super) fn join_sectors(&self) -> u64 {
        self.join_kib * 2
    }
}
