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

/// Two trees: x0 <= 0.5 ? (x1 <= 0.25 ? 1 : 2) : 4, and a constant 10.
const LIGHTGBM: &str = "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nmax_feature_idx=101\n\
objective=regression\n\nTree=0\nnum_leaves=3\nnum_cat=0\nsplit_feature=0 1\nthreshold=0.5 0.25\n\
decision_type=2 2\nleft_child=1 -1\nright_child=-3 -2\nleaf_value=1 2 4\nshrinkage=1\n\n\n\
Tree=1\nnum_leaves=1\nnum_cat=0\nleaf_value=10\nshrinkage=1\n\n\nend of trees\n";

#[test]
fn lightgbm_trees_predict_the_same() {
    let model = import(LIGHTGBM.as_bytes(), Format::LightGbm, &latency()).unwrap();
    assert_eq!(output(&model, |row| row[1] = 0.25), 11.0);
    assert_eq!(output(&model, |row| row[1] = 0.26), 12.0);
    assert_eq!(output(&model, |row| row[0] = 0.51), 14.0);
    assert!(model.latency().is_ok());
}

#[test]
fn lightgbm_dumps_that_mean_something_else_are_refused() {
    for (from, to) in [
        ("decision_type=2 2", "decision_type=3 2"),
        ("threshold=0.5 0.25", "threshold=0.5"),
        ("threshold=0.5 0.25", "threshold=0.5 x"),
        ("left_child=1 -1", "left_child=0 -1"),
        ("left_child=1 -1", "left_child=1 -9"),
        ("split_feature=0 1", "split_feature=0 102"),
        ("version=v4", "average_output"),
        ("tree\n", "forest\n"),
    ] {
        let text = LIGHTGBM.replacen(from, to, 1);
        let refused = import(text.as_bytes(), Format::LightGbm, &latency());
        assert!(matches!(refused, Err(ModelError::Import { format: "lightgbm", .. })), "{to}: {refused:?}");
    }
}

const XGBOOST: &str = r#"{"learner": {"gradient_booster": {"name": "gbtree", "model": {"tree_info": [0], "trees": [
{"left_children": [1, -1, -1], "right_children": [2, -1, -1], "split_indices": [3, 0, 0],
 "split_conditions": [0.5, -1.0, 2.0], "split_type": [0, 0, 0], "default_left": [0, 0, 0]}]}},
"learner_model_param": {"base_score": "[5E0]", "num_class": "0"}, "objective": {"name": "reg:squarederror"}}}"#;

#[test]
fn xgboost_trees_go_left_only_below_the_condition() {
    let model = import(XGBOOST.as_bytes(), Format::XgBoost, &latency()).unwrap();
    assert_eq!(output(&model, |row| row[3] = 0.499), 4.0);
    assert_eq!(output(&model, |row| row[3] = 0.5), 7.0);
    for (from, to) in [
        ("gbtree", "dart"),
        ("reg:squarederror", "reg:gamma"),
        ("\"tree_info\": [0]", "\"tree_info\": [1]"),
        ("\"split_type\": [0", "\"split_type\": [1"),
        ("[3, 0, 0]", "[300, 0, 0]"),
        ("[1, -1, -1]", "[0, -1, -1]"),
    ] {
        let text = XGBOOST.replacen(from, to, 1);
        assert!(matches!(import(text.as_bytes(), Format::XgBoost, &latency()), Err(ModelError::Import { .. })), "{to}");
    }
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
    fn damaged_dumps_never_panic(which in 0usize..3, at in any::<u32>(), byte in any::<u8>(), cut in any::<bool>()) {
        let (text, format) = [
            (LIGHTGBM, Format::LightGbm), (XGBOOST, Format::XgBoost), (SKLEARN, Format::Sklearn),
        ][which];
        let mut bytes = text.as_bytes().to_vec();
        let at = at as usize % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        let _ = import(&bytes, format, &latency());
    }
}
