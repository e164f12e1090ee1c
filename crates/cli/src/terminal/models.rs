//! Learned models: what they are and how good.

use dumbwaiter_learn::About;
use dumbwaiter_learn::training::evaluate::{Baseline, Evaluation};
use dumbwaiter_learn::training::predict::Line;
use dumbwaiter_measure::grouped;
use dumbwaiter_report::{Align, Style, table};

/// How good a model is, beside the others on the same rows.
pub fn evaluation_text(evaluation: &Evaluation, style: Style) -> String {
    let own =
        Baseline { name: evaluation.model.clone(), accuracy: evaluation.accuracy.clone(), latency: evaluation.latency };
    let all: Vec<&Baseline> = std::iter::once(&own).chain(&evaluation.baselines).collect();
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let left = |name: &'static str| (name, Align::Left);
    let right = |name: &'static str| (name, Align::Right);
    let (header, rows) = if evaluation.accuracy.is_some() {
        let row = |of: &&Baseline| {
            let mut row = vec![of.name.clone()];
            let shares = of.accuracy.as_ref().map(|a| [a.raw, a.merged_a, a.merged_b, a.voted_64, a.calibration_error]);
            row.extend(shares.into_iter().flatten().map(percent));
            row
        };
        let header = ["raw", "merged A", "merged B", "voted 64", "calibration error"].map(right);
        ([vec![left("model")], header.to_vec()].concat(), all.iter().map(row).collect::<Vec<_>>())
    } else {
        let row = |of: &&Baseline| {
            let mut row = vec![of.name.clone()];
            if let Some(l) = &of.latency {
                row.extend([format!("{:.3}", l.pcc_ln), percent(l.within_2x), percent(l.within_25_percent)]);
                row.extend([l.mean_pcc_in_run, l.pair_order].map(|value| format!("{value:.3}")));
            }
            row
        };
        let header = ["PCC (ln)", "within 2x", "within 25 %", "PCC in a run", "pair order"].map(right);
        ([vec![left("model")], header.to_vec()].concat(), all.iter().map(row).collect())
    };
    let mut text = table(&header, &rows, style);
    text += &format!(
        "\n{} rows of {}; latencies: {}\n",
        grouped(evaluation.rows as u64),
        evaluation.runs.join(", "),
        evaluation.times
    );
    if evaluation.latency.is_some() {
        text += "pair order: 0.5 is chance; only it and the PCC in a run say whether a queue can be ordered\n";
    }
    text
}

/// Description, training and accuracy of the model `name`.
pub fn model_text(name: &str, about: &About) -> String {
    let layers: Vec<String> = about.layers.iter().map(usize::to_string).collect();
    let trained = &about.trained;
    let mut rows = vec![
        ("model", name.to_owned()),
        ("kind", about.kind.name().to_owned()),
        ("inputs", format!("{} ({}, checksum {})", about.layers[0], about.features, about.feature_hash)),
        ("layers", layers.join("-")),
    ];
    if !about.classes.is_empty() {
        rows.push(("classes", about.classes.join(", ")));
        rows.push(("temperature", format!("{:.3}", about.temperature)));
    }
    let [p5, p50, p95] = about.device.latency_us;
    rows.push(("device", about.device.model.clone()));
    rows.push(("latency", format!("p5 {p5:.0} us, p50 {p50:.0} us, p95 {p95:.0} us in training")));
    rows.push(("trained", format!("{} rows of {}, seed {}", trained.rows, trained.runs.join(", "), trained.seed)));
    rows.push(("with", format!("{} (version {})", trained.args, trained.tool_version)));
    for (group, values) in about.metrics.as_object().into_iter().flatten() {
        if let Some(values) = values.as_object() {
            let figures: Vec<String> =
                values.iter().filter_map(|(name, value)| Some(format!("{name} {:.3}", value.as_f64()?))).collect();
            rows.push((if group == "accuracy" { "accuracy" } else { "quality" }, figures.join(", ")));
        }
    }
    rows.push(("weights", format!("CRC-32C {}", about.weights_crc32c)));
    rows.iter().map(|(key, value)| format!("{key:12}{value}\n")).collect()
}

/// A prediction in one line, with its line end: class and probability, or latency and predicted latency in microseconds. Empty if the
/// model predicts neither.
pub fn prediction_text(line: &Line) -> String {
    match (&line.class, line.predicted_us, line.latency_us) {
        (Some(class), ..) => format!("{class} {:.3}\n", line.probability.unwrap_or(0.0)),
        (None, Some(predicted), Some(latency)) => {
            format!("{latency:.0} {predicted:.0}{}\n", if line.cold { " cold" } else { "" })
        }
        _ => String::new(),
    }
}
