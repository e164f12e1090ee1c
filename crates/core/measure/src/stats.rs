//! Means, confidence intervals and significance tests over replicates.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Significance level: differences with a larger p value are ties.
pub const SIGNIFICANCE: f64 = 0.05;

/// Mean and standard deviation of replicated measurements.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Number of measurements.
    pub n: usize,
    /// Arithmetic mean; NaN without any.
    pub mean: f64,
    /// Sample standard deviation (n - 1); 0 with fewer than two.
    pub stddev: f64,
}

impl Sample {
    /// The sample of the finite ones of `values`.
    pub fn of(values: &[f64]) -> Sample {
        let finite = || values.iter().copied().filter(|v| v.is_finite());
        let n = finite().count();
        let mean = finite().sum::<f64>() / n as f64;
        let squares: f64 = finite().map(|v| (v - mean) * (v - mean)).sum();
        // Equal values deviate by 0, whatever the rounding of their mean.
        let equal = finite().zip(finite().skip(1)).all(|(a, b)| a == b);
        let stddev = if n < 2 || equal { 0.0 } else { (squares / (n as f64 - 1.0)).sqrt() };
        Sample { n, mean: if n == 0 { f64::NAN } else { mean }, stddev }
    }

    /// 95 % confidence interval of the mean of figures that are never negative, such as times and rates; `None` with fewer
    /// than two. It is Student's on a logarithmic scale, mean x exp(± t s / (sqrt(n) mean)), and so stays above zero.
    pub fn interval95(&self) -> Option<[f64; 2]> {
        if self.n < 2 {
            return None;
        }
        if self.mean <= 0.0 {
            return Some([self.mean, self.mean]);
        }
        let half = self.half95() / self.mean;
        Some([rounded(self.mean * (-half).exp()).min(self.mean), rounded(self.mean * half.exp()).max(self.mean)])
    }

    /// Half the width of the 95 % confidence interval of the mean (Student's t); NaN with fewer than two.
    pub fn ci95(&self) -> f64 {
        if self.n < 2 { f64::NAN } else { rounded(self.half95()) }
    }

    /// The same with two or more, not rounded.
    fn half95(&self) -> f64 {
        student(self.n as f64 - 1.0).inverse_cdf(0.975) * self.stddev / (self.n as f64).sqrt()
    }
}

/// The median; NaN values count as infinite. Infinite for an empty list.
pub fn median(mut values: Vec<f64>) -> f64 {
    for value in &mut values {
        if value.is_nan() {
            *value = f64::INFINITY;
        }
    }
    values.sort_by(f64::total_cmp);
    match (values.get(values.len() / 2), values.len() % 2) {
        (None, _) => f64::INFINITY,
        (Some(middle), 1) => *middle,
        (Some(middle), _) => f64::midpoint(values[values.len() / 2 - 1], *middle),
    }
}

/// The significance test used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TestKind {
    /// Student's t test of differences between runs of the same seeds.
    PairedT,
    /// Welch's t test: unequal variances.
    WelchT,
}

/// How a scheduler compares with a reference by one metric: the best scheduler by that metric, or the recommended one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// It is the reference.
    Best,
    /// No significant difference: p > 0.05, by Holm's correction.
    Tie,
    /// Significantly worse.
    Worse,
    /// Significantly better than the reference, which is not the best by this metric.
    Better,
    /// No test is possible: there is one replicate each, or lower bounds that are no better.
    Untested,
    /// The metric is undefined.
    Undefined,
}

/// Result of a significance test.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// Probability of a difference at least as large by chance alone; NaN if no test is possible.
    pub p: f64,
    /// The test used.
    pub test: TestKind,
}

/// Welch's t test of two independent samples, two-sided. NaN if either has fewer than two values.
/// Two samples without deviation differ (p = 0) or are equal (p = 1).
pub fn welch(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (Sample::of(a), Sample::of(b));
    if a.n < 2 || b.n < 2 {
        return f64::NAN;
    }
    let (va, vb) = (a.stddev * a.stddev / a.n as f64, b.stddev * b.stddev / b.n as f64);
    if va + vb == 0.0 {
        return if a.mean == b.mean { 1.0 } else { 0.0 };
    }
    let t = (a.mean - b.mean) / (va + vb).sqrt();
    let freedom = (va + vb) * (va + vb) / (va * va / (a.n as f64 - 1.0) + vb * vb / (b.n as f64 - 1.0));
    two_sided(t, freedom)
}

