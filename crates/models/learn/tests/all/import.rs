//! Models of other programs.

use dumbwaiter_learn::import::{Format, Purpose, import};
use dumbwaiter_learn::{FeatureSet, Kind, Model, ModelError, OutputKind};
use proptest::prelude::*;

fn latency() -> Purpose {
    Purpose { kind: Kind::Latency, features: FeatureSet::Unordered, target: OutputKind::Ln, classes: Vec::new() }
}

fn output(model: &Model, set: impl Fn(&mut [f32])) -> f32 {
    let mut row = [0.0; 102];
    set(&mut row);
    let mut output = [0.0];
    model.network().unwrap().forward(&row, &mut output);
    output[0]
}

const SKLEARN: &str = r#"{"combine": "mean", "trees": [
{"children_left": [1, -1, -1], "children_right": [2, -1, -1], "feature": [2, -2, -2], "threshold": [0.5, -2, -2],
 "value": [[[0]], [[6]], [[8]]]},
{"children_left": [-1], "children_right": [-1], "feature": [-2], "threshold": [-2], "value": [[[2]]]}]}"#;

#[test]
fn a_scikit_learn_forest_gives_the_mean_of_its_trees() {
    let model = import(SKLEARN.as_bytes(), Format::Sklearn, &latency()).unwrap();
    assert_eq!((output(&model, |_| ()), output(&model, |row| row[2] = 1.0)), (4.0, 5.0));
}

#[test]
fn a_scikit_learn_tree_gives_its_probabilities() {
    let text = r#"{"combine": "mean", "trees": [{"children_left": [-1], "children_right": [-1], "feature": [-2],
        "threshold": [-2], "value": [[[3, 1]]]}]}"#;
    let purpose = Purpose {
        kind: Kind::Classifier,
        features: FeatureSet::Window,
        target: OutputKind::Logits,
        classes: vec!["a".to_owned(), "b".to_owned()],
    };
    let classifier = import(text.as_bytes(), Format::Sklearn, &purpose).unwrap().classifier().unwrap();
    let posterior = classifier.posterior_of(&[0.0; 112]);
    assert!((posterior.probabilities()[0] - 0.75).abs() < 1e-5);
}

#[test]
fn a_dense_network_needs_no_description() {
    let weight = vec![1.0f32; 102];
    let bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let (weight, bias) = (bytes(&weight), bytes(&[3.0]));
    let view = |shape, data| safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape, data).unwrap();
    let file = |bias_name: &'static str| {
        let tensors = [("net.0.weight", view(vec![1, 102], &weight)), (bias_name, view(vec![1], &bias))];
        safetensors::serialize(tensors, None).unwrap()
    };
    let model = import(&file("net.0.bias"), Format::Safetensors, &latency()).unwrap();
    assert!((output(&model, |row| row[5] = 2.0) - 5.0).abs() < 1e-4);
    assert!(matches!(import(&file("other"), Format::Safetensors, &latency()), Err(ModelError::Import { .. })));
}

proptest! {
    #[test]
    fn damaged_dumps_never_panic(at in any::<u32>(), byte in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = SKLEARN.as_bytes().to_vec();
        let at = at as usize % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        let _ = import(&bytes, Format::Sklearn, &latency());
    }
}
