//! Fully connected networks of up to 128 units a layer: one fused pass without allocation.
//!
//! The weights are stored input by input, so that the inner loop runs over outputs, in lanes of 8. Products are added in
//! one fixed order and never fused with their addition: a network gives the same bits with AVX2, without it and on any
//! other machine.

use crate::error::ModelError;
use crate::features::MAX_INPUTS;

/// Largest number of units of a layer.
pub(crate) const MAX_WIDTH: usize = 128;
/// Networks whose layers are no wider need less memory for their sums, and less time to clear it.
const NARROW: usize = 32;
/// Stack space for the inputs of a candidate; more take a slower path.
const FEW: usize = 16;
/// Largest number of layers.
pub(crate) const MAX_LAYERS: usize = 8;
/// Outputs computed together.
const LANES: usize = 8;
/// Inputs are clipped to this many standard deviations around their means.
const CLIP: f32 = 6.0;
/// Added to standard deviations, so that a constant input does not divide by 0.
const LEAST_SCALE: f32 = 1e-6;

/// One layer as files have it: `out x in` weights, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerWeights {
    /// `outputs x inputs`, row-major.
    pub weight: Vec<f32>,
    /// One per output.
    pub bias: Vec<f32>,
}

/// The inputs' mean and standard deviation in the training set.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// One per input.
    pub mean: Vec<f32>,
    /// One per input, above 0.
    pub std: Vec<f32>,
}

/// A layer ready for the pass.
#[derive(Clone, Debug, PartialEq)]
struct Layer {
    outputs: usize,
    /// `outputs` rounded up to whole lanes.
    width: usize,
    /// `inputs x width`.
    weights: Vec<f32>,
    bias: Vec<f32>,
}

/// A network: scaling and clipping of the inputs, layers with leaky ReLU between them, a linear output.
#[derive(Clone, Debug, PartialEq)]
pub struct Dense {
    layers: Vec<Layer>,
    lowest: Vec<f32>,
    highest: Vec<f32>,
    slope: f32,
    /// Leading inputs that belong to the candidate; the others are shared by all candidates of one moment.
    own: usize,
    /// No layer is wider than [`NARROW`].
    is_narrow: bool,
    avx2: bool,
}

/// Contribution of the inputs that all candidates of one moment share: the first layer's sums, or the inputs themselves.
#[derive(Clone, Copy, Debug)]
pub struct Shared([f32; MAX_WIDTH]);

impl Shared {
    /// Values as they are.
    pub(crate) fn of(values: &[f32]) -> Shared {
        let mut shared = Shared([0.0; MAX_WIDTH]);
        shared.0[..values.len()].copy_from_slice(values);
        shared
    }

    /// The values.
    pub(crate) fn values(&self) -> &[f32] {
        &self.0
    }
}

impl Dense {
    /// A network of `layers` for inputs scaled by `scaling`, of which the first `own` belong to the candidate.
    pub fn new(layers: &[LayerWeights], scaling: &Scaling, slope: f32, own: usize) -> Result<Dense, ModelError> {
        let inputs = scaling.mean.len();
        let wrong = |what: &str| ModelError::Shape(what.to_owned());
        if layers.is_empty() || layers.len() > MAX_LAYERS {
            return Err(wrong("1 to 8 layers are possible"));
        }
        if inputs == 0 || inputs > MAX_INPUTS || scaling.std.len() != inputs || own > inputs {
            return Err(wrong("1 to 128 inputs are possible, each with a mean and a standard deviation"));
        }
        let mut before = inputs;
        for layer in layers {
            let outputs = layer.bias.len();
            if outputs == 0 || outputs > MAX_WIDTH || layer.weight.len() != outputs * before {
                return Err(wrong("a layer has 1 to 128 outputs and a weight for each input and output"));
            }
            before = outputs;
        }
        let mut folded = layers.to_vec();
        fold_scaling(&mut folded[0], scaling);
        let bound = |side: f32| -> Vec<f32> {
            (0..inputs).map(|i| scaling.mean[i] + side * CLIP * (scaling.std[i] + LEAST_SCALE)).collect()
        };
        Ok(Dense {
            layers: folded.iter().map(Layer::new).collect(),
            lowest: bound(-1.0),
            highest: bound(1.0),
            slope,
            own,
            is_narrow: layers.iter().all(|layer| layer.bias.len() <= NARROW),
            avx2: has_avx2(),
        })
    }

