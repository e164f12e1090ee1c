//! The order of runs in a survey, and the decision from their results. It needs results only, so tests need no device.
//!
//! The first point decides, by the rule of `compare` for the goal. The others are guards: a scheduler that loses throughput
//! there is ruled out, however low its latency.

use crate::decision::Replication;
use crate::ranking::rank_by;
use crate::{Conditions, Focus, Goal, Metric, Ranking};
use dumbwaiter_measure::{RunResult, SIGNIFICANCE, Sample, holm, paired, welch};

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
/// Means nearer than this are the same for all practical purposes.
const SAME: f64 = 0.02;

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
    /// Its part of the best throughput there.
    pub share: f64,
    /// Probability of such a loss by chance.
    pub p: f64,
}

impl Loss {
    /// The loss in a sentence; `recommended` is the scheduler that is recommended.
    pub fn sentence(&self, recommended: &str) -> String {
        let effect = if self.scheduler == recommended { "loses throughput" } else { "is ruled out" };
        let Loss { scheduler, point, share, p } = self;
        format!("{scheduler} {effect}: {:.0} % of the best throughput at {point} (p = {p:.3}).", share * 100.0)
    }
}

/// A scheduler below the throughput floor at a point.
struct Below {
    point: usize,
    index: usize,
    /// The scheduler with the highest throughput there.
    best: usize,
    runs: usize,
    /// Not by chance.
    sure: bool,
    loss: Loss,
}

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
    /// Probability of such a difference by chance, corrected for the number of schedulers or methods that were compared.
    pub p: f64,
}

