//! Training of decision trees and boosted trees, from histograms of the inputs.

use crate::{LEAF, ModelError, Node, Posterior, Trees};

use crate::training::samples::Rows;

/// Bins of an input.
const BINS: usize = 64;
/// Rows from which bins are derived.
const BIN_SAMPLE: usize = 20_000;
/// Smallest gain for which a node is split.
const LEAST_GAIN: f64 = 1e-9;
/// Probabilities in leaves are at least this, so that their logarithm exists.
const LEAST_PROBABILITY: f32 = 1e-4;

/// How trees grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Growth {
    /// Most comparisons from the root to a leaf.
    pub(crate) depth: usize,
    /// Fewest rows of a leaf.
    pub(crate) leaf_rows: usize,
    /// Added to the weight of a leaf's rows; pulls its value to 0.
    pub(crate) ridge: f64,
}

/// How boosted trees are trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Boost {
    /// Rounds; each adds a tree per output.
    pub(crate) rounds: usize,
    /// Share of each tree's value that is added.
    pub(crate) rate: f32,
    /// Of each tree.
    pub(crate) growth: Growth,
}

impl Boost {
    /// For a number of rounds.
    pub(crate) fn new(rounds: usize) -> Boost {
        Boost { rounds, rate: 0.15, growth: Growth { depth: 4, leaf_rows: 20, ridge: 1.0 } }
    }
}

/// A tree that names a class: it splits by Gini impurity, each class weighing the same, to depth 12 with 20 rows a leaf.
pub(crate) fn classification_tree(rows: &Rows, classes: usize) -> Result<Trees, ModelError> {
    let weights = balanced_weights(&rows.truths, classes);
    let mut targets = vec![0.0; rows.len() * classes];
    for (index, &class) in rows.truths.iter().enumerate() {
        targets[index * classes + class as usize] = 1.0;
    }
    let growth = Growth { depth: 12, leaf_rows: 20, ridge: 0.0 };
    let mut forest = Forest::default();
    Binned::new(rows).grow(&targets, &weights, classes, growth, 1.0, &mut forest);
    // As logarithms, so that a softmax returns the probabilities.
    forest.leaves.iter_mut().for_each(|p| *p = libm::logf(p.max(LEAST_PROBABILITY)));
    forest.into_trees(rows.width, 0, vec![0.0; classes])
}

/// A tree that predicts a number, to a depth.
pub(crate) fn regression_tree(rows: &Rows, targets: &[f32], own: usize, depth: usize) -> Result<Trees, ModelError> {
    let growth = Growth { depth, leaf_rows: 20, ridge: 0.0 };
    let mut forest = Forest::default();
    Binned::new(rows).grow(targets, &vec![1.0; rows.len()], 1, growth, 1.0, &mut forest);
    forest.into_trees(rows.width, own, vec![0.0])
}

/// Boosted trees that name a class.
pub(crate) fn boosted_classes(rows: &Rows, classes: usize, boost: Boost) -> Result<Trees, ModelError> {
    let binned = Binned::new(rows);
    let weights = balanced_weights(&rows.truths, classes);
    let mut scores = vec![0.0f32; rows.len() * classes];
    let mut forest = Forest::default();
    for _ in 0..boost.rounds {
        let posteriors: Vec<Posterior> = scores.chunks(classes).map(|row| Posterior::softmax(row, 1.0)).collect();
        for class in 0..classes {
            let (mut steps, mut curvatures) = (vec![0.0; rows.len()], vec![0.0; rows.len()]);
            for (index, posterior) in posteriors.iter().enumerate() {
                let p = posterior.probabilities()[class];
                let curvature = (p * (1.0 - p)).max(1e-4);
                let truth = if rows.truths[index] as usize == class { 1.0 } else { 0.0 };
                steps[index] = (truth - p) / curvature;
                curvatures[index] = weights[index] * curvature;
            }
            let root = binned.grow(&steps, &curvatures, 1, boost.growth, boost.rate, &mut forest);
            for index in 0..rows.len() {
                scores[index * classes + class] += forest.value(root, rows.row(index));
            }
        }
    }
    forest.into_trees(rows.width, 0, vec![0.0; classes])
}

