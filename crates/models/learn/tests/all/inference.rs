//! One pass through a network.

use dumbwaiter_block::{IoTag, Nanos, Op};
use dumbwaiter_learn::{
    Classifier, Dense, FeatureSet, History, LatencyModel, LayerWeights, Network, OutputKind, Place, RequestVector,
    Scaling,
};
use dumbwaiter_testkit::allocations::allocations;

/// Numbers from -1 to 1, the same each time.
pub(crate) fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

pub(crate) fn network(sizes: &[usize], seed: u64) -> (Vec<LayerWeights>, Scaling) {
    let layer = |(i, pair): (usize, &[usize])| {
        let scale = 1.0 / (pair[0] as f32).sqrt();
        let weight = numbers(seed + i as u64, pair[0] * pair[1]).into_iter().map(|x| x * scale).collect();
        LayerWeights { weight, bias: numbers(seed + 100 + i as u64, pair[1]) }
    };
    let layers = sizes.windows(2).enumerate().map(layer).collect();
    let std = numbers(seed + 7, sizes[0]).iter().map(|x| 0.1 + x.abs()).collect();
    (layers, Scaling { mean: numbers(seed + 8, sizes[0]), std })
}

/// The definition in double precision: scale, clip, layers with leaky ReLU between them.
fn reference(layers: &[LayerWeights], scaling: &Scaling, row: &[f32]) -> Vec<f64> {
    let scale = |((&x, &mean), &std): ((&f32, &f32), &f32)| {
        ((f64::from(x) - f64::from(mean)) / (f64::from(std) + 1e-6)).clamp(-6.0, 6.0)
    };
    let mut values: Vec<f64> = row.iter().zip(&scaling.mean).zip(&scaling.std).map(scale).collect();
    for (i, layer) in layers.iter().enumerate() {
        if i > 0 {
            values.iter_mut().for_each(|x| *x = if *x > 0.0 { *x } else { 0.01 * *x });
        }
        let product = |weights: &[f32]| weights.iter().zip(&values).map(|(&w, x)| f64::from(w) * x).sum::<f64>();
        values = layer.weight.chunks(values.len()).zip(&layer.bias).map(|(w, &b)| product(w) + f64::from(b)).collect();
    }
    values
}

#[test]
fn the_fused_pass_equals_the_definition() {
    for (sizes, own) in [(vec![102, 32, 16, 8, 4, 1], 6), (vec![112, 128, 64, 32, 16, 8], 0), (vec![5, 3, 120, 7], 2)] {
        let (layers, scaling) = network(&sizes, 3);
        let net = Dense::new(&layers, &scaling, 0.01, own).unwrap();
        for seed in 0..500 {
            // Some rows lie far outside, where the clip acts.
            let reach = if seed % 5 == 0 { 100.0 } else { 1.0 };
            let row: Vec<f32> = numbers(1000 + seed, sizes[0]).into_iter().map(|x| x * reach).collect();
            let mut outputs = vec![0.0; net.outputs()];
            net.forward(&row, &mut outputs);
            for (output, expected) in outputs.iter().zip(reference(&layers, &scaling, &row)) {
                assert!((f64::from(*output) - expected).abs() < 1e-4, "{output} is not {expected}");
            }
        }
    }
}

#[test]
fn vector_instructions_do_not_change_a_bit() {
    let (layers, scaling) = network(&[112, 128, 64, 32, 16, 8], 5);
    let net = Dense::new(&layers, &scaling, 0.01, 0).unwrap();
    let portable = net.clone().portable();
    for seed in 0..200 {
        let row = numbers(seed, 112);
        let (mut a, mut b) = ([0.0f32; 8], [0.0f32; 8]);
        net.forward(&row, &mut a);
        portable.forward(&row, &mut b);
        assert_eq!(a.map(f32::to_bits), b.map(f32::to_bits));
    }
}

#[test]
fn what_is_no_number_gives_a_number() {
    let (layers, scaling) = network(&[102, 32, 16, 8, 4, 1], 9);
    let net = Dense::new(&layers, &scaling, 0.01, 6).unwrap();
    for strange in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE / 2.0, f32::MAX] {
        let mut output = [f32::NAN];
        net.forward(&[strange; 102], &mut output);
        assert!(output[0].is_finite(), "{strange} gives {}", output[0]);
    }
}

fn warm(history: &mut History) {
    for index in 0..20u64 {
        let vector = RequestVector::new(Op::Read, 4096 << (index % 4), IoTag::UNKNOWN);
        history.push(vector, index as i64 * 100, Nanos::from_us(80 + index));
    }
}

fn latency_model(features: FeatureSet) -> LatencyModel {
    let own = LatencyModel::own_inputs(features);
    let (layers, scaling) = network(&[features.inputs(), 32, 16, 8, 4, 1], 11);
    let net = Dense::new(&layers, &scaling, 0.01, own).unwrap();
    let cold = vec![0.0; features.inputs() - own];
    LatencyModel::new(Network::Dense(net), features, OutputKind::Normalised, cold, (5.0, 1.0)).unwrap()
}

#[test]
fn a_cold_prediction_says_so_and_uses_the_training_sets_history() {
    let model = latency_model(FeatureSet::Unordered);
    let mut history = History::new();
    let request = RequestVector::new(Op::Read, 4096, IoTag::UNKNOWN);
    let cold = model.predict(&model.moment(&history), &request, &Place::default());
    assert!(cold.cold);
    warm(&mut history);
    let prediction = model.predict(&model.moment(&history), &request, &Place::default());
    assert!(!prediction.cold && prediction.latency >= Nanos::from_us(1) && prediction.latency <= Nanos::from_secs(60));
}

#[test]
fn only_a_position_aware_model_looks_at_the_place() {
    let mut history = History::new();
    warm(&mut history);
    let request = RequestVector::new(Op::Read, 4096, IoTag::UNKNOWN);
    let far = Place { gap: 1 << 30, angle: [0.6, 0.8], position: 0.9, region: 1.0, depth: 30 };
    for (features, differs) in [(FeatureSet::Unordered, false), (FeatureSet::Positioned, true)] {
        let model = latency_model(features);
        let moment = model.moment(&history);
        let (near, far) = (model.predict(&moment, &request, &Place::default()), model.predict(&moment, &request, &far));
        assert_eq!(near != far, differs);
    }
}

#[test]
fn predictions_allocate_nothing() {
    let model = latency_model(FeatureSet::Positioned);
    let (layers, scaling) = network(&[112, 128, 64, 32, 16, 8], 5);
    let net = Dense::new(&layers, &scaling, 0.01, 0).unwrap();
    let classes = (0..8).map(|class| class.to_string()).collect();
    let classifier = Classifier::new(Network::Dense(net), FeatureSet::Window, classes, 1.0).unwrap();
    let mut history = History::new();
    warm(&mut history);
    let request = RequestVector::new(Op::Read, 4096, IoTag::UNKNOWN);
    let before = allocations();
    for _ in 0..100 {
        history.push(request, 5, Nanos::from_us(90));
        let moment = model.moment(&history);
        std::hint::black_box(model.predict(&moment, &request, &Place::default()));
        std::hint::black_box(classifier.posterior(&history));
    }
    assert_eq!(allocations(), before);
}
