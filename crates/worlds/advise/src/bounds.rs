//! How much worse each scheduler is than the one that looks best, with bounds that hold for all of them together.
//!
//! This is the comparison with the best of Hsu (1984): one-sided bounds on the difference of each scheduler from the one with
//! the best mean, by Student's t, the error divided among them. Runs of the same seed are compared with each other. With three
//! runs of each, a variance rests on two numbers; so each is drawn towards that of the other differences, as is usual for many
//! small samples (Smyth 2004).

use dumbwaiter_measure::student_quantile;

use crate::metric::Metric;

/// Weight of the common variance, in degrees of freedom.
const COMMON_FREEDOM: f64 = 4.0;
/// Figures below this (a latency of 0) have no logarithm to speak of.
const TINY: f64 = 1e-6;

/// How much worse a scheduler is than the reference, as [`Metric::worse_by`] gives it; below 0 where it is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worse {
    /// By the means of the runs.
    pub by: f64,
    /// At least, and at most. `None` where the runs allow no bounds: one run each, or the same recorded load again.
    pub bounds: Option<[f64; 2]>,
    /// It is worse, and not by chance: a stricter test than a lower bound above 0, since it is made for each criterion.
    pub surely: bool,
}

impl Worse {
    /// How much better than the reference it may be; 0 where it is surely worse, `None` where that is unknown.
    pub fn may_be_better_by(&self) -> Option<f64> {
        self.bounds.map(|[least, _]| (-least).max(0.0))
    }
}

/// Figures of one scheduler's runs: (seed, value).
pub(crate) type Runs = [(u64, f64)];

/// Mean difference from the reference on the scale of the test, its variance and degrees of freedom.
struct Contrast {
    mean: f64,
    /// Variance of one difference, and how many there are. Of unpaired runs: of the mean, and 1.
    variance: f64,
    n: f64,
    freedom: f64,
}

/// Probabilities of being wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Error {
    /// That another is better than the reference by more than any of the bounds allows.
    pub(crate) of_bounds: f64,
    /// That any scheduler that is as good as the reference is called worse.
    pub(crate) of_tests: f64,
}

/// How much worse each of `all` is than the one at `reference`, whose own entry is zero. Values that are not finite make bounds
/// impossible.
pub(crate) fn worse_than(metric: Metric, all: &[&Runs], reference: usize, error: Error) -> Vec<Worse> {
    let best = all[reference];
    let contrasts: Vec<Option<Contrast>> =
        all.iter().enumerate().map(|(i, own)| (i != reference).then(|| contrast(metric, own, best))?).collect();
    let tests = contrasts.iter().flatten().count() as f64;
    let common = common_variance(&contrasts);
    let one = |(i, contrast): (usize, &Option<Contrast>)| {
        let by = if i == reference { 0.0 } else { metric.worse_by(mean(all[i]), mean(best)) };
        let Some(c) = contrast else { return Worse { by, bounds: None, surely: false } };
        let (weight, prior) = common.map_or((0.0, 0.0), |v| (COMMON_FREEDOM, v));
        // An unpaired variance is of the mean already.
        let own = c.variance * c.n;
        let variance = (weight * prior + c.freedom * own) / (weight + c.freedom) / c.n;
        let deviation = variance.sqrt();
        let half = student_quantile(1.0 - error.of_bounds / tests, weight + c.freedom) * deviation;
        // Both ways, since it was not known beforehand which would look best.
        let strict = student_quantile(1.0 - error.of_tests / tests / 2.0, weight + c.freedom) * deviation;
        let of = |difference: f64| fraction(metric, difference);
        let bounds = Some([of(c.mean - half).min(by), of(c.mean + half).max(by)]);
        Worse { by, bounds, surely: by > 0.0 && c.mean > strict }
    };
    contrasts.iter().enumerate().map(one).collect()
}

