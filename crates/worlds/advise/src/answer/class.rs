//! Several models of a class: one model is one drive, and what holds for it need not hold for others of its kind.

use dumbwaiter_measure::student_quantile;

use super::{Decision, HARMFUL, LIKELY_GAIN, USEFUL_GAIN};
use crate::confidence::Confidence;
use crate::row::Worth;

/// Bounds are for this many alternatives together.
const ALTERNATIVES: f64 = 3.0;

/// An alternative on the models of a class.
#[derive(Clone, Debug)]
pub(crate) struct OnModels {
    pub(crate) name: String,
    /// By model, in one order for all; `None` where it was not compared.
    pub(crate) worth: Vec<Option<Worth>>,
}

/// The decision for a class.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClassAnswer {
    pub(crate) decision: Decision,
    pub(crate) confidence: Confidence,
    /// The alternative to change to, or whose worth depends on the model.
    pub(crate) pick: Option<usize>,
}

/// Mean gain, the bound of its mean, and the least that another drive of the class may gain.
struct Pooled {
    gain: f64,
    lo: f64,
    elsewhere: f64,
}

fn pooled(of: &OnModels, error: f64) -> Option<Pooled> {
    let known: Vec<Worth> = of.worth.iter().copied().collect::<Option<Vec<_>>>()?;
    if known.is_empty() {
        return None;
    }
    let m = known.len() as f64;
    let gain = known.iter().map(|of| of.gain).sum::<f64>() / m;
    let noise = known.iter().map(|of| of.error * of.error).sum::<f64>() / m;
    let freedom: f64 = known.iter().map(|of| of.runs as f64 + 1.0).sum();
    let spread = known.iter().map(|of| (of.gain - gain).powi(2)).sum::<f64>() / (m - 1.0).max(1.0);
    let between = (spread - noise).max(0.0);
    let t = student_quantile(1.0 - error / ALTERNATIVES, freedom);
    let wide = student_quantile(0.95, 2.0 + m) * (between + noise / m).sqrt();
    Some(Pooled { gain, lo: gain - t * (noise / m).sqrt(), elsewhere: gain - wide })
}

/// Decides for a class from what each alternative is worth on its models, and from what was decided on each of them.
pub(crate) fn of_class(alternatives: &[OnModels], alone: &[Decision], error: f64) -> ClassAnswer {
    // What did not last long enough is no evidence, on however many models.
    if alone.contains(&Decision::TooShort) {
        return ClassAnswer { decision: Decision::TooShort, confidence: Confidence::Open, pick: None };
    }
    let all = |of: &OnModels, holds: &dyn Fn(&Worth) -> bool| of.worth.iter().flatten().all(holds);
    let mut best: Option<(usize, f64, bool)> = None;
    for (i, of) in alternatives.iter().enumerate() {
        let Some(pooled) = pooled(of, error).filter(|pooled| pooled.gain >= USEFUL_GAIN) else { continue };
        let each = all(of, &|of| of.at_least > -HARMFUL);
        let together = all(of, &|of| of.gain > -HARMFUL) && pooled.lo > -HARMFUL;
        if !(each || together) || best.is_some_and(|(_, most, _)| pooled.gain <= most) {
            continue;
        }
        let clear =
            all(of, &|of| of.at_least >= HARMFUL && of.runs > 1) && pooled.elsewhere >= -HARMFUL && of.worth.len() > 1;
        best = Some((i, pooled.gain, clear));
    }
    if let Some((pick, _, clear)) = best {
        let confidence = if clear { Confidence::Clear } else { Confidence::Likely };
        return ClassAnswer { decision: Decision::Change, confidence, pick: Some(pick) };
    }
    if alone.contains(&Decision::Change) {
        // The one that is worth most on a model.
        let most = |i: usize| {
            let good = alternatives[i].worth.iter().flatten().filter(|of| of.at_least > -HARMFUL);
            good.map(|of| of.gain).fold(f64::NEG_INFINITY, f64::max)
        };
        let pick = (0..alternatives.len()).reduce(|a, b| if most(b) > most(a) { b } else { a });
        return ClassAnswer { decision: Decision::Depends, confidence: Confidence::Open, pick };
    }
    let most = alternatives.iter().flat_map(|of| of.worth.iter().flatten()).map(|of| of.at_most);
    let confidence = match most.reduce(f64::max) {
        Some(most) if most <= USEFUL_GAIN => Confidence::Clear,
        Some(most) if most <= LIKELY_GAIN => Confidence::Likely,
        _ => Confidence::Open,
    };
    ClassAnswer { decision: Decision::Keep, confidence, pick: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worth(gain: f64) -> Worth {
        Worth {
            gain,
            error: 0.01,
            runs: 3,
            at_least: gain - 0.05,
            at_most: gain + 0.05,
            latency: -gain,
            throughput: 0.0,
            same: false,
        }
    }

    #[test]
    fn what_is_too_short_on_a_model_is_no_evidence_on_all_of_them() {
        let bfq = [OnModels { name: "bfq".to_owned(), worth: vec![Some(worth(0.9)), Some(worth(0.9))] }];
        let decided = |alone: &[Decision]| of_class(&bfq, alone, 0.05).decision;
        assert_eq!(decided(&[Decision::Change, Decision::Change]), Decision::Change);
        assert_eq!(decided(&[Decision::TooShort, Decision::TooShort]), Decision::TooShort);
        assert_eq!(decided(&[Decision::Change, Decision::TooShort]), Decision::TooShort);
    }
}
