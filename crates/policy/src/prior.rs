//! A table of expected scores by workload: what a model proposes.

use crate::signature::Signature;

/// One row: a load, and each candidate's score relative to the others.
#[derive(Clone, Debug)]
struct Row {
    load: Signature,
    scores: Vec<f64>,
}

/// Expected scores of the candidates for loads that were measured before.
#[derive(Clone, Debug, Default)]
pub struct Prior {
    rows: Vec<Row>,
}

/// A load farther than this from every row is unknown.
const REACH: f64 = 0.35;
/// Distance at which a row counts half as much as at 0.
const WIDTH: f64 = 0.1;

impl Prior {
    /// Adds a measured load. `scores` are by candidate, higher is better; 0 is for a candidate without a measurement.
    pub fn add(&mut self, load: Signature, scores: Vec<f64>) {
        let measured = scores.iter().filter(|s| **s > 0.0).count().max(1) as f64;
        let mean = scores.iter().sum::<f64>() / measured;
        let scores = scores.iter().map(|s| s / mean.max(f64::MIN_POSITIVE)).collect();
        self.rows.push(Row { load, scores });
    }

    /// The expected score of each candidate, over what the load may be, and the confidence: the share of the likeliest row.
    /// `None` if it is like none of them.
    pub fn expected(&self, load: &Signature) -> Option<(Vec<f64>, f64)> {
        let distances: Vec<f64> = self.rows.iter().map(|row| row.load.distance(load)).collect();
        let nearest = distances.iter().copied().fold(f64::INFINITY, f64::min);
        if nearest > REACH {
            return None;
        }
        let likeness = |distance: f64| {
            let near = 1.0 / (1.0 + distance * distance / (WIDTH * WIDTH));
            near * near
        };
        let total: f64 = distances.iter().map(|d| likeness(*d)).sum();
        let mut scores = vec![0.0; self.rows.first()?.scores.len()];
        for (row, distance) in self.rows.iter().zip(&distances) {
            for (score, of_row) in scores.iter_mut().zip(&row.scores) {
                *score += likeness(*distance) / total * of_row;
            }
        }
        Some((scores, likeness(nearest) / total))
    }

    /// Has it no rows?
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confusion_between_loads_with_the_same_best_costs_nothing() {
        let load = |part| Signature { parts: [part, 0.0, 0.0, 0.0] };
        let mut prior = Prior::default();
        prior.add(load(0.0), vec![1.0, 2.0]);
        prior.add(load(0.1), vec![1.0, 3.0]);
        prior.add(load(1.0), vec![4.0, 1.0]);
        let (scores, confidence) = prior.expected(&load(0.05)).unwrap();
        assert!(scores[1] > 1.3 * scores[0] && confidence < 0.6, "{scores:?} {confidence}");
        let (scores, confidence) = prior.expected(&load(1.0)).unwrap();
        assert!(scores[0] > 2.0 * scores[1] && confidence > 0.9);
        assert_eq!(prior.expected(&load(2.0)), None);
    }
}