fn mean(runs: &Runs) -> f64 {
    runs.iter().map(|(_, v)| v).sum::<f64>() / runs.len() as f64
}

/// A value on the scale of the test: logarithmic for ratios. Larger is worse.
fn scaled(metric: Metric, value: f64) -> f64 {
    let value = if metric.unit().by_ratio() { value.max(TINY).ln() } else { metric.worse_by(value, 0.0) };
    if metric.unit().by_ratio() && metric.higher_is_better() { -value } else { value }
}

/// A difference on that scale, as [`Metric::worse_by`] gives it.
fn fraction(metric: Metric, difference: f64) -> f64 {
    match (metric.unit().by_ratio(), metric.higher_is_better()) {
        (true, false) => difference.exp_m1(),
        (true, true) => -(-difference).exp_m1(),
        (false, _) => difference,
    }
}

fn contrast(metric: Metric, own: &Runs, best: &Runs) -> Option<Contrast> {
    if own.iter().chain(best).any(|(_, v)| !v.is_finite()) {
        return None;
    }
    let of = |runs: &Runs| runs.iter().map(|(_, v)| scaled(metric, *v)).collect::<Vec<f64>>();
    let distinct = |runs: &Runs| runs.iter().enumerate().all(|(i, a)| runs[..i].iter().all(|b| a.0 != b.0));
    let pairs: Vec<f64> = own
        .iter()
        .filter_map(|(seed, v)| {
            let other = best.iter().find(|(other, _)| other == seed)?;
            Some(scaled(metric, *v) - scaled(metric, other.1))
        })
        .collect();
    if pairs.len() >= 2 && distinct(own) && distinct(best) {
        let (mean, variance) = moments(&pairs);
        return Some(Contrast { mean, variance, n: pairs.len() as f64, freedom: pairs.len() as f64 - 1.0 });
    }
    if own.len() < 2 || best.len() < 2 {
        return None;
    }
    let ((a, va), (b, vb)) = (moments(&of(own)), moments(&of(best)));
    let (n, m) = (own.len() as f64, best.len() as f64);
    // The smaller sample's freedom is a safe choice.
    Some(Contrast { mean: a - b, variance: va / n + vb / m, n: 1.0, freedom: n.min(m) - 1.0 })
}

fn moments(values: &[f64]) -> (f64, f64) {
    let sample = dumbwaiter_measure::Sample::of(values);
    (sample.mean, sample.stddev * sample.stddev)
}

