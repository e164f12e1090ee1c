//! Training of fully connected networks: backward pass and AdamW.
//!
//! One thread, a counter-based order of rows and sums in a fixed order: the same rows and seed give the same bytes on every
//! machine.

use crate::{LayerWeights, Scaling};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::training::matrix::Matrix;
use crate::training::samples::Rows;

/// Slope of the leaky ReLU below 0.
pub const SLOPE: f32 = 0.01;
/// Inputs are clipped to this many standard deviations, as in inference.
const CLIP: f32 = 6.0;
/// Added to standard deviations, as in inference.
const LEAST_SCALE: f32 = 1e-6;

/// The function that training minimises.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// Cross-entropy over classes, each with a weight.
    Classes(Vec<f32>),
    /// Huber's with a change at 1.
    Huber,
}

/// How a network is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Outputs of each layer.
    pub widths: Vec<usize>,
    /// The function that training minimises.
    pub loss: Loss,
    /// Random seed.
    pub seed: u64,
    /// Most passes over the rows.
    pub epochs: usize,
    /// Passes without a better validation loss after which it stops.
    pub patience: usize,
    /// Rows of a step.
    pub batch: usize,
    /// Learning rate.
    pub rate: f32,
    /// Weight decay per step, as a share of the learning rate.
    pub decay: f32,
}

impl Plan {
    /// The plan of the specification.
    pub fn new(widths: &[usize], loss: Loss, seed: u64) -> Plan {
        Plan { widths: widths.to_vec(), loss, seed, epochs: 25, patience: 6, batch: 512, rate: 2e-3, decay: 1e-5 }
    }
}

/// Rows with their targets.
#[derive(Clone, Copy, Debug)]
pub struct Examples<'a> {
    /// Inputs.
    pub rows: &'a Rows,
    /// A class, or a number.
    pub targets: &'a [f32],
}

/// A trained network.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// First to last.
    pub layers: Vec<LayerWeights>,
    /// Of the inputs.
    pub scaling: Scaling,
    /// Loss on the validation rows before the first pass and after each.
    pub losses: Vec<f64>,
}

/// Mean and standard deviation of each input.
pub fn scaling_of(rows: &Rows) -> Scaling {
    let count = rows.len().max(1) as f64;
    let mut mean = vec![0.0f64; rows.width];
    let mut square = vec![0.0f64; rows.width];
    for index in 0..rows.len() {
        for (i, &x) in rows.row(index).iter().enumerate() {
            mean[i] += f64::from(x);
        }
    }
    mean.iter_mut().for_each(|mean| *mean /= count);
    for index in 0..rows.len() {
        for (i, &x) in rows.row(index).iter().enumerate() {
            square[i] += (f64::from(x) - mean[i]) * (f64::from(x) - mean[i]);
        }
    }
    // A constant input has no deviation; the least one keeps what differs from it within the clip.
    let std = square.iter().map(|square| ((square / count).sqrt() as f32).max(1e-3)).collect();
    Scaling { mean: mean.into_iter().map(|x| x as f32).collect(), std }
}

/// Trains a network from scratch.
pub fn train(plan: &Plan, training: Examples, validation: Examples) -> Trained {
    let scaling = scaling_of(training.rows);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let net = Net::new(training.rows.width, &plan.widths, &mut random);
    fit(plan, net, scaling, random, training, validation)
}

fn fit(
    plan: &Plan,
    mut net: Net,
    scaling: Scaling,
    mut random: Xoshiro256PlusPlus,
    training: Examples,
    validation: Examples,
) -> Trained {
    let mut losses = vec![evaluate(plan, &net, &scaling, validation)];
    let (mut best, mut best_loss, mut waited) = (net.clone(), losses[0], 0);
    let mut order: Vec<usize> = (0..training.rows.len()).collect();
    let mut adam = Adam::new(&net);
    for _ in 0..plan.epochs {
        shuffle(&mut order, &mut random);
        for batch in order.chunks(plan.batch.max(1)) {
            let inputs = scaled(training.rows, batch, &scaling);
            let targets: Vec<f32> = batch.iter().map(|&index| training.targets[index]).collect();
            let (_, gradient) = net.gradient(&inputs, &targets, &plan.loss);
            adam.step(plan, &mut net, &gradient);
        }
        let loss = evaluate(plan, &net, &scaling, validation);
        losses.push(loss);
        if loss < best_loss {
            (best, best_loss, waited) = (net.clone(), loss, 0);
        } else {
            waited += 1;
            if waited >= plan.patience {
                break;
            }
        }
    }
    Trained { layers: best.into_layers(), scaling, losses }
}