/// Boosted trees that predict a number, with squared loss.
pub(crate) fn boosted_regression(rows: &Rows, targets: &[f32], own: usize, boost: Boost) -> Result<Trees, ModelError> {
    let binned = Binned::new(rows);
    let mean = targets.iter().map(|&y| f64::from(y)).sum::<f64>() / targets.len().max(1) as f64;
    let mut scores = vec![mean as f32; rows.len()];
    let ones = vec![1.0; rows.len()];
    let mut forest = Forest::default();
    for _ in 0..boost.rounds {
        let rest: Vec<f32> = targets.iter().zip(&scores).map(|(y, score)| y - score).collect();
        let root = binned.grow(&rest, &ones, 1, boost.growth, boost.rate, &mut forest);
        for (index, score) in scores.iter_mut().enumerate() {
            *score += forest.value(root, rows.row(index));
        }
    }
    forest.into_trees(rows.width, own, vec![mean as f32])
}

fn balanced_weights(truths: &[f32], classes: usize) -> Vec<f32> {
    let mut counts = vec![0usize; classes];
    truths.iter().for_each(|&class| counts[class as usize] += 1);
    truths.iter().map(|&class| truths.len() as f32 / (classes * counts[class as usize].max(1)) as f32).collect()
}

/// Trees while they grow.
#[derive(Default)]
struct Forest {
    roots: Vec<u32>,
    nodes: Vec<Node>,
    leaves: Vec<f32>,
    leaf_count: u32,
}

impl Forest {
    fn value(&self, root: u32, row: &[f32]) -> f32 {
        let mut node = self.nodes[root as usize];
        while node.feature != LEAF {
            let goes_left = row[usize::from(node.feature)] <= node.threshold;
            node = self.nodes[node.left as usize + usize::from(!goes_left)];
        }
        self.leaves[node.left as usize]
    }

    fn into_trees(self, inputs: usize, own: usize, base: Vec<f32>) -> Result<Trees, ModelError> {
        Trees::new(inputs, own, base, self.roots, self.nodes, self.leaves)
    }
}

/// The inputs as numbers of bins, input by input.
struct Binned<'a> {
    rows: &'a Rows,
    bins: Vec<u8>,
    /// For each input, the largest value of each bin but the last.
    limits: Vec<Vec<f32>>,
}

/// The best split of a node.
struct Split {
    gain: f64,
    feature: usize,
    bin: usize,
}

