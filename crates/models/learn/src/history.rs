//! The last completed requests of a device, and the running latency of its regions.

use dumbwaiter_block::{Nanos, Op};

use crate::features::{HISTORY, VECTOR, ln_us, signed_log2};
use crate::{FeatureSet, RequestRecord, RequestVector};

/// Smallest standard deviation of ln latency by which latencies are normalised.
const LEAST_DEVIATION: f32 = 0.1;

/// The last 16 completed reads and writes of a device, in order of completion.
///
/// A latency is added when its request completes, so that inputs never use the future. Constant time per
/// completion, without allocation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Each entry twice, 16 apart, so that the last 16 are always consecutive.
    vectors: [[f32; VECTOR]; 2 * HISTORY],
    /// Each vector with its ln latency over 10: the inputs of position-aware models as they lie in memory.
    timed: [[f32; VECTOR + 1]; 2 * HISTORY],
    ln_latency: [f32; 2 * HISTORY],
    delta: [f32; 2 * HISTORY],
    /// Index of the oldest entry, and of its next replacement.
    oldest: usize,
    completions: u64,
    mean: f32,
    deviation: f32,
}

impl History {
    /// Nothing completed yet.
    pub fn new() -> History {
        History::default()
    }

    /// A request completed. `delta`: sectors from the start of the request issued before it to its own; 0 for the first.
    pub fn push(&mut self, request: RequestVector, delta: i64, latency: Nanos) {
        let at = self.oldest;
        let ln = ln_us(latency);
        let [op, size, meta, journal, folder, class] = request.0;
        for copy in [at, at + HISTORY] {
            self.vectors[copy] = request.0;
            self.timed[copy] = [op, size, meta, journal, folder, class, ln / 10.0];
            self.ln_latency[copy] = ln;
            self.delta[copy] = signed_log2(delta);
        }
        self.oldest = (at + 1) % HISTORY;
        self.completions += 1;
        let latencies = self.ln_latencies();
        let mean = latencies.iter().sum::<f32>() / HISTORY as f32;
        let variance = latencies.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / HISTORY as f32;
        (self.mean, self.deviation) = (mean, variance.sqrt().max(LEAST_DEVIATION));
    }

    /// As [`History::push`], for a record; `false` and no change for records that models do not learn from.
    pub fn push_record(&mut self, record: &RequestRecord, delta: i64) -> bool {
        let learnable = record.is_learnable();
        if learnable {
            self.push(RequestVector::of(record), delta, record.latency());
        }
        learnable
    }

    /// Clears the history: after lost events, or between the segments of a trace.
    pub fn clear(&mut self) {
        *self = History::default();
    }

    /// Whether it has fewer than 16 completions.
    pub fn is_cold(&self) -> bool {
        self.completions < HISTORY as u64
    }

    /// Mean and standard deviation (at least 0.1) of ln latency in microseconds over the last 16; `None` while cold.
    pub fn normal(&self) -> Option<(f32, f32)> {
        (!self.is_cold()).then_some((self.mean, self.deviation))
    }

    /// ln latency in microseconds of the last 16, oldest first.
    pub(crate) fn ln_latencies(&self) -> &[f32] {
        &self.ln_latency[self.oldest..][..HISTORY]
    }

    /// The request vectors of the last 16, oldest first.
    pub(crate) fn vectors(&self) -> &[[f32; VECTOR]] {
        &self.vectors[self.oldest..][..HISTORY]
    }

    /// The same, each with its ln latency over 10.
    pub(crate) fn timed_vectors(&self) -> &[[f32; VECTOR + 1]] {
        &self.timed[self.oldest..][..HISTORY]
    }

    /// Writes the classifier's inputs and returns their number; `None` while cold.
    pub fn window(&self, set: FeatureSet, row: &mut [f32]) -> Option<usize> {
        if self.is_cold() || row.len() < set.inputs() {
            return None;
        }
        let with_latency = set == FeatureSet::WindowWithLatency;
        let mut at = 0;
        for i in self.oldest..self.oldest + HISTORY {
            row[at..at + VECTOR].copy_from_slice(&self.vectors[i]);
            at += VECTOR;
            if with_latency {
                row[at] = self.ln_latency[i] / 10.0;
                at += 1;
            }
            row[at] = self.delta[i];
            at += 1;
        }
        Some(at)
    }
}

/// LBA deltas in order of issue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IssueOrder {
    last: Option<(u64, u64)>,
}

impl IssueOrder {
    /// Sectors from the start of the last issued request to `sector`; 0 before the first.
    pub fn delta(&self, sector: u64) -> i64 {
        self.last.map_or(0, |(start, _)| difference(sector, start))
    }

    /// Sectors from the end of the last issued request to `sector`; 0 before the first.
    pub fn gap(&self, sector: u64) -> i64 {
        self.last.map_or(0, |(_, end)| difference(sector, end))
    }

    /// A read or write of these sectors was issued.
    pub fn issued(&mut self, sector: u64, end: u64) {
        self.last = Some((sector, end));
    }
}

/// `a - b`, at the ends of the range if it does not fit.
fn difference(a: u64, b: u64) -> i64 {
    let size = i64::try_from(a.abs_diff(b)).unwrap_or(i64::MAX);
    if a < b { -size } else { size }
}

/// Running mean of ln latency in 64 equal regions of a device, for reads and writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Regions {
    device_sectors: u64,
    regions: [[f32; 2]; Regions::COUNT],
    device: f32,
}

impl Regions {
    /// Regions of a device.
    pub const COUNT: usize = 64;
    /// Share of a new latency in a running mean.
    const SHARE: f32 = 1.0 / 32.0;

    /// Regions of a device of this many sectors.
    pub fn new(device_sectors: u64) -> Regions {
        Regions { device_sectors: device_sectors.max(1), regions: [[f32::NAN; 2]; Regions::COUNT], device: f32::NAN }
    }

    /// First sector as a share of the device, 0 to 1.
    pub fn position(&self, sector: u64) -> f32 {
        (sector as f32 / self.device_sectors as f32).min(1.0)
    }

    /// ln of the region's latency over the device's; 0 while either is unknown.
    pub fn relative(&self, op: Op, sector: u64) -> f32 {
        let own = self.regions[self.index(sector)][usize::from(op == Op::Write)];
        if own.is_nan() { 0.0 } else { own - self.device }
    }

    /// A request completed.
    pub fn push(&mut self, op: Op, sector: u64, latency: Nanos) {
        let ln = ln_us(latency);
        let index = self.index(sector);
        for mean in [&mut self.regions[index][usize::from(op == Op::Write)], &mut self.device] {
            *mean = if mean.is_nan() { ln } else { *mean + Regions::SHARE * (ln - *mean) };
        }
    }

    fn index(&self, sector: u64) -> usize {
        let index = u128::from(sector) * Regions::COUNT as u128 / u128::from(self.device_sectors);
        (index as usize).min(Regions::COUNT - 1)
    }
}