fn shuffle(order: &mut [usize], random: &mut impl Rng) {
    for i in (1..order.len()).rev() {
        order.swap(i, random.random_range(0..=i));
    }
}

/// Standardised and clipped inputs of some rows.
fn scaled(rows: &Rows, indices: &[usize], scaling: &Scaling) -> Matrix {
    let mut out = Matrix::zero(indices.len(), rows.width);
    for (at, &index) in indices.iter().enumerate() {
        for (i, (out, &x)) in out.row_mut(at).iter_mut().zip(rows.row(index)).enumerate() {
            *out = ((x - scaling.mean[i]) / (scaling.std[i] + LEAST_SCALE)).clamp(-CLIP, CLIP);
        }
    }
    out
}

/// Mean loss.
fn evaluate(plan: &Plan, net: &Net, scaling: &Scaling, examples: Examples) -> f64 {
    let all: Vec<usize> = (0..examples.rows.len()).collect();
    let (mut sum, mut weight) = (0.0, 0.0);
    for batch in all.chunks(2048) {
        let outputs = net.forward(&scaled(examples.rows, batch, scaling)).pop().unwrap_or_default();
        for (at, &index) in batch.iter().enumerate() {
            let (loss, w) = loss_of(outputs.row(at), examples.targets[index], &plan.loss, None);
            sum += loss;
            weight += w;
        }
    }
    if weight > 0.0 { sum / weight } else { 0.0 }
}

/// Loss and weight of one row; writes the loss's derivative by the outputs.
fn loss_of(outputs: &[f32], target: f32, loss: &Loss, derivative: Option<&mut [f32]>) -> (f64, f64) {
    match loss {
        Loss::Classes(weights) => {
            let class = target as usize;
            let weight = weights[class];
            let highest = outputs.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
            let exps: Vec<f32> = outputs.iter().map(|&x| libm::expf(x - highest)).collect();
            let sum: f32 = exps.iter().sum();
            if let Some(derivative) = derivative {
                for (i, (out, exp)) in derivative.iter_mut().zip(&exps).enumerate() {
                    *out = weight * (exp / sum - if i == class { 1.0 } else { 0.0 });
                }
            }
            let p = f64::from(exps[class] / sum).max(1e-30);
            (f64::from(weight) * -libm::log(p), f64::from(weight))
        }
        Loss::Huber => {
            let error = outputs[0] - target;
            if let Some(derivative) = derivative {
                derivative[0] = error.clamp(-1.0, 1.0);
            }
            let size = f64::from(error.abs());
            (if size <= 1.0 { size * size / 2.0 } else { size - 0.5 }, 1.0)
        }
    }
}

/// The weights during training: `inputs x outputs` for each layer.
#[derive(Clone, Debug)]
struct Net {
    weights: Vec<Matrix>,
    biases: Vec<Vec<f32>>,
}

impl Net {
    fn new(inputs: usize, widths: &[usize], random: &mut impl Rng) -> Net {
        let mut net = Net { weights: Vec::new(), biases: Vec::new() };
        let mut before = inputs;
        for &width in widths {
            let bound = 1.0 / (before as f32).sqrt();
            let mut draw = |count: usize| (0..count).map(|_| random.random_range(-bound..=bound)).collect::<Vec<f32>>();
            net.weights.push(Matrix { rows: before, columns: width, values: draw(before * width) });
            net.biases.push(draw(width));
            before = width;
        }
        net
    }

    fn into_layers(self) -> Vec<LayerWeights> {
        let layer = |(weights, bias): (Matrix, Vec<f32>)| LayerWeights { weight: weights.transposed().values, bias };
        self.weights.into_iter().zip(self.biases).map(layer).collect()
    }

    /// The outputs of each layer, before the leaky ReLU.
    fn forward(&self, inputs: &Matrix) -> Vec<Matrix> {
        let mut sums: Vec<Matrix> = Vec::new();
        for (weights, bias) in self.weights.iter().zip(&self.biases) {
            let mut out = Matrix::zero(inputs.rows, weights.columns);
            (0..out.rows).for_each(|row| out.row_mut(row).copy_from_slice(bias));
            match sums.last() {
                None => out.add_product(inputs, weights),
                Some(before) => out.add_product(&activated(before), weights),
            }
            sums.push(out);
        }
        sums
    }

