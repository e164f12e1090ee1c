//! Latency models: for each type of request a line, base + slope · size, learned from completions.

/// Types of requests: reads, writes, discards, others.
pub(super) const TYPES: usize = 4;
pub(super) const READ: usize = 0;
pub(super) const WRITE: usize = 1;
pub(super) const DISCARD: usize = 2;
pub(super) const OTHER: usize = 3;
/// Requests up to this size teach the base, larger ones the slope.
const SMALL_BYTES: u64 = 4096;
const KIB: u64 = 1024;
const BUCKETS: usize = 64;
/// Samples that are evaluated at once, before the interval is over.
const EVALUATED_SAMPLES: u64 = 1024;
/// Share of the samples that count, %: the slowest are left out.
const COUNTED_PERCENT: u64 = 99;

/// How models are updated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Ticks between two evaluations of few samples.
    pub interval_ticks: i64,
    /// Each type learns only from its own samples.
    pub separate: bool,
    /// The base is subtracted once for each sample.
    pub base_per_sample: bool,
    /// Samples after which a part is forgotten.
    pub shrink_samples: u64,
    /// Bytes after which a part is forgotten.
    pub shrink_bytes: u64,
    /// The part forgotten is 1 / 2^this.
    pub shrink_shift: u32,
}

/// Samples of like latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub weight: u64,
    pub latency_ns: u64,
    pub bytes: u64,
}

/// Samples by their latency beside the expected one.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    buckets: [Sum; BUCKETS],
    weight: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: [Sum::default(); BUCKETS], weight: 0 }
    }
}

impl Histogram {
    fn add(&mut self, bucket: usize, weight: u64, latency_ns: u64, bytes: u64) {
        let sum = &mut self.buckets[bucket];
        sum.weight += weight;
        sum.latency_ns = sum.latency_ns.saturating_add(latency_ns.saturating_mul(weight));
        sum.bytes = sum.bytes.saturating_add(bytes.saturating_mul(weight));
        self.weight += weight;
    }

    fn take_over(&mut self, other: &mut Histogram) {
        if other.weight == 0 {
            return;
        }
        for (sum, more) in self.buckets.iter_mut().zip(&other.buckets) {
            sum.weight += more.weight;
            sum.latency_ns = sum.latency_ns.saturating_add(more.latency_ns);
            sum.bytes = sum.bytes.saturating_add(more.bytes);
        }
        self.weight += other.weight;
        *other = Histogram::default();
    }

    /// The fastest `percent` of the samples.
    pub(super) fn fastest(&self, percent: u64) -> Sum {
        let mut missing = self.weight * percent / 100;
        let mut kept = Sum::default();
        for sum in self.buckets.iter().filter(|sum| sum.weight > 0) {
            if missing == 0 {
                break;
            }
            let taken = sum.weight.min(missing);
            kept.weight += taken;
            kept.latency_ns = kept.latency_ns.saturating_add(part(sum.latency_ns, taken, sum.weight));
            kept.bytes = kept.bytes.saturating_add(part(sum.bytes, taken, sum.weight));
            missing -= taken;
        }
        kept
    }
}

/// `value` · `taken` / `whole`, with `taken` at most `whole`.
fn part(value: u64, taken: u64, whole: u64) -> u64 {
    (u128::from(value) * u128::from(taken) / u128::from(whole)) as u64
}

/// The bucket of a measured latency beside the expected one. It is not monotone: it jumps back at five times the expected.
pub(super) fn bucket_of(measured_ns: u64, expected_ns: u64) -> usize {
    let expected = u128::from(expected_ns.max(1));
    let measured = u128::from(measured_ns);
    let bucket = if measured < 2 * expected {
        20 * measured / expected
    } else if measured < 5 * expected {
        10 * measured / expected + 20
    } else {
        3 * measured / expected + 40
    };
    bucket.min(BUCKETS as u128 - 1) as usize
}

/// The model of one type: means over all samples since it was loaded or reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Latency of up to 4 KiB, ns; 0: unknown.
    pub base: u64,
    /// More for each further KiB, ns.
    pub slope: u64,
    pub small_samples: u64,
    pub small_ns: u64,
    pub large_bytes: u64,
    pub large_ns: u64,
    /// Tick of the last evaluation.
    pub evaluated: i64,
}

impl Line {
    fn predict(&self, bytes: u64) -> u64 {
        let more = bytes.saturating_sub(SMALL_BYTES).div_ceil(KIB);
        self.base.saturating_add(self.slope.saturating_mul(more))
    }

