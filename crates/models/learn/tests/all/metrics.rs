//! The measures, against figures worked out by hand or published.

use dumbwaiter_learn::Posterior;
use dumbwaiter_learn::metrics::classes::{Accuracy, Classified, Groups};
use dumbwaiter_learn::metrics::latency::{LatencyQuality, Predicted, PredictedRun, pearson};

const CLASSES: [&str; 8] = [
    "readseq",
    "readreverse",
    "readwhilewriting",
    "readrandomwriterandom",
    "readrandom",
    "mixgraph",
    "fillseq",
    "fill100k",
];

/// Figure 2 of FSL-25-07: rows predicted, columns true, in per cent as printed.
const PAPER: [[f64; 8]; 8] = [
    [83.0, 1.0, 2.0, 1.0, 1.0, 1.0, 6.0, 6.0],
    [1.0, 93.0, 2.0, 4.0, 1.0, 4.0, 0.0, 0.0],
    [2.0, 1.0, 28.0, 20.0, 22.0, 21.0, 0.0, 0.0],
    [1.0, 3.0, 22.0, 26.0, 26.0, 25.0, 0.0, 0.0],
    [1.0, 0.0, 22.0, 24.0, 27.0, 24.0, 0.0, 0.0],
    [1.0, 3.0, 22.0, 25.0, 24.0, 25.0, 0.0, 0.0],
    [5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 56.0, 28.0],
    [6.0, 0.0, 0.0, 0.0, 0.0, 0.0, 37.0, 65.0],
];

fn classes() -> Vec<String> {
    CLASSES.map(str::to_owned).to_vec()
}

/// Balanced accuracy of a confusion matrix.
fn accuracy_of_confusion(confusion: &[[f64; 8]; 8], groups: &Groups) -> f64 {
    let recall = |column: usize| {
        let right = (0..8).filter(|row| groups.of(*row) == groups.of(column)).map(|row| confusion[row][column]);
        right.sum::<f64>() / confusion.iter().map(|row| row[column]).sum::<f64>()
    };
    (0..8).map(recall).sum::<f64>() / 8.0
}

#[test]
fn the_papers_confusion_matrix_gives_its_three_accuracies() {
    let near = |groups: &Groups, expected: f64| {
        let found = 100.0 * accuracy_of_confusion(&PAPER, groups);
        assert!((found - expected).abs() < 0.1, "{found} is not {expected}");
    };
    near(&Groups::raw(8), 50.5);
    near(&Groups::merged_a(&classes()), 85.2);
    near(&Groups::merged_b(&classes()), 93.4);
}

fn certain(class: usize) -> Posterior {
    let outputs: Vec<f32> = (0..8).map(|i| if i == class { 30.0 } else { 0.0 }).collect();
    Posterior::softmax(&outputs, 1.0)
}

#[test]
fn a_frequent_class_does_not_weigh_more() {
    // 1000 windows of readseq are all right; 10 of fillseq are all taken for fill100k.
    let runs = [
        Classified { class: 0, posteriors: vec![certain(0); 1000] },
        Classified { class: 6, posteriors: vec![certain(7); 10] },
    ];
    let accuracy = Accuracy::of(&runs, &classes());
    assert_eq!((accuracy.raw, accuracy.merged_a, accuracy.merged_b), (0.5, 0.5, 1.0));
    assert_eq!(accuracy.voted_64, 0.5);
    assert_eq!(accuracy.confident.coverage, 1.0);
}

#[test]
fn voting_repairs_what_is_wrong_now_and_then() {
    let posteriors = (0..640).map(|i| if i % 4 == 0 { certain(1) } else { certain(0) }).collect();
    let accuracy = Accuracy::of(&[Classified { class: 0, posteriors }], &classes());
    assert_eq!((accuracy.raw, accuracy.voted_16, accuracy.voted_64), (0.75, 1.0, 1.0));
}

#[test]
fn outputs_that_are_no_numbers_leave_all_classes_equal() {
    let posterior = Posterior::softmax(&[f32::NAN, 1.0, f32::INFINITY], 1.0);
    assert_eq!(posterior.probabilities(), [1.0 / 3.0; 3]);
}

fn run(pairs: &[(f64, f64)]) -> PredictedRun {
    let predicted = pairs.iter().map(|&(truth, predicted)| Predicted { truth, predicted }).collect();
    PredictedRun { stretches: vec![predicted] }
}

#[test]
fn a_perfect_prediction_scores_one_and_a_constant_one_half() {
    let truths = [100.0, 200.0, 50.0, 400.0];
    let perfect = LatencyQuality::of(&[run(&truths.map(|t| (t, t)))]);
    assert!((perfect.pcc_ln - 1.0).abs() < 1e-12 && (perfect.spearman - 1.0).abs() < 1e-12);
    assert_eq!((perfect.pair_order, perfect.within_2x, perfect.within_25_percent), (1.0, 1.0, 1.0));
    let constant = LatencyQuality::of(&[run(&truths.map(|t| (t, 150.0)))]);
    assert_eq!((constant.pair_order, constant.pcc_ln, constant.within_2x), (0.5, 0.0, 0.5));
}

#[test]
fn pairs_that_hardly_differ_or_lie_far_apart_do_not_count() {
    // 100 and 105 differ by less than 10 %; the others are ordered wrongly.
    let quality = LatencyQuality::of(&[run(&[(100.0, 2.0), (105.0, 1.0), (300.0, 0.5)])]);
    assert_eq!(quality.pair_order, 0.0);
    // 17 apart: no pair.
    let mut pairs = vec![(100.0, 1.0); 18];
    pairs[17] = (1000.0, 0.5);
    let wrong = LatencyQuality::of(&[run(&pairs)]).pair_order;
    assert_eq!(wrong, 0.0);
    let far: Vec<(f64, f64)> = [pairs[0]].into_iter().chain([(100.0, 1.0); 16]).collect();
    assert_eq!(LatencyQuality::of(&[run(&far)]).pair_order, 0.5);
}

#[test]
fn the_correlation_in_a_run_ignores_differences_between_runs() {
    let a = run(&[(10.0, 100.0), (11.0, 100.0), (12.0, 100.0)]);
    let b = run(&[(1000.0, 9000.0), (1100.0, 9000.0), (1200.0, 9000.0)]);
    let quality = LatencyQuality::of(&[a, b]);
    assert!(quality.pcc_ln > 0.99 && quality.mean_pcc_in_run.abs() < 1e-9);
}

#[test]
fn correlation_by_hand() {
    assert!((pearson(&[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 2.0, 5.0]) - 5.5 / (5.0f64 * 8.75).sqrt()).abs() < 1e-12);
    assert_eq!(pearson(&[], &[]), 0.0);
}