/// Student's t test of two independent samples of equal variance, two-sided. NaN with fewer than two in either.
pub fn student_t(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (Sample::of(a), Sample::of(b));
    if a.n < 2 || b.n < 2 {
        return f64::NAN;
    }
    let (n, m) = (a.n as f64, b.n as f64);
    let freedom = n + m - 2.0;
    let variance = ((n - 1.0) * a.stddev * a.stddev + (m - 1.0) * b.stddev * b.stddev) / freedom;
    if variance == 0.0 {
        return if a.mean == b.mean { 1.0 } else { 0.0 };
    }
    two_sided((a.mean - b.mean) / (variance * (1.0 / n + 1.0 / m)).sqrt(), freedom)
}

/// Student's t test of the differences of pairs, two-sided. NaN with fewer than two pairs.
/// Differences that are all equal give p = 1 if they are 0, else p = 0.
pub fn paired(a: &[f64], b: &[f64]) -> f64 {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    let d = Sample::of(&differences);
    if d.n < 2 || a.len() != b.len() {
        return f64::NAN;
    }
    if d.stddev == 0.0 {
        return if d.mean == 0.0 { 1.0 } else { 0.0 };
    }
    two_sided(d.mean / (d.stddev / (d.n as f64).sqrt()), d.n as f64 - 1.0)
}

/// Compares runs of two schedulers, each as (seed, value): paired if both have the same seeds, since those share their
/// load, else as independent samples. Values that are not finite are left out.
pub fn compare(a: &[(u64, f64)], b: &[(u64, f64)]) -> Comparison {
    let finite = |s: &[(u64, f64)]| {
        let mut kept: Vec<(u64, f64)> = s.iter().copied().filter(|v| v.1.is_finite()).collect();
        kept.sort_by_key(|v| v.0);
        kept
    };
    let (a, b) = (finite(a), finite(b));
    let seeds = |s: &[(u64, f64)]| s.iter().map(|v| v.0).collect::<Vec<u64>>();
    let values = |s: &[(u64, f64)]| s.iter().map(|v| v.1).collect::<Vec<f64>>();
    let distinct = seeds(&a).windows(2).all(|w| w[0] != w[1]);
    if distinct && seeds(&a) == seeds(&b) {
        Comparison { p: paired(&values(&a), &values(&b)), test: TestKind::PairedT }
    } else {
        Comparison { p: welch(&values(&a), &values(&b)), test: TestKind::WelchT }
    }
}

/// Holm's correction of the p values of several tests made at once: each is compared with the significance level as if it
/// were the only one. NaN, where no test was possible, stays and does not count.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).filter(|i| !p[*i].is_nan()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = p.to_vec();
    let mut largest = 0.0f64;
    for (rank, &i) in order.iter().enumerate() {
        largest = largest.max((order.len() - rank) as f64 * p[i]).min(1.0);
        adjusted[i] = largest;
    }
    adjusted
}

fn two_sided(t: f64, freedom: f64) -> f64 {
    rounded((2.0 * student(freedom).cdf(-t.abs())).min(1.0))
}

/// Quantile `probability` (0 to 1) of Student's t distribution.
pub fn student_quantile(probability: f64, freedom: f64) -> f64 {
    rounded(student(freedom).inverse_cdf(probability))
}

fn student(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom).expect("the degrees of freedom of two or more values are positive")
}