    /// Mean loss and its derivative by all weights and biases.
    fn gradient(&self, inputs: &Matrix, targets: &[f32], loss: &Loss) -> (f64, Net) {
        let sums = self.forward(inputs);
        let outputs = &sums[sums.len() - 1];
        let mut delta = Matrix::zero(outputs.rows, outputs.columns);
        let (mut total, mut weight) = (0.0, 0.0);
        for (row, &target) in targets.iter().enumerate() {
            let (loss, w) = loss_of(outputs.row(row), target, loss, Some(delta.row_mut(row)));
            total += loss;
            weight += w;
        }
        let scale = 1.0 / weight.max(1e-12) as f32;
        delta.values.iter_mut().for_each(|x| *x *= scale);
        let mut gradient = Net { weights: Vec::new(), biases: Vec::new() };
        for layer in (0..self.weights.len()).rev() {
            let mut weights = Matrix::zero(self.weights[layer].rows, self.weights[layer].columns);
            match layer {
                0 => weights.add_product(&inputs.transposed(), &delta),
                _ => weights.add_product(&activated(&sums[layer - 1]).transposed(), &delta),
            }
            let mut bias = vec![0.0; delta.columns];
            for row in 0..delta.rows {
                bias.iter_mut().zip(delta.row(row)).for_each(|(bias, x)| *bias += x);
            }
            gradient.weights.push(weights);
            gradient.biases.push(bias);
            if layer > 0 {
                let mut before = Matrix::zero(delta.rows, self.weights[layer].rows);
                before.add_product(&delta, &self.weights[layer].transposed());
                for (x, &sum) in before.values.iter_mut().zip(&sums[layer - 1].values) {
                    *x *= if sum > 0.0 { 1.0 } else { SLOPE };
                }
                delta = before;
            }
        }
        gradient.weights.reverse();
        gradient.biases.reverse();
        (total / weight.max(1e-12), gradient)
    }

    fn parts(&self) -> impl Iterator<Item = &Vec<f32>> {
        self.weights.iter().map(|weights| &weights.values).chain(&self.biases)
    }

    fn parts_mut(&mut self) -> impl Iterator<Item = &mut Vec<f32>> {
        self.weights.iter_mut().map(|weights| &mut weights.values).chain(&mut self.biases)
    }
}

fn activated(sums: &Matrix) -> Matrix {
    let values = sums.values.iter().map(|&x| if x > 0.0 { x } else { SLOPE * x }).collect();
    Matrix { values, ..*sums }
}

/// AdamW's running means.
struct Adam {
    mean: Vec<Vec<f32>>,
    square: Vec<Vec<f32>>,
    /// Powers of the two forgetting factors.
    powers: [f32; 2],
}

impl Adam {
    const MEAN: f32 = 0.9;
    const SQUARE: f32 = 0.999;
    const LEAST: f32 = 1e-8;

    fn new(net: &Net) -> Adam {
        let zeros = || net.parts().map(|part| vec![0.0; part.len()]).collect();
        Adam { mean: zeros(), square: zeros(), powers: [1.0, 1.0] }
    }

    fn step(&mut self, plan: &Plan, net: &mut Net, gradient: &Net) {
        self.powers = [self.powers[0] * Adam::MEAN, self.powers[1] * Adam::SQUARE];
        let (fix_mean, fix_square) = (1.0 - self.powers[0], 1.0 - self.powers[1]);
        let running = self.mean.iter_mut().zip(&mut self.square);
        for ((part, gradient), (mean, square)) in net.parts_mut().zip(gradient.parts()).zip(running) {
            for i in 0..part.len() {
                let g = gradient[i];
                mean[i] = Adam::MEAN * mean[i] + (1.0 - Adam::MEAN) * g;
                square[i] = Adam::SQUARE * square[i] + (1.0 - Adam::SQUARE) * g * g;
                let step = (mean[i] / fix_mean) / ((square[i] / fix_square).sqrt() + Adam::LEAST);
                part[i] -= plan.rate * (step + plan.decay * part[i]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
