//! The order of runs in a survey, and the decision from their results. It needs results only, so tests need no device.
//!
//! The first point decides, by the rule of `compare` for the goal: what is set is kept unless another is worth more. The others are
//! guards: what a scheduler loses there in throughput, at the goal's exchange rate, counts against what it gains.

use crate::answer::{HARMFUL, USEFUL_GAIN};
use crate::ranking::rank_under;
use crate::{Conditions, Confidence, Focus, Goal, Metric, Ranking, Rates};
use dumbwaiter_measure::{RunResult, Sample, paired, welch};

/// Runs of each scheduler at the deciding point before anything is said: with less, chance cannot be judged.
pub const ROUNDS_MIN: usize = 3;
/// Runs of each scheduler at every other point.
pub const GUARD_ROUNDS: usize = 2;
/// Many looks at many points find differences where there are none: ruling a scheduler out at a guard takes a smaller p value.
const DROP: f64 = 0.01;
/// Fewer runs than this rule no scheduler out and do not end the race.
const SURE: usize = 4;
/// Runs at a guard point at most, where it is in doubt.
const GUARD_RUNS_MAX: usize = 6;

/// The contestants and the rules of a race.
pub struct Race {
    /// Names of the points, the one that decides first.
    pub points: Vec<&'static str>,
    /// Schedulers, as results name them.
    pub schedulers: Vec<String>,
    /// The one that is set.
    pub current: String,
    /// The goal of the recommendation.
    pub goal: Goal,
}

/// Some schedulers, once each at one point.
#[derive(Debug, PartialEq)]
pub struct Heat {
    /// Number of the point.
    pub point: usize,
    /// Numbers of the schedulers.
    pub schedulers: Vec<usize>,
}

/// A scheduler that loses too much at a guard point.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Loss {
    /// The scheduler.
    pub scheduler: String,
    /// Name of the point.
    pub point: String,
    /// Its part there of the throughput of what is set.
    pub share: f64,
    /// Probability of such a loss by chance.
    pub p: f64,
}

impl Loss {
    /// The loss in a sentence; `recommended` is the scheduler that is recommended.
    pub fn sentence(&self, recommended: &str) -> String {
        let effect = if self.scheduler == recommended { "loses throughput" } else { "is ruled out" };
        let Loss { scheduler, point, share, p } = self;
        format!("{scheduler} {effect}: {:.0} % of what is moved now at {point} (p = {p:.3}).", share * 100.0)
    }
}

/// A scheduler that moves less at a guard than what is set.
struct Below {
    point: usize,
    index: usize,
    runs: usize,
    /// Not by chance.
    sure: bool,
    loss: Loss,
}

/// A loss at a guard that is smaller than this is none.
const LOSS_FROM: f64 = 0.9;

/// A difference between what is set and what is recommended.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Gain {
    /// Name of the point.
    pub point: String,
    /// The figure, a [`Metric::key`].
    pub metric: String,
    /// Its value under what is set, in the metric's unit.
    pub now: f64,
    /// Its value under what is recommended.
    pub then: f64,
    /// `then` over `now`, less 1.
    pub change: f64,
    /// 95 % confidence interval of `change`.
    pub ci95: [f64; 2],
    /// Probability of such a difference by chance.
    pub p: f64,
}

/// The outcome of a race.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The recommended scheduler.
    pub pick: String,
    /// The pick is what is set.
    pub keep: bool,
    /// Of those that are not ruled out, at the point that decides.
    pub ranking: Ranking,
    /// Schedulers that lose throughput at a guard; those that it rules out are not in the ranking.
    pub losses: Vec<Loss>,
    /// Against what is set; none where that is kept.
    pub gain: Option<Gain>,
    /// Schedulers without a significant difference from the pick in the deciding figure.
    pub ties: Vec<String>,
    /// The best by the figures, if it is not the pick, by how much, and with which chance.
    pub unproven: Option<(String, Gain)>,
}

