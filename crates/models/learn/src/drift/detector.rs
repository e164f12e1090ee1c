//! Detectors of drift on the errors of a model.

use std::collections::VecDeque;

/// Page-Hinkley's tolerance, in ln units of latency, and its threshold.
const TOLERANCE: f64 = 0.05;
const THRESHOLD: f64 = 50.0;
/// Errors of the reference and of the comparison.
const WINDOW: usize = 2_000;
/// A comparison that finds a difference of less probability than this, twice in a row, is an alarm.
const SIGNIFICANCE: f64 = 0.001;
/// Smaller differences between distributions do not matter, however significant they are.
const DIFFERENCE_MIN: f64 = 0.08;
/// Completions between two comparisons.
const COMPARE_EVERY: u64 = 1_000;
/// Share of windows without confidence, beyond that in training, which is an alarm.
const LOW_CONFIDENCE: f64 = 0.2;

/// The kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// Errors became larger at once (Page-Hinkley).
    Jump,
    /// The distribution of errors has changed (Kolmogorov-Smirnov, twice).
    Distribution,
    /// Too few of a classifier's windows are confident.
    Confidence,
}

/// Watches the errors of one model on one device.
#[derive(Clone, Debug)]
pub struct Detector {
    /// The first errors `ln(latency / predicted)`: the quality of the model at its start.
    reference: Vec<f64>,
    /// Mean size of the reference's errors.
    usual: f64,
    last: VecDeque<f64>,
    /// Page-Hinkley's sum and its least value.
    sum: f64,
    least: f64,
    seen: u64,
    /// Comparisons in a row that found a difference.
    different: u32,
    /// Share of windows without confidence in training, and the running share.
    low_confidence: (f64, f64),
    windows: u64,
}

impl Detector {
    /// A detector for a model whose windows lack confidence at this share in training; 0 for a latency model.
    pub fn new(low_confidence: f64) -> Detector {
        Detector {
            reference: Vec::with_capacity(WINDOW),
            usual: 0.0,
            last: VecDeque::with_capacity(WINDOW),
            sum: 0.0,
            least: 0.0,
            seen: 0,
            different: 0,
            low_confidence: (low_confidence, low_confidence),
            windows: 0,
        }
    }

    /// A detector for a latency model whose errors `ln(latency / predicted)` are known from samples that it was not trained on: it
    /// finds a model that is worse than it was judged from its first request on.
    pub fn with_reference(errors: &[f64]) -> Detector {
        let mut detector = Detector::new(0.0);
        detector.reference.extend(errors.iter().copied().filter(|error| error.is_finite()).take(WINDOW));
        let sizes: f64 = detector.reference.iter().map(|error| error.abs()).sum();
        detector.usual = sizes / detector.reference.len().max(1) as f64;
        detector
    }

    /// Adds a measured and a predicted latency, in the same unit. Pairs that are not both positive are ignored.
    pub fn push(&mut self, latency: f64, predicted: f64) {
        let error = libm::log(latency / predicted);
        if !error.is_finite() {
            return;
        }
        self.seen += 1;
        if self.reference.len() < WINDOW {
            self.reference.push(error);
            self.usual += (error.abs() - self.usual) / self.reference.len() as f64;
            return;
        }
        if self.last.len() == WINDOW {
            self.last.pop_front();
        }
        self.last.push_back(error);
        self.sum += error.abs() - self.usual - TOLERANCE;
        self.least = self.least.min(self.sum);
    }

    /// Adds a classifier's window, confident or not.
    pub fn push_window(&mut self, confident: bool) {
        self.windows += 1;
        let low = if confident { 0.0 } else { 1.0 };
        self.low_confidence.1 += (low - self.low_confidence.1) / 500.0;
    }

    /// The change, if there is one. Call it from time to time, off the request path: it may sort some thousand numbers.
    pub fn check(&mut self) -> Option<Alarm> {
        if self.sum - self.least > THRESHOLD {
            return Some(Alarm::Jump);
        }
        if self.windows >= 500 && self.low_confidence.1 > self.low_confidence.0 + LOW_CONFIDENCE {
            return Some(Alarm::Confidence);
        }
        if self.last.len() == WINDOW && self.seen >= COMPARE_EVERY {
            self.seen = 0;
            let last: Vec<f64> = self.last.iter().copied().collect();
            let (distance, probability) = kolmogorov_smirnov(&self.reference, &last);
            let differs = probability < SIGNIFICANCE && distance > DIFFERENCE_MIN;
            self.different = if differs { self.different + 1 } else { 0 };
            if self.different >= 2 {
                return Some(Alarm::Distribution);
            }
        }
        None
    }

