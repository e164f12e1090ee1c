//! A table of expected scores by workload.

use crate::switching::signature::Signature;

/// A load that was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Its signature.
    pub load: Signature,
    /// By candidate: its score, higher is better; 0 is for a candidate without a measurement.
    pub scores: Vec<f64>,
    /// By candidate: half of the score's 95 % interval, as a share of the score. May be empty: 0 then.
    pub spreads: Vec<f64>,
    /// By the candidate in force: the classifier's mean posterior. Empty where it is not known.
    pub classes: Vec<Vec<f64>>,
}

/// Expected scores of the candidates for loads that were measured before.
#[derive(Clone, Debug, Default)]
pub struct Prior {
    rows: Vec<Row>,
}

/// Expected scores for a load, averaged over the rows that it may match.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// By candidate, relative to their mean; 0 is for a candidate without a measurement.
    pub scores: Vec<f64>,
    /// By candidate, half of the 95 % interval as a share of the score.
    pub spreads: Vec<f64>,
    /// Probability of the rows in which the best candidate is as good as any, or nearly.
    pub confidence: f64,
}

impl Expectation {
    /// The candidate with the highest score, the first of equals.
    pub fn best(&self) -> usize {
        (0..self.scores.len()).fold(0, |best, c| if self.scores[c] > self.scores[best] { c } else { best })
    }

    /// Whether `candidate` may be within `share` of the best score; true for one without a measurement.
    pub fn is_near_best(&self, candidate: usize, share: f64) -> bool {
        let score = self.scores[candidate] * (1.0 + self.spreads[candidate]);
        score == 0.0 || score >= share * self.scores[self.best()]
    }
}

/// A load farther than this from every row is unknown.
const REACH: f64 = 0.35;
/// Difference of each part of a signature at which the weight of a row is a quarter of that at 0. Tasks are counted exactly: a fifth
/// more of them. The share of writes is an estimate from the last requests of each task.
const WIDTHS: [f64; 4] = [0.05, 0.1, 0.05, 0.02];
/// The same of the outstanding I/Os: two thirds more of them.
const WIDTH_OUTSTANDING: f64 = 0.04;
/// A candidate this near the best of a row is as good as it.
const AS_GOOD: f64 = 0.95;
/// Lower bound of the agreement with a classifier, so that a wrong class cannot rule out a row.
const AGREEMENT_MIN: f64 = 0.05;

impl Prior {
    /// Adds a measured load without intervals or classes.
    pub fn add(&mut self, load: Signature, scores: Vec<f64>) {
        self.add_row(Row { load, scores, ..Row::default() });
    }

    /// Adds a measured load. Its scores may be of any unit.
    pub fn add_row(&mut self, mut row: Row) {
        let measured = row.scores.iter().filter(|s| **s > 0.0).count().max(1) as f64;
        let mean = row.scores.iter().sum::<f64>() / measured;
        row.scores.iter_mut().for_each(|score| *score /= mean.max(f64::MIN_POSITIVE));
        row.spreads.resize(row.scores.len(), 0.0);
        self.rows.push(row);
    }

    /// Expected scores of the candidates for a load. `classes` is the classifier's posterior and the candidate in force at
    /// that time. `None` if the load is unlike all rows.
    pub fn expect(&self, load: &Signature, classes: Option<(usize, &[f32])>) -> Option<Expectation> {
        let nearest = self.rows.iter().map(|row| row.load.distance(load)).fold(f64::INFINITY, f64::min);
        if nearest > REACH {
            return None;
        }
        let likeness: Vec<f64> = self.rows.iter().map(|row| row.likeness(load, classes)).collect();
        let total: f64 = likeness.iter().sum();
        let candidates = self.rows.first()?.scores.len();
        let mut expected =
            Expectation { scores: vec![0.0; candidates], spreads: vec![0.0; candidates], confidence: 0.0 };
        for candidate in 0..candidates {
            // Rows without a measurement of a candidate do not count for it.
            let mut weight = 0.0;
            for (row, likeness) in self.rows.iter().zip(&likeness).filter(|(row, _)| row.scores[candidate] > 0.0) {
                weight += likeness;
                expected.scores[candidate] += likeness * row.scores[candidate];
                expected.spreads[candidate] += likeness * row.spreads[candidate];
            }
            if weight > 0.0 {
                expected.scores[candidate] /= weight;
                expected.spreads[candidate] /= weight;
            }
        }
        let best = expected.best();
        let agrees = |row: &Row| row.scores[best] >= AS_GOOD * row.scores.iter().copied().fold(0.0, f64::max);
        let agreeing = self.rows.iter().zip(&likeness).filter(|(row, _)| agrees(row));
        expected.confidence = agreeing.map(|(_, likeness)| likeness / total).sum();
        Some(expected)
    }