impl Race {
    fn runs<'a>(&self, results: &'a [RunResult], point: usize, name: &str) -> Vec<&'a RunResult> {
        results.iter().filter(|r| r.variant == self.points[point] && r.scheduler == name).collect()
    }

    fn samples(&self, results: &[RunResult], point: usize, name: &str, metric: Metric) -> Vec<(u64, f64)> {
        let at: Vec<&RunResult> = results.iter().filter(|r| r.variant == self.points[point]).collect();
        let focus = Focus::of(&at);
        // A starved run counts with its longest wait, at least its length, so that it can be compared.
        let value = |run: &RunResult| match metric.of(run, &focus) {
            starved if starved.is_infinite() => run.oldest_unfinished_s.max(run.duration_s) * 1e6,
            value => value,
        };
        self.runs(results, point, name).iter().map(|r| (r.seed, value(r))).collect()
    }

    fn current(&self) -> Option<usize> {
        self.schedulers.iter().position(|name| *name == self.current)
    }

    /// Schedulers that move less at a guard than what is set, where both have run often enough.
    fn below(&self, results: &[RunResult]) -> Vec<Below> {
        let mut found = Vec::new();
        let Some(current) = self.current() else { return found };
        for (point, name) in self.points.iter().enumerate().skip(1) {
            let all: Vec<Vec<(u64, f64)>> =
                self.schedulers.iter().map(|name| self.samples(results, point, name, Metric::MbPerS)).collect();
            if all.iter().any(|s| s.len() < GUARD_ROUNDS) {
                continue;
            }
            let means: Vec<f64> = all.iter().map(|s| sample(s).mean).collect();
            for (index, label) in self.schedulers.iter().enumerate() {
                let share = means[index] / means[current];
                if index != current && share < LOSS_FROM {
                    let p = Contrast::of(&all[current], &all[index]).p;
                    let loss = Loss { scheduler: label.clone(), point: (*name).to_owned(), share, p };
                    let runs = all[index].len().min(all[current].len());
                    found.push(Below { point, index, runs: all[index].len(), sure: p <= DROP && runs >= SURE, loss });
                }
            }
        }
        found
    }

    /// The schedulers that are not ruled out, and the losses: one is out where what it gains at the point that decides is not worth what
    /// it loses at a guard. What is set never is.
    fn keepers(&self, results: &[RunResult]) -> (Vec<usize>, Vec<Loss>) {
        let all: Vec<usize> = (0..self.schedulers.len()).collect();
        let losses: Vec<(usize, Loss)> =
            self.below(results).into_iter().filter(|b| b.sure).map(|b| (b.index, b.loss)).collect();
        if losses.is_empty() {
            return (all, Vec::new());
        }
        let ranking = self.ranking(results, &all);
        let rate = Rates::of(self.goal).throughput;
        let gain = |index: usize| {
            let row = ranking.as_ref()?.rows.iter().find(|row| row.scheduler == self.schedulers[index])?;
            row.worth.map(|of| of.gain)
        };
        let worst = |index: usize| losses.iter().filter(|(w, _)| *w == index).map(|(_, l)| l.share).fold(1.0, f64::min);
        let pays = |index: &usize| {
            let lost = -rate * libm::log(worst(*index).max(TINY));
            lost <= 0.0 || gain(*index).is_some_and(|gain| gain - lost >= USEFUL_GAIN)
        };
        (all.into_iter().filter(pays).collect(), losses.into_iter().map(|(_, loss)| loss).collect())
    }

    /// The ranking of these at the point that decides.
    fn ranking(&self, results: &[RunResult], keepers: &[usize]) -> Option<Ranking> {
        let mut runs: Vec<RunResult> =
            keepers.iter().flat_map(|index| self.runs(results, 0, &self.schedulers[*index])).cloned().collect();
        // The sentence names the device; the point is named elsewhere.
        runs.iter_mut().for_each(|run| run.variant = String::new());
        let conditions = Conditions { incumbent: Some(self.current.clone()), ..Conditions::default() };
        rank_under(&runs, self.goal, &conditions).into_iter().next()
    }

    /// The next runs; none when all is decided.
    pub fn next(&self, results: &[RunResult]) -> Vec<Heat> {
        let all = || 0..self.schedulers.len();
        let count = |point: usize, index: usize| self.runs(results, point, &self.schedulers[index]).len();
        let mut heats = Vec::new();
        for point in 0..self.points.len() {
            let least = if point == 0 { ROUNDS_MIN } else { GUARD_ROUNDS };
            let schedulers: Vec<usize> = all().filter(|index| count(point, *index) < least).collect();
            if !schedulers.is_empty() {
                heats.push(Heat { point, schedulers });
            }
        }
        if !heats.is_empty() || self.schedulers.len() < 2 {
            return heats;
        }
        let (keepers, _) = self.keepers(results);
        let leader = self.ranking(results, &keepers).map(|ranking| ranking.rows[0].scheduler.clone());
        let live = self.live(results);
        if live.len() > 1 {
            heats.push(Heat { point: 0, schedulers: live });
        }
        // Only the leader and the current scheduler matter at a guard.
        for b in self.below(results).into_iter().filter(|b| b.point > 0 && !b.sure && b.runs < GUARD_RUNS_MAX) {
            let name = &self.schedulers[b.index];
            if keepers.contains(&b.index) && (leader.as_ref() == Some(name) || *name == self.current) {
                let current = self.current().filter(|current| *current != b.index);
                heats.push(Heat { point: b.point, schedulers: current.into_iter().chain([b.index]).collect() });
            }
        }
        heats
    }

    /// Those among which the point that decides has not decided yet.
    fn live(&self, results: &[RunResult]) -> Vec<usize> {
        let (keepers, _) = self.keepers(results);
        let Some(ranking) = self.ranking(results, &keepers) else { return keepers };
        let few = |index: usize| self.runs(results, 0, &self.schedulers[index]).len() < SURE;
        let decided = ranking.verdict.confidence == Confidence::Clear;
        let row = |index: usize| ranking.rows.iter().find(|row| row.scheduler == self.schedulers[index]);
        let may_gain = |index: usize| row(index).and_then(|row| row.worth).is_none_or(|of| of.at_most > USEFUL_GAIN);
        let is_current = |index: usize| self.schedulers[index] == self.current;
        keepers.iter().copied().filter(|i| few(*i) || !decided && (is_current(*i) || may_gain(*i))).collect()
    }

    /// The outcome; `None` if the current scheduler has not run twice yet.
    pub fn decide(&self, results: &[RunResult]) -> Option<Decision> {
        let enough = |name: &String| self.runs(results, 0, name).len() >= 2;
        if !enough(&self.current) {
            return None;
        }
        let (keepers, losses) = self.keepers(results);
        let keepers: Vec<usize> = keepers.into_iter().filter(|index| enough(&self.schedulers[*index])).collect();
        let ranking = self.ranking(results, &keepers)?;
        let pick = ranking.rows[0].scheduler.clone();
        let worth = |name: &str| ranking.rows.iter().find(|row| row.scheduler == name).and_then(|row| row.worth);
        // The figure that brings the gain: latency, or else throughput.
        let compared = |to: &str| -> Gain {
            let of = |metric: Metric| {
                let of = |name: &str| self.samples(results, 0, name, metric);
                gain(self.points[0], metric, &of(&self.current), &of(to))
            };
            let latency = of(ranking.metric);
            let better = |of: &Gain, metric: Metric| metric.better(of.then, of.now);
            let rate = of(Metric::MbPerS);
            if !better(&latency, ranking.metric) && better(&rate, Metric::MbPerS) { rate } else { latency }
        };
        let keep = pick == self.current;
        let proven = (!keep).then(|| compared(&pick));
        let others = keepers.iter().map(|index| &self.schedulers[*index]).filter(|name| **name != self.current);
        let most = |name: &&String| worth(name).map_or(f64::NEG_INFINITY, |of| of.gain);
        let nearest = others.reduce(|a, b| if most(&b) > most(&a) { b } else { a });
        let unproven = nearest.filter(|name| keep && most(name) > 0.0).map(|name| (name.clone(), compared(name)));
        let tied = |name: &&String| **name != pick && worth(name).is_none_or(|of| of.at_most > -HARMFUL);
        let ties = keepers.iter().map(|index| &self.schedulers[*index]).filter(tied);
        let ties = ties.filter(|name| keep || **name != self.current).cloned().collect();
        Some(Decision { keep, pick, ranking, losses, gain: proven, ties, unproven })
    }
}

