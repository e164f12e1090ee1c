//! The settings of the kernel's schedulers that the pilot may change, with their ranges.

/// A setting of a scheduler for which the pilot may try other values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovableTunable {
    /// The scheduler.
    pub scheduler: &'static str,
    /// The setting, a file in `queue/iosched`.
    pub name: &'static str,
    /// Values to try beside the kernel's default.
    pub values: &'static [i64],
    /// The widest bounds that a configuration may give.
    pub bounds: (i64, i64),
    /// The effect of the setting.
    pub why: &'static str,
}

impl MovableTunable {
    /// Its name in a configuration: `mq-deadline/fifo_batch`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.scheduler, self.name)
    }
}

/// All of them. Settings that change the kernel's use of memory or a driver's tags (`nr_requests`) are left alone.
pub const MOVABLE_TUNABLES: [MovableTunable; 3] = [
    MovableTunable {
        scheduler: "mq-deadline",
        name: "fifo_batch",
        values: &[4, 64],
        bounds: (1, 128),
        why: "short batches bound the wait of the other direction, long ones save seeks",
    },
    MovableTunable {
        scheduler: "kyber",
        name: "read_lat_nsec",
        values: &[1_000_000, 8_000_000],
        bounds: (100_000, 100_000_000),
        why: "a lower target throttles writes earlier",
    },
    MovableTunable {
        scheduler: "bfq",
        name: "low_latency",
        values: &[0],
        bounds: (0, 1),
        why: "without boosts of interactive tasks throughput is higher",
    },
];
