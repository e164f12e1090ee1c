//! Tables of classification and latency prediction: what the shipped models and the baselines beside them reached on the
//! repeat of the recordings that none of them was trained on. The figures are in the model files; `learn eval` computes them
//! again from recordings.

use dumbwaiter_learn::Model;
use dumbwaiter_learn::training::store;
use serde_json::Value;

use super::row;
use crate::{Effort, Error, FigureResult};

/// A metric's name, its place in a model's description, the factor to its unit, the unit, and the paper's value.
type Metric = (&'static str, &'static str, f64, &'static str, Option<f64>);

const CLASSIFICATION: [Metric; 6] = [
    ("accuracy, raw", "/accuracy/raw", 100.0, "%", Some(50.5)),
    ("accuracy, merged A", "/accuracy/merged_a", 100.0, "%", Some(85.2)),
    ("accuracy, merged B", "/accuracy/merged_b", 100.0, "%", Some(93.4)),
    ("accuracy, voted over 64 windows", "/accuracy/voted_64", 100.0, "%", None),
    ("accuracy where confidence is at least 0.6", "/accuracy/confident/merged_b", 100.0, "%", None),
    ("share of windows with that confidence", "/accuracy/confident/coverage", 100.0, "%", None),
];

const PREDICTION: [Metric; 4] = [
    ("correlation of ln latency", "/latency/pcc_ln", 1.0, "", Some(0.90)),
    ("within a factor of 2", "/latency/within_2x", 100.0, "%", Some(92.0)),
    ("mean correlation in a run", "/latency/mean_pcc_in_run", 1.0, "", None),
    ("pairs in the right order", "/latency/pair_order", 1.0, "", None),
];

pub(super) fn classification(_effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut out = FigureResult::default();
    add(&mut out, "classification", "shipped:classifier", &CLASSIFICATION)?;
    out.notes.push("recorded RocksDB workloads on a loop device; the paper's values are from another disk".to_owned());
    Ok(out)
}

pub(super) fn prediction(_effort: &Effort<'_>) -> Result<FigureResult, Error> {
    let mut out = FigureResult::default();
    for model in ["shipped:latency-flash", "shipped:latency-disk"] {
        add(&mut out, "prediction", model, &PREDICTION)?;
    }
    out.notes.push(
        "the paper's \"accuracy\" of 92 % is not defined; within a factor of 2 is shown beside it. latency-disk: the recorded \
         requests served by the disk model. Pairs in the right order: 0.5 is chance"
            .to_owned(),
    );
    Ok(out)
}

fn add(out: &mut FigureResult, figure: &str, name: &str, metrics: &[Metric]) -> Result<(), Error> {
    let failed = |error: dumbwaiter_learn::training::Error| Error::Case(error.to_string());
    let own = store::open(name).map_err(failed)?;
    let baselines = store::baselines(name).map_err(failed)?;
    let all = std::iter::once((String::new(), &own))
        .chain(baselines.iter().map(|(baseline, model)| (format!(", baseline: {baseline}"), model)));
    for (which, model) in all {
        let Model { about, .. } = model;
        for (metric, place, factor, unit, paper) in metrics {
            let Some(value) = about.metrics.pointer(place).and_then(Value::as_f64) else { continue };
            let case = format!("{name}{which}");
            let own = row(figure, metric, case, value * factor, unit);
            out.rows.push(match paper {
                Some(paper) if which.is_empty() => own.judged(*paper, value * factor >= *paper),
                _ => own,
            });
        }
    }
    Ok(())
}
