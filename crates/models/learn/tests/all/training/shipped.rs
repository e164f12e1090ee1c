//! The shipped models reach what their files say, on the data that they say.

use std::path::{Path, PathBuf};

use dumbwaiter_learn::training::data::DataSet;
use dumbwaiter_learn::training::evaluate::{Times, evaluate};
use dumbwaiter_learn::training::store;
use serde_json::{Value, json};

/// The recorded runs that the models were trained on; no part of the project.
fn recorded() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let data = root.join("../shared/data/rocksdb-loop-ext4");
    if data.is_dir() {
        return Some(data);
    }
    eprintln!("skipped: no shared data in {}", data.display());
    None
}

#[test]
fn shipped_models_reach_their_recorded_metrics() {
    let Some(folder) = recorded() else { return };
    for name in dumbwaiter_learn::shipped::NAMES.map(|name| format!("shipped:{name}")) {
        let model = store::open(&name).unwrap();
        let said = model.about.metrics.clone();
        let repeats: Vec<String> = serde_json::from_value(said["validated_on"].clone()).unwrap();
        let data = DataSet::read(&folder, &repeats).unwrap();
        // By itself, the disk's model is evaluated on the disk's times.
        let found = evaluate((&name, &model), &[], &data, Times::Fitting).unwrap();
        let found = json!({
            "validated_on": repeats, "rows": found.rows, "accuracy": found.accuracy, "latency": found.latency,
        });
        assert_eq!(said, found, "{name}");
    }
}

#[test]
fn shipped_models_name_the_data_that_made_them() {
    let Some(folder) = recorded() else { return };
    let model = store::open("shipped:classifier").unwrap();
    let data = DataSet::read(&folder, &model.about.trained.runs).unwrap();
    let checksums: Vec<String> = data.runs.iter().map(|run| format!("{} {:08x}", run.name(), run.checksum)).collect();
    assert_eq!(model.about.trained.data, checksums);
}

#[test]
fn baselines_come_with_each_shipped_model() {
    for name in dumbwaiter_learn::shipped::NAMES.map(|name| format!("shipped:{name}")) {
        let baselines = store::baselines(&name).unwrap();
        assert!(baselines.len() >= 2, "{name}");
        let trained = store::open(&name).unwrap().about.trained;
        for (baseline, model) in baselines {
            assert_eq!(model.about.trained.data, trained.data, "{name}, {baseline}");
            assert_ne!(model.about.metrics, Value::Null);
        }
    }
}