    fn learn_base(&mut self, small: Sum, rules: &Rules) -> bool {
        if self.small_samples >= rules.shrink_samples {
            self.small_ns -= self.small_ns >> rules.shrink_shift;
            self.small_samples -= self.small_samples >> rules.shrink_shift;
        }
        self.small_ns = self.small_ns.saturating_add(small.latency_ns);
        self.small_samples += small.weight;
        small.weight > 0
    }

    fn learn_slope(&mut self, large: Sum, rules: &Rules) -> bool {
        if large.weight == 0 {
            return false;
        }
        if self.large_bytes >= rules.shrink_bytes {
            self.large_ns -= self.large_ns >> rules.shrink_shift;
            self.large_bytes -= self.large_bytes >> rules.shrink_shift;
        }
        let (ns, bytes) = if rules.base_per_sample {
            let base = self.base.saturating_mul(large.weight);
            (large.latency_ns.saturating_sub(base), large.bytes.saturating_sub(SMALL_BYTES * large.weight))
        } else if large.latency_ns > self.base {
            (large.latency_ns - self.base, large.bytes)
        } else {
            (large.latency_ns, large.bytes)
        };
        self.large_ns = self.large_ns.saturating_add(ns);
        self.large_bytes = self.large_bytes.saturating_add(bytes);
        true
    }

    /// Evaluates samples, which are then used up.
    fn evaluate(&mut self, [small, large]: &mut [Histogram; 2], now: i64, rules: &Rules) {
        let due = self.base == 0 || now >= self.evaluated.saturating_add(rules.interval_ticks);
        let enough = |weight: u64| weight > 0 && (due || weight >= EVALUATED_SAMPLES);
        let counted = |known: u64| if known == 0 { 100 } else { COUNTED_PERCENT };
        let (mut base_learned, mut slope_learned) = (false, false);
        if enough(small.weight) {
            base_learned = self.learn_base(small.fastest(counted(self.base)), rules);
            *small = Histogram::default();
        }
        if enough(large.weight) || large.weight > 0 && self.slope == 0 {
            slope_learned = self.learn_slope(large.fastest(counted(self.slope)), rules);
            *large = Histogram::default();
        }
        if base_learned {
            self.base = self.small_ns / self.small_samples;
        }
        if slope_learned {
            self.slope = self.large_ns / self.large_bytes.div_ceil(KIB).max(1);
        }
        if base_learned || slope_learned || due {
            self.evaluated = now;
        }
    }
}

/// The models of all types and the samples that they have not learned from yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Models {
    lines: [Line; TYPES],
    /// Small and large samples by type.
    samples: [[Histogram; 2]; TYPES],
    /// Samples passed from type to type until one uses them.
    passed_on: [Histogram; 2],
}

impl Models {
    pub(super) fn line(&self, kind: usize) -> &Line {
        &self.lines[kind]
    }

    pub(super) fn predict(&self, kind: usize, bytes: u64) -> u64 {
        self.lines[kind].predict(bytes)
    }

    /// Replaces what was learned of a type; zeros leave one sample of zero.
    pub(super) fn load(&mut self, kind: usize, base: u64, slope: u64) {
        let evaluated = self.lines[kind].evaluated;
        self.lines[kind] =
            Line { base, slope, small_samples: 1, small_ns: base, large_bytes: KIB, large_ns: slope, evaluated };
        self.samples[kind] = Default::default();
    }

    /// Adds a completed request.
    pub(super) fn sample(&mut self, kind: usize, sample: Sample, now: i64, rules: &Rules) {
        let Sample { bytes, predicted_ns, latency_ns, weight } = sample;
        let line = &self.lines[kind];
        let [small, large] = &mut self.samples[kind];
        if bytes <= SMALL_BYTES {
            let known = line.base > 0;
            small.add(bucket_of(latency_ns, line.base), weight, latency_ns, 0);
            if !known {
                self.evaluate(kind, now, rules);
            }
        } else if line.base > 0 && predicted_ns > 0 {
            large.add(bucket_of(latency_ns, predicted_ns), weight, latency_ns, bytes);
        }
    }

    fn evaluate(&mut self, kind: usize, now: i64, rules: &Rules) {
        let own = &mut self.samples[kind];
        if rules.separate {
            return self.lines[kind].evaluate(own, now, rules);
        }
        for (passed_on, own) in self.passed_on.iter_mut().zip(own) {
            passed_on.take_over(own);
        }
        self.lines[kind].evaluate(&mut self.passed_on, now, rules);
    }

    /// Evaluates the samples of all types, in order.
    pub(super) fn evaluate_all(&mut self, now: i64, rules: &Rules) {
        for kind in 0..TYPES {
            self.evaluate(kind, now, rules);
        }
    }
}

/// A completed request as the models see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub bytes: u64,
    pub predicted_ns: u64,
    pub latency_ns: u64,
    /// Samples that it counts as.
    pub weight: u64,
}
