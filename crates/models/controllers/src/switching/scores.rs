//! Scores of the candidates for one workload, from trials.

use crate::switching::in_force::{InForce, Loss};

/// Samples after which a candidate that is neither better nor worse is not tried any more, and the limit for one whose mean is
/// better: its slots gain time.
const SAMPLES_MAX: u32 = 2;
const SAMPLES_MAX_AHEAD: u32 = 8;
/// Standard errors by which a difference must exceed 0 to count.
const SURE: f64 = 2.5;
/// Least relative standard error of a sample: slots differ by more than their parts do.
const NOISE_MIN: f64 = 0.02;

/// A candidate's score, relative to the first baseline of its workload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Mean of the samples, weighted by their exactness.
    pub mean: f64,
    /// Variance of that mean.
    pub variance: f64,
    /// Samples.
    pub samples: u32,
}

impl Estimate {
    fn add(&mut self, value: f64, variance: f64) {
        if self.samples == 0 {
            (self.mean, self.variance) = (value, variance);
        } else {
            let (old, new) = (1.0 / self.variance, 1.0 / variance);
            self.mean = (self.mean * old + value * new) / (old + new);
            self.variance = 1.0 / (old + new);
        }
        self.samples += 1;
    }

    fn upper(&self) -> f64 {
        self.mean + SURE * self.variance.sqrt()
    }

    fn lower(&self) -> f64 {
        self.mean - SURE * self.variance.sqrt()
    }
}

/// The candidates' scores for one workload.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    estimates: Vec<Estimate>,
    /// By candidate: the baseline of its first slot.
    compared_with: Vec<Option<usize>>,
    baseline: usize,
    settled: bool,
    /// Performance of the candidates while in force.
    pub(crate) in_force: InForce,
    /// Time lost in its trials, nanoseconds.
    pub(crate) cost_ns: f64,
}

impl Scores {
    /// Nothing tried yet; `baseline` is in force.
    pub fn new(candidates: usize, baseline: usize) -> Scores {
        let mut estimates = vec![Estimate::default(); candidates];
        if let Some(first) = estimates.get_mut(baseline) {
            *first = Estimate { mean: 1.0, variance: 0.0, samples: 1 };
        }
        Scores {
            estimates,
            compared_with: vec![None; candidates],
            baseline,
            settled: candidates < 2,
            in_force: InForce::new(candidates),
            cost_ns: 0.0,
        }
    }

    /// Restores scores.
    pub(crate) fn restored(estimates: Vec<Estimate>, baseline: usize, settled: bool, cost_ns: f64) -> Scores {
        let (compared_with, in_force) = (vec![None; estimates.len()], InForce::new(estimates.len()));
        Scores { estimates, compared_with, baseline, settled, in_force, cost_ns }
    }

    /// The best candidate so far.
    pub fn baseline(&self) -> usize {
        self.baseline
    }

    /// The best one, if all were tried.
    pub fn winner(&self) -> Option<usize> {
        self.settled.then_some(self.baseline)
    }

    /// Replaces the trial score of the candidate in force by its performance in force, and selects the best of the
    /// others.
    pub(crate) fn correct(&mut self, candidate: usize, loss: Loss) {
        let compared = |scores: &Scores, other: usize| scores.compared_with[other] == Some(candidate);
        match loss {
            Loss::Against { other: better, ratio } => {
                if self.estimates[better].samples == 0 {
                    let mean = self.estimates[candidate].mean;
                    self.estimates[better] = Estimate { mean, variance: (NOISE_MIN * mean).powi(2), samples: 1 };
                }
                let mean = ratio * self.estimates[better].mean;
                let factor = mean / self.estimates[candidate].mean.max(f64::MIN_POSITIVE);
                // Candidates compared with it keep their ratio to its score when it took over.
                for other in (0..self.estimates.len()).filter(|other| *other != better) {
                    if compared(self, other) {
                        self.estimates[other].mean *= factor;
                        self.estimates[other].variance *= factor * factor;
                    }
                }
                let variance = (NOISE_MIN * mean) * (NOISE_MIN * mean);
                self.estimates[candidate] = Estimate { mean, variance, samples: SAMPLES_MAX };
            }
            // The others were worse in a device state that has passed: try them again.
            Loss::Collapse => {
                for other in 0..self.estimates.len() {
                    if compared(self, other) {
                        self.estimates[other] = Estimate::default();
                        self.compared_with[other] = None;
                    }
                }
            }
        }
        let tried = (0..self.estimates.len()).filter(|c| self.estimates[*c].samples > 0);
        let best = tried.max_by(|a, b| self.estimates[*a].mean.total_cmp(&self.estimates[*b].mean));
        (self.baseline, self.settled) = (best.unwrap_or(candidate), false);
    }

    /// Whether there is no trial result yet.
    pub fn is_untried(&self) -> bool {
        !self.settled && self.estimates.iter().map(|estimate| estimate.samples).sum::<u32>() <= 1
    }

    /// Trials begin from `candidate`, which is in force now. Only before the first one.
    pub(crate) fn rebase(&mut self, candidate: usize) {
        *self = Scores { cost_ns: self.cost_ns, ..Scores::new(self.estimates.len(), candidate) };
    }

    /// All estimates, by candidate.
    pub fn estimates(&self) -> &[Estimate] {
        &self.estimates
    }

    /// A slot of `candidate` had `ratio` times the baseline's score, with a relative variance. Returns the verdict.
    pub fn record(&mut self, candidate: usize, ratio: f64, variance: f64, hysteresis: f64) -> Verdict {
        let base = self.estimates[self.baseline].mean;
        let value = ratio * base;
        self.compared_with[candidate].get_or_insert(self.baseline);
        let variance = value * value * variance.max(NOISE_MIN * NOISE_MIN);
        self.estimates[candidate].add(value, variance.max(1e-12));
        let verdict = self.verdict(candidate, hysteresis);
        if verdict == Verdict::Better {
            self.baseline = candidate;
        }
        verdict
    }