/// The outcome of a race.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The recommended scheduler.
    pub pick: String,
    /// The pick is what is set.
    pub keep: bool,
    /// Of those that lose nothing, at the point that decides.
    pub ranking: Ranking,
    /// Schedulers ruled out by lost throughput.
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

    /// Part of the best throughput that must be kept at every point.
    pub fn floor(&self) -> f64 {
        if self.goal == Goal::Throughput { Goal::Balanced.throughput_floor() } else { self.goal.throughput_floor() }
    }

    /// Schedulers whose mean is below the floor, at every point where all have run often enough.
    fn below(&self, results: &[RunResult]) -> Vec<Below> {
        let mut found = Vec::new();
        for (point, name) in self.points.iter().enumerate() {
            let all: Vec<Vec<(u64, f64)>> =
                self.schedulers.iter().map(|name| self.samples(results, point, name, Metric::MbPerS)).collect();
            if all.iter().any(|s| s.len() < GUARD_ROUNDS) {
                continue;
            }
            let means: Vec<f64> = all.iter().map(|s| sample(s).mean).collect();
            let best = (0..means.len()).fold(0, |best, i| if means[i] > means[best] { i } else { best });
            for (index, label) in self.schedulers.iter().enumerate() {
                let share = means[index] / means[best];
                if share < self.floor() {
                    let p = Contrast::of(&all[best], &all[index]).p;
                    let loss = Loss { scheduler: label.clone(), point: (*name).to_owned(), share, p };
                    let runs = all[index].len().min(all[best].len());
                    // There is one point that decides, but many guards.
                    let sure = if point == 0 { p <= SIGNIFICANCE } else { p <= DROP && runs >= SURE };
                    found.push(Below { point, index, best, runs: all[index].len(), sure, loss });
                }
            }
        }
        found
    }

    /// The schedulers that are not ruled out (where all are, those that lose least), and the losses.
    fn keepers(&self, results: &[RunResult]) -> (Vec<usize>, Vec<Loss>) {
        let losses: Vec<(usize, Loss)> =
            self.below(results).into_iter().filter(|b| b.sure).map(|b| (b.index, b.loss)).collect();
        let worst = |index: usize| losses.iter().filter(|(w, _)| *w == index).map(|(_, l)| l.share).fold(1.0, f64::min);
        let mut keepers: Vec<usize> = (0..self.schedulers.len()).filter(|index| worst(*index) >= 1.0).collect();
        if keepers.is_empty() {
            let least = (0..self.schedulers.len()).map(worst).fold(0.0, f64::max);
            keepers = (0..self.schedulers.len()).filter(|index| worst(*index) >= least - SAME).collect();
        }
        (keepers, losses.into_iter().map(|(_, loss)| loss).collect())
    }

    /// The ranking of those that lose nothing, at the point that decides.
    fn ranking(&self, results: &[RunResult], keepers: &[usize]) -> Option<Ranking> {
        let mut runs: Vec<RunResult> =
            keepers.iter().flat_map(|index| self.runs(results, 0, &self.schedulers[*index])).cloned().collect();
        // The sentence names the device; the point is named elsewhere.
        runs.iter_mut().for_each(|run| run.variant = String::new());
        rank_by(&runs, self.goal, Replication::Adaptive, &Conditions::default()).into_iter().next()
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
                heats.push(Heat { point: b.point, schedulers: vec![b.best, b.index] });
            }
        }
        heats
    }

    /// Those among which the point that decides has not decided yet.
    fn live(&self, results: &[RunResult]) -> Vec<usize> {
        let (keepers, _) = self.keepers(results);
        let Some(ranking) = self.ranking(results, &keepers) else { return keepers };
        let of = |index: usize| self.samples(results, 0, &self.schedulers[index], ranking.metric);
        let Some(leader) = keepers.iter().copied().find(|index| self.schedulers[*index] == ranking.rows[0].scheduler)
        else {
            return keepers;
        };
        let first = of(leader);
        let doubtful: Vec<usize> =
            self.below(results).into_iter().filter(|b| b.point == 0 && !b.sure).map(|b| b.index).collect();
        let open = |index: usize| {
            let own = of(index);
            let few = own.len() < SURE || first.len() < SURE;
            let contrast = Contrast::of(&first, &own);
            few || doubtful.contains(&index) || contrast.p.is_nan() || contrast.p > DROP && !contrast.is_none()
        };
        keepers.iter().copied().filter(|index| *index == leader || open(*index)).collect()
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
        let winner = ranking.rows[0].scheduler.clone();
        let gain = |metric: Metric, point: usize, to: &str| {
            let of = |name: &str| self.samples(results, point, name, metric);
            gain(self.points[point], metric, &of(&self.current), &of(to))
        };
        // p values of the differences of the others from one, corrected for their number.
        let p_values = |from: &str| -> Vec<(&String, f64)> {
            let of = |name: &str| self.samples(results, 0, name, ranking.metric);
            let others: Vec<&String> =
                keepers.iter().map(|index| &self.schedulers[*index]).filter(|name| *name != from).collect();
            let p: Vec<f64> = others.iter().map(|name| Contrast::of(&of(from), &of(name)).p).collect();
            others.into_iter().zip(holm(&p)).collect()
        };
        let loses = losses.iter().filter(|l| l.scheduler == self.current).min_by(|a, b| a.share.total_cmp(&b.share));
        let current_is_in = keepers.iter().any(|index| self.schedulers[*index] == self.current);
        let (pick, proven, unproven) = if winner == self.current {
            (winner, None, None)
        } else if let Some(loss) = loses.filter(|_| !current_is_in) {
            let point = self.points.iter().position(|p| *p == loss.point).unwrap_or(0);
            let difference = gain(Metric::MbPerS, point, &winner);
            // A loss to some scheduler does not show that the winner has more throughput.
            if difference.then > difference.now && difference.p <= SIGNIFICANCE {
                (winner, Some(difference), None)
            } else {
                (self.current.clone(), None, Some((winner, difference)))
            }
        } else {
            // The winner is the best of several, each of which was compared with what is set.
            let found = p_values(&self.current).into_iter().find(|(name, _)| **name == winner);
            let difference = Gain { p: found.map_or(f64::NAN, |(_, p)| p), ..gain(ranking.metric, 0, &winner) };
            let better = ranking.metric.better(difference.then, difference.now);
            // The current setting stays, unless another is better by more than chance and by an amount that can be noticed.
            if better && difference.p <= SIGNIFICANCE && difference.change.abs() > SAME {
                (winner, Some(difference), None)
            } else {
                (self.current.clone(), None, better.then_some((winner, difference)))
            }
        };
        let tied = p_values(&pick).into_iter().filter(|(_, p)| *p > SIGNIFICANCE);
        let ties = tied.map(|(name, _)| name.clone()).collect();
        Some(Decision { keep: pick == self.current, pick, ranking, losses, gain: proven, ties, unproven })
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

    /// Is the whole confidence interval within [`SAME`]?
    fn is_none(&self) -> bool {
        self.ci95[0] > -SAME && self.ci95[1] < SAME
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