    /// The expected score of each candidate by the load alone, and the confidence.
    pub fn expected(&self, load: &Signature) -> Option<(Vec<f64>, f64)> {
        self.expect(load, None).map(|expected| (expected.scores, expected.confidence))
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether each candidate was measured under some load.
    pub fn knows_all(&self) -> bool {
        let candidates = self.rows.first().map_or(0, |row| row.scores.len());
        !self.is_empty() && (0..candidates).all(|c| self.rows.iter().any(|row| row.scores[c] > 0.0))
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
}

impl Row {
    /// Likelihood of this signature and these classes under this row's load, not normalised.
    fn likeness(&self, load: &Signature, classes: Option<(usize, &[f32])>) -> f64 {
        // A product over the parts: a part in which all rows are as far from the load does not level their weights.
        let near = |difference: f64, width: f64| 1.0 / (1.0 + (difference / width) * (difference / width));
        let parts = self.load.parts.iter().zip(&load.parts).zip(WIDTHS);
        let of_parts: f64 = parts.map(|((a, b), width)| near(a - b, width)).product();
        let outstanding = self.load.outstanding.zip(load.outstanding);
        let near = of_parts * outstanding.map_or(1.0, |(a, b)| near(a - b, WIDTH_OUTSTANDING));
        let agreement = classes.and_then(|(in_force, seen)| {
            let own = self.classes.get(in_force).filter(|own| own.len() == seen.len())?;
            // The overlap of the two distributions (Bhattacharyya's coefficient).
            Some(own.iter().zip(seen).map(|(a, b)| (a * f64::from(*b)).max(0.0).sqrt()).sum::<f64>())
        });
        near * near * agreement.unwrap_or(1.0).clamp(AGREEMENT_MIN, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(part: f64) -> Signature {
        Signature::of([part, 0.0, 0.0, 0.0])
    }

    #[test]
    fn confusion_between_loads_with_the_same_best_costs_no_confidence() {
        let mut prior = Prior::default();
        prior.add(load(0.0), vec![1.0, 2.0]);
        prior.add(load(0.1), vec![1.0, 3.0]);
        prior.add(load(1.0), vec![4.0, 1.0]);
        let between = prior.expect(&load(0.05), None).unwrap();
        assert!(between.scores[1] > 1.3 * between.scores[0] && between.confidence > 0.9, "{between:?}");
        let (scores, confidence) = prior.expected(&load(1.0)).unwrap();
        assert!(scores[0] > 2.0 * scores[1] && confidence > 0.9);
        assert_eq!(prior.expect(&load(2.0), None), None);
    }

    #[test]
    fn between_loads_that_want_different_candidates_it_is_not_confident() {
        let mut prior = Prior::default();
        prior.add(load(0.0), vec![1.0, 2.0]);
        prior.add(load(0.1), vec![2.0, 1.0]);
        assert!(prior.expect(&load(0.05), None).unwrap().confidence < 0.6);
    }

    #[test]
    fn the_classifier_decides_between_loads_that_look_alike() {
        let mut prior = Prior::default();
        let row = |scores: [f64; 2], classes: [f64; 2]| Row {
            load: load(0.5),
            scores: scores.to_vec(),
            classes: vec![classes.to_vec(); 2],
            ..Row::default()
        };
        prior.add_row(row([1.0, 2.0], [0.9, 0.1]));
        prior.add_row(row([2.0, 1.0], [0.1, 0.9]));
        let best = |seen: [f32; 2]| prior.expect(&load(0.5), Some((0, &seen))).unwrap().best();
        assert_eq!((best([0.9, 0.1]), best([0.1, 0.9])), (1, 0));
        let other = prior.expect(&load(0.5), Some((0, &[1.0]))).unwrap();
        assert_eq!(other.scores[0], other.scores[1], "a classifier with other classes says nothing");
    }

    #[test]
    fn the_number_of_tasks_decides_though_the_share_of_writes_is_of_no_row() {
        // Four, six and eight tasks, a half or a quarter of them writers; only eight want candidate 0.
        let mut prior = Prior::default();
        for writers in [0.25, 0.5] {
            for (log_tasks, second) in [(2.0, 1.05), (2.5, 1.05), (3.0, 0.85)] {
                prior.add(Signature::of([0.0, writers, 0.25, log_tasks / 12.0]), vec![1.0, second]);
            }
        }
        let expect = |writers, log_tasks: f64| {
            let load = Signature::of([0.0, writers, 0.25, log_tasks / 12.0]);
            prior.expect(&load, None).unwrap()
        };
        for writers in [0.25, 0.37, 0.5, 0.6] {
            let six = expect(writers, 2.5);
            assert!(
                six.best() == 1 && six.scores[1] > 1.03 * six.scores[0] && six.confidence > 0.8,
                "{writers}: {six:?}"
            );
            assert_eq!(expect(writers, 3.0).best(), 0, "{writers}");
        }
    }

    #[test]
    fn a_candidate_without_a_measurement_is_not_ruled_out() {
        let mut prior = Prior::default();
        prior.add(load(0.0), vec![1.0, 0.0, 0.2]);
        let expected = prior.expect(&load(0.0), None).unwrap();
        assert_eq!([0, 1, 2].map(|c| expected.is_near_best(c, 0.85)), [true, true, false]);
    }
}