/// Rounds to six significant digits: the distribution functions differ between platforms in the last bits, and results
/// must not.
fn rounded(value: f64) -> f64 {
    if value.is_finite() { format!("{value:.5e}").parse().expect("a formatted number is a number") } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_counts_undefined_values_as_infinite() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(vec![f64::NAN, 1.0, f64::NAN]), f64::INFINITY);
        assert_eq!(median(Vec::new()), f64::INFINITY);
    }

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance, "{a} for {b}");
    }

    #[test]
    fn student_quantiles_of_the_printed_tables() {
        // Any table of Student's t, 0.975: 4.303 for 2, 2.776 for 4, 2.262 for 9 degrees of freedom.
        for (n, t) in [(3usize, 4.302_65), (5, 2.776_45), (10, 2.262_16)] {
            let s = Sample { n, mean: 0.0, stddev: (n as f64).sqrt() };
            close(s.ci95(), t, 1e-4);
        }
    }

    #[test]
    fn mean_and_deviation_by_hand() {
        // 1, 2, 3, 4, 5: mean 3, variance 10 / 4.
        let s = Sample::of(&[1.0, 2.0, 3.0, 4.0, 5.0, f64::NAN]);
        assert_eq!((s.n, s.mean), (5, 3.0));
        close(s.stddev, 2.5f64.sqrt(), 1e-12);
        close(s.ci95(), 2.776_45 * (2.5f64 / 5.0).sqrt(), 1e-4);
        assert!(Sample::of(&[7.0]).ci95().is_nan());
        assert!(Sample::of(&[]).mean.is_nan());
        assert_eq!(Sample::of(&[0.1; 10]).stddev, 0.0);
    }

    #[test]
    fn welch_with_two_degrees_of_freedom_has_a_closed_form() {
        // 1, 3 and 5, 7: means 2 and 6, variances 2, t = -4 / sqrt(2), 2 degrees of freedom (equal
        // variances and sizes: 2n - 2). There P(|T| > t) = 1 - t / sqrt(2 + t^2), t^2 = 8.
        close(welch(&[1.0, 3.0], &[5.0, 7.0]), 1.0 - (8.0f64 / 10.0).sqrt(), 1e-5);
    }

    #[test]
    fn paired_with_one_degree_of_freedom_is_cauchy() {
        // Differences 1 and 3: t = 2 / (sqrt(2) / sqrt(2)) = 2; P(|T| > 2) = 1 - (2 / pi) atan 2.
        let expected = 1.0 - 2.0 / std::f64::consts::PI * 2.0f64.atan();
        close(paired(&[2.0, 5.0], &[1.0, 2.0]), expected, 1e-5);
    }

    #[test]
    fn student_with_eighteen_degrees_of_freedom() {
        // Printed tables: t = 2.101 is the 5 % point; t = 1 has p = 0.3306.
        close(two_sided(2.101, 18.0), 0.05, 1e-4);
        close(two_sided(1.0, 18.0), 0.3306, 1e-4);
        // 1, 3 and 5, 7 as in Welch's case: equal variances and sizes.
        close(student_t(&[1.0, 3.0], &[5.0, 7.0]), 1.0 - (8.0f64 / 10.0).sqrt(), 1e-5);
        assert_eq!(student_t(&[1.0, 1.0], &[1.0, 1.0]), 1.0);
        assert!(student_t(&[1.0], &[2.0, 3.0]).is_nan());
    }

    #[test]
    fn samples_without_deviation_are_compared_by_their_means() {
        assert_eq!(welch(&[1.0, 1.0], &[1.0, 1.0]), 1.0);
        assert_eq!(welch(&[1.0, 1.0], &[2.0, 2.0]), 0.0);
        assert_eq!(paired(&[1.0, 2.0], &[2.0, 3.0]), 0.0);
        assert_eq!(paired(&[1.0, 2.0], &[1.0, 2.0]), 1.0);
    }

    #[test]
    fn one_run_each_cannot_be_tested() {
        assert!(welch(&[1.0], &[2.0]).is_nan());
        assert!(compare(&[(1, 1.0)], &[(1, 2.0)]).p.is_nan());
    }

    #[test]
    fn same_seeds_are_paired_in_any_order() {
        let a = [(1, 1.0), (2, 2.0), (3, 3.0)];
        let b = [(3, 3.2), (1, 1.1), (2, 2.1)];
        let c = compare(&a, &b);
        assert_eq!(c.test, TestKind::PairedT);
        assert!(c.p < 0.1, "{}", c.p);
        let other = compare(&a, &[(4, 1.1), (5, 2.1), (6, 3.2)]);
        assert_eq!(other.test, TestKind::WelchT);
        assert!(other.p > 0.5);
        assert_eq!(compare(&[(1, 1.0), (1, 2.0)], &[(1, 1.0), (1, 2.0)]).test, TestKind::WelchT);
    }
}