    /// This network without vector instructions, for comparison; its results are the same.
    pub fn portable(mut self) -> Dense {
        self.avx2 = false;
        self
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.lowest.len()
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.outputs)
    }

    /// Outputs for a row of [`Dense::inputs`] inputs. NaN counts as the lowest value of an input.
    pub fn forward(&self, row: &[f32], outputs: &mut [f32]) {
        let (own, shared) = row.split_at(self.own);
        self.forward_own(own, &self.share(shared), outputs);
    }

    /// The first layer's sums over the inputs after the candidate's own.
    #[allow(unsafe_code)]
    pub fn share(&self, shared: &[f32]) -> Shared {
        let mut sums = Shared([0.0; MAX_WIDTH]);
        let first = &self.layers[0];
        sums.0[..first.width].copy_from_slice(&first.bias);
        if self.avx2 {
            // SAFETY: `avx2` is set only where the processor has AVX2.
            unsafe { self.add_avx2(self.own, shared, &mut sums) };
        } else {
            self.add::<false, MAX_INPUTS>(self.own, shared, &mut sums.0);
        }
        sums
    }

    /// Outputs for a candidate's own inputs and the sums that it shares with others.
    #[allow(unsafe_code)]
    pub fn forward_own(&self, own: &[f32], shared: &Shared, outputs: &mut [f32]) {
        if self.avx2 {
            // SAFETY: `avx2` is set only where the processor has AVX2.
            unsafe { self.finish_avx2(own, shared, outputs) };
        } else {
            self.finish::<false, MAX_WIDTH>(own, shared, outputs);
        }
    }

    #[target_feature(enable = "avx2")]
    fn add_avx2(&self, first: usize, inputs: &[f32], sums: &mut Shared) {
        self.add::<true, MAX_INPUTS>(first, inputs, &mut sums.0);
    }

    #[target_feature(enable = "avx2")]
    fn finish_avx2(&self, own: &[f32], shared: &Shared, outputs: &mut [f32]) {
        match self.is_narrow {
            true => self.finish::<true, NARROW>(own, shared, outputs),
            false => self.finish::<true, MAX_WIDTH>(own, shared, outputs),
        }
    }

    /// Adds the first layer's products of the inputs from number `first` on. `N`: at least their number.
    #[inline(always)]
    fn add<const AVX2: bool, const N: usize>(&self, first: usize, inputs: &[f32], sums: &mut [f32]) {
        let mut clipped = [0.0; N];
        let clipped = &mut clipped[..inputs.len()];
        let bounds = self.lowest[first..].iter().zip(&self.highest[first..]);
        for ((clipped, &input), (&lowest, &highest)) in clipped.iter_mut().zip(inputs).zip(bounds) {
            // In this order, NaN becomes the lowest value.
            let raised = if input > lowest { input } else { lowest };
            *clipped = if raised < highest { raised } else { highest };
        }
        let layer = &self.layers[0];
        multiply::<AVX2>(clipped, &layer.weights[first * layer.width..], layer.width, sums);
    }

    /// The pass after the first layer's shared sums. `W`: at least the width of each layer.
    #[inline(always)]
    fn finish<const AVX2: bool, const W: usize>(&self, own: &[f32], shared: &Shared, outputs: &mut [f32]) {
        let (mut first, mut second) = ([0.0; W], [0.0; W]);
        let (mut sums, mut next) = (&mut first, &mut second);
        let width = self.layers[0].width;
        sums[..width].copy_from_slice(&shared.0[..width]);
        match own.len() {
            // Clearing room for 128 inputs takes as long as the products of a few.
            ..=FEW => self.add::<AVX2, FEW>(0, own, sums.as_mut_slice()),
            _ => self.add::<AVX2, MAX_INPUTS>(0, own, sums.as_mut_slice()),
        }
        let mut before = self.layers[0].outputs;
        for layer in &self.layers[1..] {
            next[..layer.width].copy_from_slice(&layer.bias);
            for sum in &mut sums[..before] {
                let damped = *sum * self.slope;
                *sum = if *sum > damped { *sum } else { damped };
            }
            multiply::<AVX2>(&sums[..before], &layer.weights, layer.width, next.as_mut_slice());
            std::mem::swap(&mut sums, &mut next);
            before = layer.outputs;
        }
        let count = before.min(outputs.len());
        outputs[..count].copy_from_slice(&sums[..count]);
    }
}

