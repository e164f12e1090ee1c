//! Settings of `adios`.

use dumbwaiter_block::Tunable;

use super::models::Rules;

const fn ns(name: &'static str, default: i128, help: &'static str) -> Tunable {
    Tunable { name, unit: "ns", min: 0, max: u64::MAX as i128, default, help }
}

const fn number(
    name: &'static str,
    unit: &'static str,
    range: (i128, i128),
    default: i128,
    help: &'static str,
) -> Tunable {
    Tunable { name, unit, min: range.0, max: range.1, default, help }
}

const fn switch(name: &'static str, help: &'static str) -> Tunable {
    Tunable { name, unit: "bool", min: 0, max: 1, default: 0, help }
}

/// Largest base or slope that can be loaded, ns.
const MODEL_MAX: i128 = 1_000_000_000_000;

/// Settings. The last five correct what the kernel's version does against its author's intentions.
pub const TUNABLES: &[Tunable] = &[
    ns(
        "global_latency_window",
        16_000_000,
        "predicted time of the requests in a batch and in the device; 22 ms on a disk",
    ),
    number("bq_refill_below_ratio", "%", (0, 100), 20, "part of the window below which the next batch is filled early"),
    ns("lat_target_read", 2_000_000, "time until the deadline of reads; a change resets their model"),
    ns(
        "lat_target_write",
        2_000_000_000,
        "time until the deadline of writes that are not synchronous; a change resets their model",
    ),
    ns("lat_target_discard", 8_000_000_000, "time until the deadline of discards; a change resets their model"),
    number("batch_limit_read", "requests", (1, u32::MAX as i128), 36, "reads in a batch"),
    number("batch_limit_write", "requests", (1, u32::MAX as i128), 72, "writes in a batch"),
    number("batch_limit_discard", "requests", (1, u32::MAX as i128), 1, "discards in a batch"),
    number("read_priority", "nice level", (-20, 19), 8, "weight of reads against the rest: higher makes them cheaper"),
    number(
        "lat_model_latency_limit",
        "ns",
        (0, 2_000_000_000),
        500_000_000,
        "longest latency that is learned from, and longest prediction",
    ),
    number("batch_order", "", (0, 1), 0, "order within a batch on a disk: 0 by type, 1 by sector"),
    number("compliance_flags", "bits", (0, 1), 0, "1: deadlines without the prediction"),
    number("shrink_at_kreqs", "1000 requests", (1, 100_000), 5_000, "samples after which a part is forgotten"),
    number("shrink_at_gbytes", "GiB", (1, 1_000), 50, "size of the samples after which a part is forgotten"),
    number("shrink_resist", "", (1, 3), 2, "the part forgotten: 1 a half, 2 a quarter, 3 an eighth"),
    number("lat_model_read_base", "ns", (0, MODEL_MAX), 0, "learned latency of a read of 4 KiB; a change loads it"),
    number(
        "lat_model_read_slope",
        "ns/KiB",
        (0, MODEL_MAX),
        0,
        "learned latency of each further KiB; a change loads it",
    ),
    number("lat_model_write_base", "ns", (0, MODEL_MAX), 0, "learned latency of a write of 4 KiB; a change loads it"),
    number(
        "lat_model_write_slope",
        "ns/KiB",
        (0, MODEL_MAX),
        0,
        "learned latency of each further KiB; a change loads it",
    ),
    number(
        "lat_model_discard_base",
        "ns",
        (0, MODEL_MAX),
        0,
        "learned latency of a discard of 4 KiB; a change loads it",
    ),
    number(
        "lat_model_discard_slope",
        "ns/KiB",
        (0, MODEL_MAX),
        0,
        "learned latency of each further KiB; a change loads it",
    ),
    switch("head_first", "1: at-head requests precede those that arrived while the models were unknown"),
    switch("separate_models", "1: a type learns only from its own requests"),
    switch("base_per_sample", "1: the slope is free of the base"),
    switch("predict_merged", "1: a request that grew is predicted again"),
    switch("sort_long_lists", "1: with batch_order=1, two requests suffice to be sorted, whatever their type"),
];

/// First of the settings of the models: base and slope of reads, writes, discards.
pub(super) const MODELS: usize = 15;

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub window_ns: u64,
    pub refill_percent: u64,
    /// By type; others have none.
    pub target_ns: [u64; 4],
    pub batch_limit: [u64; 4],
    pub read_priority: i64,
    pub latency_limit_ns: u64,
    pub batch_order: bool,
    pub compliance_flags: u64,
    pub shrink_kreqs: u64,
    pub shrink_gbytes: u64,
    pub shrink_shift: u64,
    pub head_first: bool,
    pub separate_models: bool,
    pub base_per_sample: bool,
    pub predict_merged: bool,
    pub sort_long_lists: bool,
}

impl Settings {
    pub(super) fn new(rotational: bool) -> Settings {
        Settings {
            window_ns: if rotational { 22_000_000 } else { 16_000_000 },
            refill_percent: 20,
            target_ns: [2_000_000, 2_000_000_000, 8_000_000_000, 0],
            batch_limit: [36, 72, 1, 1],
            read_priority: 8,
            latency_limit_ns: 500_000_000,
            batch_order: false,
            compliance_flags: 0,
            shrink_kreqs: 5_000,
            shrink_gbytes: 50,
            shrink_shift: 2,
            head_first: false,
            separate_models: false,
            base_per_sample: false,
            predict_merged: false,
            sort_long_lists: false,
        }
    }

    pub(super) fn rules(&self, interval_ticks: i64) -> Rules {
        Rules {
            interval_ticks,
            separate: self.separate_models,
            base_per_sample: self.base_per_sample,
            shrink_samples: 1000 * self.shrink_kreqs,
            shrink_bytes: self.shrink_gbytes << 30,
            shrink_shift: self.shrink_shift as u32,
        }
    }

    /// The value of the setting at this place of [`TUNABLES`]; those of the models are not here.
    pub(super) fn get(&self, index: usize) -> Option<i128> {
        Some(i128::from(match index {
            0 => self.window_ns,
            1 => self.refill_percent,
            2..=4 => self.target_ns[index - 2],
            5..=7 => self.batch_limit[index - 5],
            8 => return Some(self.read_priority.into()),
            9 => self.latency_limit_ns,
            10 => self.batch_order.into(),
            11 => self.compliance_flags,
            12 => self.shrink_kreqs,
            13 => self.shrink_gbytes,
            14 => self.shrink_shift,
            21 => self.head_first.into(),
            22 => self.separate_models.into(),
            23 => self.base_per_sample.into(),
            24 => self.predict_merged.into(),
            25 => self.sort_long_lists.into(),
            _ => return None,
        }))
    }

    pub(super) fn set(&mut self, index: usize, value: i128) {
        let natural = value as u64;
        match index {
            0 => self.window_ns = natural,
            1 => self.refill_percent = natural,
            2..=4 => self.target_ns[index - 2] = natural,
            5..=7 => self.batch_limit[index - 5] = natural,
            8 => self.read_priority = value as i64,
            9 => self.latency_limit_ns = natural,
            10 => self.batch_order = value != 0,
            11 => self.compliance_flags = natural,
            12 => self.shrink_kreqs = natural,
            13 => self.shrink_gbytes = natural,
            14 => self.shrink_shift = natural,
            21 => self.head_first = value != 0,
            22 => self.separate_models = value != 0,
            23 => self.base_per_sample = value != 0,
            24 => self.predict_merged = value != 0,
            25 => self.sort_long_lists = value != 0,
            _ => {}
        }
    }
}
