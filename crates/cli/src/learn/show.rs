//! `learn show`.

use anyhow::Result;
use dumbwaiter_learn::About;
use dumbwaiter_training::store;

use crate::args::LearnShow;
use crate::{Ended, output};

pub(super) fn show(args: &LearnShow) -> Result<Ended> {
    let model = store::open(&args.model)?;
    match &args.json {
        Some(path) => output::write_json(path, &model.about)?,
        None => output::print(&text(&args.model, &model.about))?,
    }
    Ok(Ended::Done)
}

fn text(name: &str, about: &About) -> String {
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