impl Layer {
    fn new(layer: &LayerWeights) -> Layer {
        let outputs = layer.bias.len();
        let inputs = layer.weight.len() / outputs;
        let width = outputs.next_multiple_of(LANES);
        let mut weights = vec![0.0; inputs * width];
        for (output, row) in layer.weight.chunks_exact(inputs).enumerate() {
            for (input, &weight) in row.iter().enumerate() {
                weights[input * width + output] = weight;
            }
        }
        let mut bias = layer.bias.clone();
        bias.resize(width, 0.0);
        Layer { outputs, width, weights, bias }
    }
}

/// Turns a first layer for scaled inputs into one for raw inputs.
fn fold_scaling(layer: &mut LayerWeights, scaling: &Scaling) {
    let inputs = scaling.mean.len();
    for (row, bias) in layer.weight.chunks_exact_mut(inputs).zip(&mut layer.bias) {
        let mut shift = 0.0;
        for ((weight, &mean), &std) in row.iter_mut().zip(&scaling.mean).zip(&scaling.std) {
            let folded = f64::from(*weight) / f64::from(std + LEAST_SCALE);
            shift += folded * f64::from(mean);
            *weight = folded as f32;
        }
        *bias = (f64::from(*bias) - shift) as f32;
    }
}

/// Adds `inputs x weights` to `sums`, blocks of outputs at a time. Each block keeps about 8 vectors of sums in registers:
/// a wide one a vector per 8 outputs, a narrow one several chains, which are added in the end.
#[inline(always)]
fn multiply<const AVX2: bool>(inputs: &[f32], weights: &[f32], width: usize, sums: &mut [f32]) {
    let mut at = 0;
    while at < width {
        let sums = &mut sums[at..width];
        let weights = &weights[at..];
        match width - at {
            64.. => {
                block::<AVX2, 8, 1>(inputs, weights, width, sums);
                at += 64;
            }
            32.. => {
                block::<AVX2, 4, 2>(inputs, weights, width, sums);
                at += 32;
            }
            16.. => {
                block::<AVX2, 2, 4>(inputs, weights, width, sums);
                at += 16;
            }
            _ => {
                block::<AVX2, 1, 4>(inputs, weights, width, sums);
                at += 8;
            }
        }
    }
}

/// Adds the products for `VECTORS x 8` outputs, every `CHAINS`th input in a chain of its own. `AVX2` may be true only in
/// functions that run where the processor has it.
#[inline(always)]
#[allow(unsafe_code)]
fn block<const AVX2: bool, const VECTORS: usize, const CHAINS: usize>(
    inputs: &[f32],
    weights: &[f32],
    stride: usize,
    sums: &mut [f32],
) {
    #[cfg(target_arch = "x86_64")]
    if AVX2 {
        // SAFETY: only `add_avx2` and `finish_avx2` set `AVX2`, and they need it themselves.
        unsafe { block_avx2::<VECTORS, CHAINS>(inputs, weights, stride, sums) };
        return;
    }
    block_portable::<VECTORS, CHAINS>(inputs, weights, stride, sums);
}

