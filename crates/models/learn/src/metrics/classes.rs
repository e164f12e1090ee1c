//! Metrics of classifiers.

use serde::Serialize;

use crate::Posterior;
use crate::classifier::MAX_CLASSES;

/// Workloads of random access, which count as one in merged accuracy A and B.
const RANDOM: [&str; 4] = ["readwhilewriting", "readrandomwriterandom", "readrandom", "mixgraph"];
/// Fills, which count as one in merged accuracy B.
const FILLS: [&str; 2] = ["fillseq", "fill100k"];
/// Bins of the calibration error.
const BINS: usize = 15;
/// Merged probability below which a prediction is withheld in [`Accuracy::confident`].
pub const CONFIDENCE: f32 = 0.6;

/// For each class, the first class of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups(Vec<usize>);

impl Groups {
    /// Each class by itself.
    pub fn raw(classes: usize) -> Groups {
        Groups((0..classes).collect())
    }

    /// The random-access workloads as one: merged accuracy A.
    pub fn merged_a(classes: &[String]) -> Groups {
        Groups::merge(classes, &[&RANDOM])
    }

    /// The random-access workloads as one and the fills as one: merged accuracy B.
    pub fn merged_b(classes: &[String]) -> Groups {
        Groups::merge(classes, &[&RANDOM, &FILLS])
    }

    fn merge(classes: &[String], sets: &[&[&str]]) -> Groups {
        let first_like = |index: usize, class: &String| {
            let set = sets.iter().find(|set| set.contains(&class.as_str()));
            set.and_then(|set| classes.iter().position(|other| set.contains(&other.as_str()))).unwrap_or(index)
        };
        Groups(classes.iter().enumerate().map(|(index, class)| first_like(index, class)).collect())
    }

    /// The group of a class.
    pub fn of(&self, class: usize) -> usize {
        self.0[class]
    }

    /// The most probable group, and its probability.
    pub fn most_probable(&self, posterior: &Posterior) -> (usize, f32) {
        let mut sums = [0.0f32; MAX_CLASSES];
        for (class, p) in posterior.probabilities().iter().enumerate() {
            sums[self.0[class]] += p;
        }
        let mut best = (0, sums[0]);
        for (group, &p) in sums[..self.0.len()].iter().enumerate() {
            if p > best.1 {
                best = (group, p);
            }
        }
        best
    }
}

/// Predictions for the windows of one run, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Classified {
    /// The true class.
    pub class: usize,
    /// Predictions.
    pub posteriors: Vec<Posterior>,
}

/// Accuracies from 0 to 1, each the mean over the true classes, so that a frequent class does not weigh more.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// The most probable class is the true one.
    pub raw: f64,
    /// The most probable class is in the true one's group A.
    pub merged_a: f64,
    /// The most probable class is in the true one's group B.
    pub merged_b: f64,
    /// As `merged_a`, of the mean of 16 consecutive predictions.
    pub voted_16: f64,
    /// As `merged_a`, of the mean of 64 consecutive predictions.
    pub voted_64: f64,
    /// Of the predictions whose group B has a probability of at least 0.6.
    pub confident: Confident,
    /// Expected difference of probability and accuracy of the most probable class, in 15 bins.
    pub calibration_error: f64,
}

/// Accuracy where predictions of little confidence are withheld.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Confident {
    /// Share of predictions that remain.
    pub coverage: f64,
    /// Their merged accuracy B.
    pub merged_b: f64,
}

impl Accuracy {
    /// Of predictions by run.
    pub fn of(runs: &[Classified], classes: &[String]) -> Accuracy {
        let raw = Groups::raw(classes.len());
        let (a, b) = (Groups::merged_a(classes), Groups::merged_b(classes));
        Accuracy {
            raw: balanced(runs, classes.len(), &raw),
            merged_a: balanced(runs, classes.len(), &a),
            merged_b: balanced(runs, classes.len(), &b),
            voted_16: balanced(&voted(runs, 16), classes.len(), &a),
            voted_64: balanced(&voted(runs, 64), classes.len(), &a),
            confident: confident(runs, classes.len(), &b),
            calibration_error: calibration_error(runs),
        }
    }
}

/// Share of predictions in the right group: the mean over the classes that occur.
fn balanced(runs: &[Classified], classes: usize, groups: &Groups) -> f64 {
    let mut right = vec![0usize; classes];
    let mut all = vec![0usize; classes];
    for run in runs {
        let hits = run.posteriors.iter().filter(|posterior| {
            let (class, _) = posterior.most_probable();
            groups.of(class) == groups.of(run.class)
        });
        right[run.class] += hits.count();
        all[run.class] += run.posteriors.len();
    }
    let shares = right.iter().zip(&all).filter(|&(_, &all)| all > 0).map(|(&right, &all)| right as f64 / all as f64);
    mean(shares)
}

/// The means of `count` consecutive predictions; a rest is left out unless it is all that a run has.
fn voted(runs: &[Classified], count: usize) -> Vec<Classified> {
    let vote = |run: &Classified| {
        let size = count.min(run.posteriors.len()).max(1);
        let posteriors = run.posteriors.chunks_exact(size).filter_map(Posterior::mean).collect();
        Classified { class: run.class, posteriors }
    };
    runs.iter().map(vote).collect()
}

fn confident(runs: &[Classified], classes: usize, groups: &Groups) -> Confident {
    let keep = |posterior: &&Posterior| groups.most_probable(posterior).1 >= CONFIDENCE;
    let kept: Vec<Classified> = runs
        .iter()
        .map(|run| Classified { class: run.class, posteriors: run.posteriors.iter().filter(keep).copied().collect() })
        .collect();
    let count = |runs: &[Classified]| runs.iter().map(|run| run.posteriors.len()).sum::<usize>();
    let coverage = count(&kept) as f64 / count(runs).max(1) as f64;
    Confident { coverage, merged_b: balanced(&kept, classes, groups) }
}

fn calibration_error(runs: &[Classified]) -> f64 {
    let mut bins = [(0usize, 0usize, 0.0f64); BINS];
    let mut all = 0usize;
    for run in runs {
        for posterior in &run.posteriors {
            let (class, p) = posterior.most_probable();
            let bin = &mut bins[((p * BINS as f32) as usize).min(BINS - 1)];
            *bin = (bin.0 + 1, bin.1 + usize::from(class == run.class), bin.2 + f64::from(p));
            all += 1;
        }
    }
    bins.iter().map(|&(_, right, p)| (right as f64 - p).abs()).sum::<f64>() / all.max(1) as f64
}

/// The confusion matrix in per cent: rows predicted, columns true; each column sums to 100, or is 0 if the class does not occur.
pub fn confusion(runs: &[Classified], classes: usize) -> Vec<Vec<f64>> {
    let mut counts = vec![vec![0.0; classes]; classes];
    for run in runs {
        for posterior in &run.posteriors {
            counts[posterior.most_probable().0][run.class] += 1.0;
        }
    }
    for column in 0..classes {
        let sum: f64 = counts.iter().map(|row| row[column]).sum();
        if sum > 0.0 {
            counts.iter_mut().for_each(|row| row[column] *= 100.0 / sum);
        }
    }
    counts
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { 0.0 } else { sum / count as f64 }
}