impl Binned<'_> {
    fn new(rows: &Rows) -> Binned<'_> {
        let step = (rows.len() / BIN_SAMPLE).max(1);
        let mut bins = vec![0; rows.len() * rows.width];
        let mut limits = Vec::new();
        for feature in 0..rows.width {
            let mut values: Vec<f32> = (0..rows.len()).step_by(step).map(|index| rows.row(index)[feature]).collect();
            values.sort_by(f32::total_cmp);
            let mut cuts: Vec<f32> = (1..BINS).map(|bin| values[bin * values.len() / BINS]).collect();
            cuts.dedup();
            for index in 0..rows.len() {
                let value = rows.row(index)[feature];
                bins[feature * rows.len() + index] = cuts.partition_point(|&cut| cut < value) as u8;
            }
            limits.push(cuts);
        }
        Binned { rows, bins, limits }
    }

    /// Grows one tree for `width` targets a row, adds it to the forest and returns its root.
    fn grow(
        &self,
        targets: &[f32],
        weights: &[f32],
        width: usize,
        growth: Growth,
        rate: f32,
        forest: &mut Forest,
    ) -> u32 {
        let root = forest.nodes.len() as u32;
        forest.roots.push(root);
        forest.nodes.push(Node { feature: LEAF, threshold: 0.0, left: 0 });
        let fit = Fit { targets, weights, width, growth };
        let mut open = vec![(root, (0..self.rows.len() as u32).collect::<Vec<u32>>(), 0)];
        while let Some((at, members, depth)) = open.pop() {
            let split = if depth < growth.depth { self.best_split(&fit, &members) } else { None };
            let Some(split) = split else {
                let (sums, weight) = fit.sums(&members);
                let values = sums.iter().map(|sum| rate * (sum / (weight + growth.ridge).max(1e-12)) as f32);
                forest.leaves.extend(values);
                forest.nodes[at as usize].left = forest.leaf_count;
                forest.leaf_count += 1;
                continue;
            };
            let left = forest.nodes.len() as u32;
            let threshold = self.limits[split.feature][split.bin];
            forest.nodes[at as usize] = Node { feature: split.feature as u16, threshold, left };
            forest.nodes.extend([Node { feature: LEAF, threshold: 0.0, left: 0 }; 2]);
            let column = &self.bins[split.feature * self.rows.len()..];
            let (low, high): (Vec<u32>, Vec<u32>) =
                members.into_iter().partition(|&index| usize::from(column[index as usize]) <= split.bin);
            open.push((left + 1, high, depth + 1));
            open.push((left, low, depth + 1));
        }
        root
    }

    fn best_split(&self, fit: &Fit, members: &[u32]) -> Option<Split> {
        if members.len() < 2 * fit.growth.leaf_rows {
            return None;
        }
        let (sums, weight) = fit.sums(members);
        let whole = fit.score(&sums, weight);
        let mut best: Option<Split> = None;
        let mut histogram = vec![0.0f64; BINS * (fit.width + 1)];
        let mut counts = [0usize; BINS];
        for feature in 0..self.rows.width {
            if self.limits[feature].is_empty() {
                continue;
            }
            histogram.fill(0.0);
            counts.fill(0);
            let column = &self.bins[feature * self.rows.len()..];
            for &index in members {
                let bin = usize::from(column[index as usize]);
                fit.add(index, &mut histogram[bin * (fit.width + 1)..][..=fit.width]);
                counts[bin] += 1;
            }
            let (mut low, mut count) = (vec![0.0; fit.width + 1], 0);
            for bin in 0..self.limits[feature].len() {
                low.iter_mut().zip(&histogram[bin * (fit.width + 1)..]).for_each(|(low, x)| *low += x);
                count += counts[bin];
                if count < fit.growth.leaf_rows || members.len() - count < fit.growth.leaf_rows {
                    continue;
                }
                let high: Vec<f64> = sums.iter().zip(&low).map(|(sum, low)| sum - low).collect();
                let gain =
                    fit.score(&low[..fit.width], low[fit.width]) + fit.score(&high, weight - low[fit.width]) - whole;
                if gain > LEAST_GAIN && best.as_ref().is_none_or(|best| gain > best.gain) {
                    best = Some(Split { gain, feature, bin });
                }
            }
        }
        best
    }
}

/// The targets that a tree is fitted to, and its limits of growth.
struct Fit<'a> {
    targets: &'a [f32],
    weights: &'a [f32],
    width: usize,
    growth: Growth,
}

impl Fit<'_> {
    /// Adds a row's weighted targets and its weight.
    fn add(&self, index: u32, sums: &mut [f64]) {
        let index = index as usize;
        let weight = f64::from(self.weights[index]);
        for (sum, &target) in sums.iter_mut().zip(&self.targets[index * self.width..][..self.width]) {
            *sum += weight * f64::from(target);
        }
        sums[self.width] += weight;
    }

    fn sums(&self, members: &[u32]) -> (Vec<f64>, f64) {
        let mut sums = vec![0.0; self.width + 1];
        members.iter().for_each(|&index| self.add(index, &mut sums));
        let weight = sums.pop().unwrap_or(0.0);
        (sums, weight)
    }

    /// How much a leaf of these sums reduces the squared error.
    fn score(&self, sums: &[f64], weight: f64) -> f64 {
        sums.iter().map(|sum| sum * sum).sum::<f64>() / (weight + self.growth.ridge).max(1e-12)
    }
}