    fn verdict(&self, candidate: usize, hysteresis: f64) -> Verdict {
        let estimate = &self.estimates[candidate];
        let bar = self.estimates[self.baseline].mean * (1.0 + hysteresis);
        let samples_max = if estimate.mean > bar { SAMPLES_MAX_AHEAD } else { SAMPLES_MAX };
        if estimate.lower() > bar {
            Verdict::Better
        } else if estimate.upper() < bar || estimate.samples >= samples_max {
            Verdict::NotBetter
        } else {
            Verdict::Open
        }
    }

    /// The candidate to try next: an untried one in the order of `expected`, best first, then the one that may be best.
    /// `None`: the workload is settled.
    pub fn next_challenger(&mut self, hysteresis: f64, expected: &[f64]) -> Option<usize> {
        let others = (0..self.estimates.len()).filter(|c| *c != self.baseline);
        let open = others.filter(|c| {
            let untried = self.estimates[*c].samples == 0 && expected.get(*c).is_none_or(|e| *e > 0.0);
            untried || (self.estimates[*c].samples > 0 && self.verdict(*c, hysteresis) == Verdict::Open)
        });
        let promise = |c: &usize| match self.estimates[*c].samples {
            0 => 1e6 + expected.get(*c).copied().unwrap_or(1.0),
            _ => self.estimates[*c].upper(),
        };
        // The first of equals.
        let best = open.reduce(|best, c| if promise(&c) > promise(&best) { c } else { best });
        self.settled = best.is_none();
        best
    }
}

/// Verdict of trials on a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better than the baseline, which it becomes.
    Better,
    /// Not better, or not by enough to matter.
    NotBetter,
    /// More trials are needed.
    Open,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clear_winner_becomes_the_baseline_and_settles_those_that_cannot_reach_it() {
        let mut scores = Scores::new(4, 0);
        assert_eq!(scores.next_challenger(0.02, &[]), Some(1));
        assert_eq!(scores.record(1, 1.0, 0.0025, 0.02), Verdict::Open);
        assert_eq!(scores.next_challenger(0.02, &[]), Some(2));
        assert_eq!(scores.record(2, 5.0, 0.0025, 0.02), Verdict::Better);
        assert_eq!(scores.next_challenger(0.02, &[]), Some(3), "the untried one; 1 cannot be five times better");
        assert_eq!(scores.record(3, 0.5, 0.0025, 0.02), Verdict::NotBetter);
        assert_eq!((scores.next_challenger(0.02, &[]), scores.winner()), (None, Some(2)));
    }

    #[test]
    fn a_score_that_does_not_come_true_takes_those_with_it_that_rest_on_it() {
        let mut scores = Scores::new(4, 0);
        scores.record(1, 5.0, 0.0004, 0.02);
        scores.record(2, 1.4, 0.0004, 0.02);
        // Under the state that 1 left, 2 and 3 are fast.
        scores.record(3, 1.1, 0.0004, 0.02);
        assert_eq!(scores.baseline(), 3);
        // In force, 2 is as slow as 0, and so are those compared with it.
        scores.correct(2, Loss::Against { other: 0, ratio: 1.0 });
        assert_eq!(scores.baseline(), 1);
        assert!((scores.estimates()[3].mean - 1.1).abs() < 1e-9, "{scores:?}");
    }

    #[test]
    fn a_collapse_takes_back_what_was_compared_with_the_candidate() {
        let mut scores = Scores::new(3, 0);
        scores.record(1, 5.0, 0.0004, 0.02);
        scores.record(2, 0.8, 0.0004, 0.02);
        assert_eq!((scores.baseline(), scores.next_challenger(0.02, &[])), (1, None));
        scores.correct(1, Loss::Collapse);
        assert_eq!((scores.baseline(), scores.next_challenger(0.02, &[])), (1, Some(2)), "{scores:?}");
    }

    #[test]
    fn candidates_that_tie_are_left_alone_after_a_few_samples() {
        let mut scores = Scores::new(3, 0);
        let mut tried = 0;
        while let Some(candidate) = scores.next_challenger(0.02, &[]) {
            scores.record(candidate, 1.01, 0.01, 0.02);
            tried += 1;
        }
        assert_eq!((tried, scores.winner()), (2 * SAMPLES_MAX, Some(0)));
    }

    #[test]
    fn a_candidate_that_is_ahead_is_tried_until_that_is_sure() {
        // (relative score, samples until the end, the best).
        for (ratio, tried, best) in [(1.12, 5, 1), (1.03, SAMPLES_MAX_AHEAD, 0)] {
            let mut scores = Scores::new(2, 0);
            let samples = std::iter::from_fn(|| {
                let next = scores.next_challenger(0.02, &[])?;
                Some(scores.record(next, ratio, 0.006, 0.02))
            });
            assert_eq!(samples.count() as u32, tried, "{ratio}: {scores:?}");
            assert_eq!(scores.winner(), Some(best), "{ratio}: {scores:?}");
        }
    }

    #[test]
    fn a_table_orders_the_trials_and_leaves_out_what_it_rules_out() {
        let mut scores = Scores::new(4, 0);
        let expected = [1.0, 0.0, 0.9, 1.4];
        let order: Vec<usize> = std::iter::from_fn(|| {
            let next = scores.next_challenger(0.02, &expected)?;
            scores.record(next, 0.5, 0.0004, 0.02);
            Some(next)
        })
        .collect();
        assert_eq!(order, [3, 2]);
    }
}