/// As [`block_portable`], with the sums in vector registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
#[allow(unsafe_code)]
fn block_avx2<const VECTORS: usize, const CHAINS: usize>(
    inputs: &[f32],
    weights: &[f32],
    stride: usize,
    sums: &mut [f32],
) {
    use std::arch::x86_64::{
        _mm256_add_ps, _mm256_loadu_ps, _mm256_mul_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
    };
    let columns = VECTORS * LANES;
    let enough = inputs.is_empty() || weights.len() >= (inputs.len() - 1) * stride + columns;
    assert!(enough && sums.len() >= columns, "a layer's weights fit its sizes");
    let mut chains = [[_mm256_setzero_ps(); VECTORS]; CHAINS];
    let add = |sums: &mut [std::arch::x86_64::__m256; VECTORS], index: usize, input: f32| {
        let (row, input) = (index * stride, _mm256_set1_ps(input));
        for (v, sum) in sums.iter_mut().enumerate() {
            // SAFETY: `row` is at most (inputs - 1) x stride, and that many weights and `columns` more were checked.
            let weight = unsafe { _mm256_loadu_ps(weights.as_ptr().add(row + v * LANES)) };
            *sum = _mm256_add_ps(*sum, _mm256_mul_ps(input, weight));
        }
    };
    let (groups, rest) = inputs.as_chunks::<CHAINS>();
    for (group, inputs) in groups.iter().enumerate() {
        for k in 0..CHAINS {
            add(&mut chains[k], group * CHAINS + k, inputs[k]);
        }
    }
    // By constant numbers, so that the chains stay in registers.
    for k in 0..CHAINS {
        if k < rest.len() {
            add(&mut chains[k], groups.len() * CHAINS + k, rest[k]);
        }
    }
    let mut total = chains[0];
    for chain in &chains[1..] {
        for (total, &vector) in total.iter_mut().zip(chain) {
            *total = _mm256_add_ps(*total, vector);
        }
    }
    for (v, &vector) in total.iter().enumerate() {
        // SAFETY: `sums` has at least `columns` numbers, which was checked.
        unsafe {
            let at = sums.as_mut_ptr().add(v * LANES);
            _mm256_storeu_ps(at, _mm256_add_ps(_mm256_loadu_ps(at), vector));
        }
    }
}

/// The same in plain Rust, with the same additions in the same order.
#[inline(always)]
fn block_portable<const VECTORS: usize, const CHAINS: usize>(
    inputs: &[f32],
    weights: &[f32],
    stride: usize,
    sums: &mut [f32],
) {
    let mut chains = [[[0.0f32; LANES]; VECTORS]; CHAINS];
    let mut rows = weights.chunks(stride);
    let mut groups = inputs.chunks_exact(CHAINS);
    for group in &mut groups {
        for (chain, &input) in chains.iter_mut().zip(group) {
            add_row(chain, input, rows.next().unwrap_or(&[]));
        }
    }
    for (chain, &input) in chains.iter_mut().zip(groups.remainder()) {
        add_row(chain, input, rows.next().unwrap_or(&[]));
    }
    let (total, others) = chains.split_at_mut(1);
    for chain in others {
        for (total, vector) in total[0].iter_mut().zip(chain) {
            for lane in 0..LANES {
                total[lane] += vector[lane];
            }
        }
    }
    for (vector, sums) in total[0].iter().zip(sums.chunks_exact_mut(LANES)) {
        for lane in 0..LANES {
            sums[lane] += vector[lane];
        }
    }
}

#[inline(always)]
fn add_row<const VECTORS: usize>(chain: &mut [[f32; LANES]; VECTORS], input: f32, row: &[f32]) {
    for (vector, weights) in chain.iter_mut().zip(row.chunks_exact(LANES)) {
        for lane in 0..LANES {
            vector[lane] += input * weights[lane];
        }
    }
}

fn has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has = std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    let has = false;
    has
}
