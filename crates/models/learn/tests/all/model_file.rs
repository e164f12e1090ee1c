//! Model files: what is written is read again, and nothing else.

use dumbwaiter_learn::{
    About, Device, FeatureSet, HISTORY, Kind, LatencyModel, Model, ModelError, OutputKind, Training, Weights, shipped,
};
use proptest::prelude::*;

use crate::inference::network;

fn model() -> Model {
    let set = FeatureSet::Unordered;
    let (layers, scaling) = network(&[set.inputs(), 4, 1], 1);
    let about = About {
        format: 1,
        kind: Kind::Latency,
        layers: vec![set.inputs(), 4, 1],
        slope: 0.01,
        n_history: HISTORY,
        tag_encoding: "compact".to_owned(),
        features: set.name().to_owned(),
        feature_hash: set.hash(),
        target: OutputKind::Normalised,
        classes: Vec::new(),
        temperature: 1.0,
        device: Device::default(),
        trained: Training::default(),
        metrics: serde_json::Value::Null,
        weights_crc32c: String::new(),
    };
    let cold_history = vec![0.5; set.inputs() - LatencyModel::own_inputs(set)];
    Model { about, weights: Weights::Dense { layers, scaling }, cold_history, cold_normal: (5.0, 1.0) }
}

fn refusal(change: impl FnOnce(&mut Model)) -> ModelError {
    let mut changed = model();
    change(&mut changed);
    let bytes = changed.to_bytes().expect("it can be written");
    Model::from_bytes(&bytes).expect_err("it must be refused")
}

fn weights(model: &mut Model) -> (&mut Vec<f32>, &mut Vec<f32>) {
    let Weights::Dense { layers, scaling } = &mut model.weights else { panic!("it is dense") };
    (&mut layers[0].weight, &mut scaling.std)
}

#[test]
fn what_is_written_is_read_again() {
    let bytes = model().to_bytes().unwrap();
    let read = Model::from_bytes(&bytes).unwrap();
    assert_eq!(read.weights, model().weights);
    assert_eq!(read.cold_history, model().cold_history);
    // The same model gives the same bytes, also after reading.
    assert_eq!(read.to_bytes().unwrap(), bytes);
    assert!(read.latency().is_ok());
    assert!(matches!(read.classifier(), Err(ModelError::Kind { .. })));
}

#[test]
fn each_check_refuses_what_it_is_for() {
    assert!(matches!(refusal(|m| m.about.format = 2), ModelError::Description(_)));
    assert!(matches!(refusal(|m| m.about.n_history = 8), ModelError::Description(_)));
    assert!(matches!(refusal(|m| m.about.layers = vec![102, 5, 1]), ModelError::Shape(_)));
    assert!(matches!(refusal(|m| m.about.feature_hash = "0".to_owned()), ModelError::Features { .. }));
    assert!(matches!(refusal(|m| weights(m).0[3] = 2e4), ModelError::Weight { .. }));
    assert!(matches!(refusal(|m| weights(m).0[3] = f32::NAN), ModelError::Weight { .. }));
    assert!(matches!(refusal(|m| weights(m).1[3] = 0.0), ModelError::Deviation(0.0)));
    assert!(matches!(refusal(|m| m.cold_history.truncate(9)), ModelError::Shape(_)));
    let kind = refusal(|m| m.about.kind = Kind::Classifier);
    assert!(matches!(kind, ModelError::Shape(_)), "{kind:?}");
}

#[test]
fn a_changed_weight_is_found_by_the_checksum() {
    let mut bytes = model().to_bytes().unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    assert!(matches!(Model::from_bytes(&bytes), Err(ModelError::Checksum { .. })));
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let bytes = model().to_bytes().unwrap();
    for end in 0..bytes.len() {
        assert!(Model::from_bytes(&bytes[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn lengths_are_checked_before_anything_is_read() {
    let huge_header = [u64::MAX.to_le_bytes().as_slice(), &[b' '; 100]].concat();
    assert!(matches!(Model::from_bytes(&huge_header), Err(ModelError::Container(_))));
    assert!(matches!(Model::from_bytes(&vec![0; (16 << 20) + 1]), Err(ModelError::TooLong { .. })));
}

#[test]
fn the_shipped_models_are_sound() {
    for name in shipped::NAMES {
        let model = shipped::model(name).expect("it is there").expect("it is sound");
        match model.about.kind {
            Kind::Classifier => drop(model.classifier().expect("a classifier")),
            _ => drop(model.latency().expect("a latency model")),
        }
        assert!(!model.about.trained.data.is_empty() && model.about.trained.args.starts_with("learn train"));
    }
    assert!(shipped::model("other").is_none());
}

proptest! {
    #[test]
    fn flipped_bits_never_panic(flips in proptest::collection::vec((any::<u32>(), 0u8..8), 1..4)) {
        let mut bytes = model().to_bytes().unwrap();
        let original = bytes.clone();
        for (at, bit) in flips {
            let at = at as usize % bytes.len();
            bytes[at] ^= 1 << bit;
        }
        if let Ok(read) = Model::from_bytes(&bytes) {
            // Only what is no weight may differ: names of devices, figures, the command.
            prop_assert_eq!(read.weights, Model::from_bytes(&original).unwrap().weights);
        }
    }

    #[test]
    fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..400), header in 0u64..400) {
        let bytes = [header.to_le_bytes().as_slice(), &noise].concat();
        prop_assert!(Model::from_bytes(&bytes).is_err());
    }
}
