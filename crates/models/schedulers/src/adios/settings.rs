//! Settings of `adios`.

use dumbwaiter_block::Tunable;

use super::models::{DISCARD, Models, READ, Rules, TYPES, WRITE};
use crate::settings::{settings, tunables, with_defaults};

/// Largest base or slope that can be loaded, ns.
const MODEL_MAX: i128 = 1_000_000_000_000;

// The last five correct what the kernel's version does against its author's intentions.
settings! {
    pub(super) const SETTINGS of Settings;
    global_latency_window: "ns", 0, u64::MAX, 16_000_000,
        "predicted time of the requests in a batch and in the device; 22 ms on a disk" => (window_ns);
    bq_refill_below_ratio: "%", 0, 100, 20, "part of the window below which the next batch is filled early" => (refill_percent);
    lat_target_read: "ns", 0, u64::MAX, 2_000_000, "time until the deadline of reads; a change resets their model"
        => { |s| s.target_ns[READ].into(), |s, ns| s.set_target(READ, ns as u64) };
    lat_target_write: "ns", 0, u64::MAX, 2_000_000_000, "time until the deadline of writes that are not synchronous; a change resets their model"
        => { |s| s.target_ns[WRITE].into(), |s, ns| s.set_target(WRITE, ns as u64) };
    lat_target_discard: "ns", 0, u64::MAX, 8_000_000_000, "time until the deadline of discards; a change resets their model"
        => { |s| s.target_ns[DISCARD].into(), |s, ns| s.set_target(DISCARD, ns as u64) };
    batch_limit_read: "requests", 1, u32::MAX, 36, "reads in a batch" => (batch_limit[READ]);
    batch_limit_write: "requests", 1, u32::MAX, 72, "writes in a batch" => (batch_limit[WRITE]);
    batch_limit_discard: "requests", 1, u32::MAX, 1, "discards in a batch" => (batch_limit[DISCARD]);
    read_priority: "nice level", -20, 19, 8, "weight of reads against the rest: higher makes them cheaper" => (read_priority);
    lat_model_latency_limit: "ns", 0, 2_000_000_000, 500_000_000, "longest latency that is learned from, and longest prediction"
        => (latency_limit_ns);
    batch_order: "", 0, 1, 0, "order within a batch on a disk: 0 by type, 1 by sector" => (batch_order);
    compliance_flags: "bits", 0, 1, 0, "1: deadlines without the prediction" => (compliance_flags);
    shrink_at_kreqs: "1000 requests", 1, 100_000, 5_000, "samples after which a part is forgotten" => (shrink_kreqs);
    shrink_at_gbytes: "GiB", 1, 1_000, 50, "size of the samples after which a part is forgotten" => (shrink_gbytes);
    shrink_resist: "", 1, 3, 2, "the part forgotten: 1 a half, 2 a quarter, 3 an eighth" => (shrink_shift);
    lat_model_read_base: "ns", 0, MODEL_MAX, 0, "learned latency of a read of 4 KiB; a change loads it"
        => { |s| s.models.line(READ).base.into(), |s, ns| s.models.load(READ, ns as u64, s.models.line(READ).slope) };
    lat_model_read_slope: "ns/KiB", 0, MODEL_MAX, 0, "learned latency of each further KiB; a change loads it"
        => { |s| s.models.line(READ).slope.into(), |s, ns| s.models.load(READ, s.models.line(READ).base, ns as u64) };
    lat_model_write_base: "ns", 0, MODEL_MAX, 0, "learned latency of a write of 4 KiB; a change loads it"
        => { |s| s.models.line(WRITE).base.into(), |s, ns| s.models.load(WRITE, ns as u64, s.models.line(WRITE).slope) };
    lat_model_write_slope: "ns/KiB", 0, MODEL_MAX, 0, "learned latency of each further KiB; a change loads it"
        => { |s| s.models.line(WRITE).slope.into(), |s, ns| s.models.load(WRITE, s.models.line(WRITE).base, ns as u64) };
    lat_model_discard_base: "ns", 0, MODEL_MAX, 0, "learned latency of a discard of 4 KiB; a change loads it"
        => { |s| s.models.line(DISCARD).base.into(), |s, ns| s.models.load(DISCARD, ns as u64, s.models.line(DISCARD).slope) };
    lat_model_discard_slope: "ns/KiB", 0, MODEL_MAX, 0, "learned latency of each further KiB; a change loads it"
        => { |s| s.models.line(DISCARD).slope.into(), |s, ns| s.models.load(DISCARD, s.models.line(DISCARD).base, ns as u64) };
    head_first: "bool", 0, 1, 0, "1: at-head requests precede those that arrived while the models were unknown" => (head_first);
    separate_models: "bool", 0, 1, 0, "1: a type learns only from its own requests" => (separate_models);
    base_per_sample: "bool", 0, 1, 0, "1: the slope is free of the base" => (base_per_sample);
    predict_merged: "bool", 0, 1, 0, "1: a request that grew is predicted again" => (predict_merged);
    sort_long_lists: "bool", 0, 1, 0, "1: with batch_order=1, two requests suffice to be sorted, whatever their type" => (sort_long_lists);
}

/// Settings.
pub const TUNABLES: &[Tunable] = &tunables(&SETTINGS);

/// The settings, and the models that some of them load.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) window_ns: u64,
    pub(super) refill_percent: u64,
    /// By type; others have none.
    pub(super) target_ns: [u64; TYPES],
    pub(super) batch_limit: [u64; TYPES],
    pub(super) read_priority: i64,
    pub(super) latency_limit_ns: u64,
    pub(super) batch_order: bool,
    pub(super) compliance_flags: u64,
    pub(super) shrink_kreqs: u64,
    pub(super) shrink_gbytes: u64,
    pub(super) shrink_shift: u64,
    pub(super) head_first: bool,
    pub(super) separate_models: bool,
    pub(super) base_per_sample: bool,
    pub(super) predict_merged: bool,
    pub(super) sort_long_lists: bool,
    pub(super) models: Models,
}

impl Settings {
    pub(super) fn new(rotational: bool) -> Settings {
        let mut made = with_defaults(&SETTINGS, Settings { batch_limit: [1; TYPES], ..Settings::default() });
        made.models = Models::default();
        if rotational {
            made.window_ns = 22_000_000;
        }
        made
    }

    fn set_target(&mut self, kind: usize, ns: u64) {
        self.target_ns[kind] = ns;
        self.models.load(kind, 0, 0);
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
}
