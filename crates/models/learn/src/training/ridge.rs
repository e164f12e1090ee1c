//! Linear models by least squares with a penalty on large weights.

use crate::{LayerWeights, Scaling};

use crate::training::network::scaling_of;
use crate::training::samples::Rows;

/// Penalty, as a share of the number of rows, on scaled inputs.
const PENALTY: f64 = 1e-3;

/// The weights of a linear model, and the scaling of its inputs. Inputs from number `used` on get no weight.
pub(crate) fn ridge(rows: &Rows, targets: &[f32], used: usize) -> (LayerWeights, Scaling) {
    let scaling = scaling_of(rows);
    let mean = targets.iter().map(|&y| f64::from(y)).sum::<f64>() / targets.len().max(1) as f64;
    let mut square = vec![0.0f64; used * used];
    let mut product = vec![0.0f64; used];
    let mut row = vec![0.0f64; used];
    for (index, &target) in targets.iter().enumerate() {
        for (i, (x, &raw)) in row.iter_mut().zip(rows.row(index)).enumerate() {
            *x = f64::from((raw - scaling.mean[i]) / (scaling.std[i] + 1e-6)).clamp(-6.0, 6.0);
        }
        for i in 0..used {
            product[i] += row[i] * (f64::from(target) - mean);
            for j in 0..=i {
                square[i * used + j] += row[i] * row[j];
            }
        }
    }
    for i in 0..used {
        square[i * used + i] += PENALTY * rows.len() as f64;
    }
    let mut weight: Vec<f32> = solve(&mut square, product, used).into_iter().map(|w| w as f32).collect();
    weight.resize(rows.width, 0.0);
    (LayerWeights { weight, bias: vec![mean as f32] }, scaling)
}

/// Solves a symmetric positive definite system, of which the lower triangle is given, by Cholesky's decomposition.
fn solve(matrix: &mut [f64], mut right: Vec<f64>, n: usize) -> Vec<f64> {
    for i in 0..n {
        for j in 0..=i {
            let dot: f64 = (0..j).map(|k| matrix[i * n + k] * matrix[j * n + k]).sum();
            let rest = matrix[i * n + j] - dot;
            matrix[i * n + j] = if i == j { rest.max(1e-12).sqrt() } else { rest / matrix[j * n + j] };
        }
    }
    for i in 0..n {
        let dot: f64 = (0..i).map(|k| matrix[i * n + k] * right[k]).sum();
        right[i] = (right[i] - dot) / matrix[i * n + i];
    }
    for i in (0..n).rev() {
        let dot: f64 = (i + 1..n).map(|k| matrix[k * n + i] * right[k]).sum();
        right[i] = (right[i] - dot) / matrix[i * n + i];
    }
    right
}