    /// Starts over: with another model, or because this one was accepted as it is.
    pub fn reset(&mut self) {
        *self = Detector::new(self.low_confidence.0);
    }
}

/// Largest distance of two samples' distributions, and the probability of one as large by chance.
fn kolmogorov_smirnov(a: &[f64], b: &[f64]) -> (f64, f64) {
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    let (a, b) = (sorted(a), sorted(b));
    let (mut i, mut j, mut distance) = (0, 0, 0.0f64);
    while i < a.len() && j < b.len() {
        let at = a[i].min(b[j]);
        while i < a.len() && a[i] <= at {
            i += 1;
        }
        while j < b.len() && b[j] <= at {
            j += 1;
        }
        distance = distance.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    let n = (a.len() * b.len()) as f64 / (a.len() + b.len()).max(1) as f64;
    let x = (n.sqrt() + 0.12 + 0.11 / n.sqrt()) * distance;
    let term = |k: i32| {
        let sign = if k % 2 == 1 { 1.0 } else { -1.0 };
        sign * libm::exp(-2.0 * f64::from(k * k) * x * x)
    };
    (distance, (2.0 * (1..=100).map(term).sum::<f64>()).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Errors of a model that is right within a factor of about two.
    fn draws(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            let mut sum = 0.0;
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                sum += (state >> 40) as f64 / (1u64 << 24) as f64;
            }
            0.35 * (sum - 6.0)
        }
    }

    #[test]
    fn latencies_three_times_as_long_are_found_within_two_thousand_requests() {
        let (mut detector, mut draw) = (Detector::new(0.0), draws(1));
        for _ in 0..6_000 {
            detector.push(100.0 * libm::exp(draw()), 100.0);
            assert_eq!(detector.check(), None);
        }
        let mut found = None;
        for i in 0..2_000 {
            detector.push(300.0 * libm::exp(draw()), 100.0);
            found = found.or_else(|| detector.check().map(|alarm| (i, alarm)));
        }
        assert!(matches!(found, Some((at, Alarm::Jump)) if at < 500), "{found:?}");
        detector.reset();
        assert_eq!(detector.check(), None);
    }

    #[test]
    fn a_stationary_hour_raises_no_alarm() {
        for seed in 1..5 {
            let (mut detector, mut draw) = (Detector::new(0.0), draws(seed));
            for i in 0..360_000 {
                detector.push(100.0 * libm::exp(draw()), 100.0);
                if i % 100 == 0 {
                    assert_eq!(detector.check(), None, "seed {seed}, request {i}");
                }
            }
        }
    }

    #[test]
    fn slow_change_that_keeps_the_size_of_errors_is_found() {
        let (mut detector, mut draw) = (Detector::new(0.0), draws(7));
        (0..4_000).for_each(|_| detector.push(100.0 * libm::exp(0.3 + 0.2 * draw()), 100.0));
        // From too low to too high by as much.
        let found = (0..8_000).find_map(|_| {
            detector.push(100.0 * libm::exp(-0.3 + 0.2 * draw()), 100.0);
            detector.check()
        });
        assert_eq!(found, Some(Alarm::Distribution));
    }

    #[test]
    fn a_classifier_that_loses_its_confidence_is_found_and_numbers_that_are_none_are_left_out() {
        let mut detector = Detector::new(0.15);
        (0..5_000).for_each(|i| detector.push_window(i % 7 != 0));
        assert_eq!(detector.check(), None);
        (0..2_000).for_each(|i| detector.push_window(i % 2 == 0));
        assert_eq!(detector.check(), Some(Alarm::Confidence));
        let mut detector = Detector::new(0.0);
        (0..10_000).for_each(|_| detector.push(f64::NAN, 0.0));
        (0..10_000).for_each(|_| detector.push(0.0, 1.0));
        assert_eq!(detector.check(), None);
    }
}