/// The median variance of paired differences, corrected for that the median of a sample variance is below its mean; `None`
/// for fewer than two.
fn common_variance(contrasts: &[Option<Contrast>]) -> Option<f64> {
    let paired = || contrasts.iter().flatten().filter(|c| c.n > 1.0);
    let mut variances: Vec<f64> = paired()
        // Wilson and Hilferty's approximation of the median of chi square over its freedom.
        .map(|c| c.variance / (1.0 - 2.0 / (9.0 * c.freedom)).powi(3))
        .collect();
    if variances.len() < 2 || paired().count() < contrasts.iter().flatten().count() {
        return None;
    }
    variances.sort_by(f64::total_cmp);
    let upper = variances[variances.len() / 2];
    Some(if variances.len() % 2 == 1 { upper } else { f64::midpoint(upper, variances[variances.len() / 2 - 1]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Standard normal numbers from a small generator: the sum of twelve uniform ones.
    struct Normal(u64);

    impl Normal {
        fn next(&mut self) -> f64 {
            let mut uniform = || {
                self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (self.0 >> 11) as f64 / (1u64 << 53) as f64
            };
            (0..12).map(|_| uniform()).sum::<f64>() - 6.0
        }
    }

    fn bounds(metric: Metric, all: &[Vec<(u64, f64)>], reference: usize) -> Vec<Worse> {
        let all: Vec<&Runs> = all.iter().map(Vec::as_slice).collect();
        worse_than(metric, &all, reference, Error { of_bounds: 0.05, of_tests: 0.05 })
    }

    #[test]
    fn a_difference_is_a_fraction_in_the_direction_of_worse() {
        let runs = |v: [f64; 3]| (0..).zip(v).collect::<Vec<_>>();
        let found = bounds(Metric::FocusP99, &[runs([100.0, 101.0, 99.0]), runs([150.0, 151.5, 148.5])], 0);
        assert!((found[1].by - 0.5).abs() < 1e-9 && found[1].surely, "{found:?}");
        let found = bounds(Metric::MbPerS, &[runs([100.0, 101.0, 99.0]), runs([80.0, 80.8, 79.2])], 0);
        assert!((found[1].by - 0.2).abs() < 1e-9, "{found:?}");
        let found = bounds(Metric::DroppedFrames, &[runs([0.0, 0.0, 0.0]), runs([2.0, 2.5, 1.5])], 0);
        assert!((found[1].by - 0.02).abs() < 1e-9 && found[1].may_be_better_by().is_some(), "{found:?}");
    }

    #[test]
    fn one_run_each_allows_no_bounds() {
        let found = bounds(Metric::FocusP99, &[vec![(1, 5.0)], vec![(1, 9.0)]], 0);
        assert_eq!((found[1].bounds, found[1].surely), (None, false));
        let found = bounds(Metric::FocusP99, &[vec![(1, 5.0), (2, 5.0)], vec![(1, f64::INFINITY), (2, 9.0)]], 0);
        assert_eq!(found[1].bounds, None);
    }

    #[test]
    fn runs_of_other_seeds_are_compared_as_samples() {
        let found = bounds(Metric::FocusP99, &[vec![(1, 5.0), (2, 5.1)], vec![(3, 9.0), (4, 9.1)]], 0);
        assert!(found[1].bounds.is_some(), "{found:?}");
    }

    /// Runs of schedulers whose true means and noise are given, on the logarithmic scale.
    fn drawn(normal: &mut Normal, means: &[f64], noise: &[f64], n: u64) -> Vec<Vec<(u64, f64)>> {
        let shared: Vec<f64> = (0..n).map(|_| 0.1 * normal.next()).collect();
        let mut one = |mean: &f64, noise: &f64| {
            (0..n).map(|s| (s, (mean + shared[s as usize] + noise * normal.next()).exp())).collect::<Vec<_>>()
        };
        means.iter().zip(noise).map(|(mean, noise)| one(mean, noise)).collect()
    }

    #[test]
    fn at_most_5_of_100_comparisons_are_wrong_whatever_the_noise() {
        let mut normal = Normal(7);
        for noise in [[0.05; 4], [0.02, 0.02, 0.1, 0.1], [0.02, 0.05, 0.05, 0.2], [0.2, 0.02, 0.02, 0.02]] {
            let (mut too_small, mut falsely_worse, trials) = (0, 0, 1000);
            let means = [0.0, 0.0, 0.0, 0.1];
            for _ in 0..trials {
                let all = drawn(&mut normal, &means, &noise, 3);
                let best = (0..4).min_by(|a, b| mean(&all[*a]).total_cmp(&mean(&all[*b]))).unwrap();
                let found = bounds(Metric::FocusP99, &all, best);
                let others = || (0..4).filter(|i| *i != best);
                // Another is truly better than its bound allows.
                let allowed = |i: usize| {
                    means[best] <= means[i] || found[i].bounds.unwrap()[0] <= (means[i] - means[best]).exp_m1()
                };
                too_small += u32::from(!others().all(allowed));
                falsely_worse += u32::from(others().any(|i| means[i] <= means[best] && found[i].surely));
            }
            assert!(too_small <= trials * 6 / 100, "{noise:?}: {too_small} of {trials} bounds too small");
            assert!(falsely_worse <= trials * 8 / 100, "{noise:?}: {falsely_worse} of {trials} falsely worse");
        }
    }
}