fn sample(values: &[(u64, f64)]) -> Sample {
    Sample::of(&values.iter().map(|v| v.1).collect::<Vec<f64>>())
}

/// Rounds that two must have in common to be compared round by round.
const PAIRS_MIN: usize = 4;
/// Smaller figures (a PV of 0) have no logarithm to speak of.
const TINY: f64 = 1e-6;

/// How one differs from another, as a ratio: what slows one run down multiplies its figures. Runs of the same round are next
/// to each other in time, so that whatever else the machine does is much the same for both.
struct Contrast {
    ci95: [f64; 2],
    /// Two-sided; NaN where there are too few runs.
    p: f64,
}

impl Contrast {
    fn of(from: &[(u64, f64)], to: &[(u64, f64)]) -> Contrast {
        let logs = |values: &[(u64, f64)]| -> Vec<(u64, f64)> {
            let finite = values.iter().filter(|v| v.1.is_finite());
            finite.map(|(round, v)| (*round, v.max(TINY).ln())).collect()
        };
        let (from, to) = (logs(from), logs(to));
        let pairs: (Vec<f64>, Vec<f64>) =
            to.iter().filter_map(|(round, b)| Some((*b, from.iter().find(|a| a.0 == *round)?.1))).unzip();
        let (now, then, half, p) = if pairs.0.len() >= PAIRS_MIN {
            let differences: Vec<f64> = pairs.0.iter().zip(&pairs.1).map(|(b, a)| b - a).collect();
            let half = Sample::of(&differences).ci95();
            (Sample::of(&pairs.1).mean, Sample::of(&pairs.0).mean, half, paired(&pairs.0, &pairs.1))
        } else {
            let values = |v: &[(u64, f64)]| v.iter().map(|v| v.1).collect::<Vec<f64>>();
            let (a, b) = (sample(&from), sample(&to));
            (a.mean, b.mean, a.ci95().hypot(b.ci95()), welch(&values(&to), &values(&from)))
        };
        let mean = then - now;
        let ci95 = [(mean - half).exp_m1(), (mean + half).exp_m1()];
        Contrast { ci95, p }
    }
}

/// The difference between two schedulers.
pub fn gain(point: &str, metric: Metric, from: &[(u64, f64)], to: &[(u64, f64)]) -> Gain {
    let Contrast { ci95, p, .. } = Contrast::of(from, to);
    // The means of the table, so that a reader finds them there.
    let (now, then) = (sample(from).mean, sample(to).mean);
    let change = then / now - 1.0;
    let ci95 = [ci95[0].min(change), ci95[1].max(change)];
    Gain { point: point.to_owned(), metric: metric.key().to_owned(), now, then, change, ci95, p }
}

#[cfg(test)]
#[path = "race_tests.rs"]
mod tests;
