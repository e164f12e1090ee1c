//! Completed requests with the inputs and predictions of a model.

use crate::{FeatureSet, Kind, MAX_INPUTS, Model, ModelError, Network, OutputKind};
use dumbwaiter_block::Op;

/// A completed request: the inputs of a model, its prediction, and the measured latency.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Place in the order of completion.
    pub(crate) sequence: u64,
    pub(crate) op: Op,
    pub(crate) row: [f32; MAX_INPUTS],
    /// Mean and deviation of the last 16 ln latencies when it was predicted.
    pub(crate) normal: (f32, f32),
    /// ln of the latency in microseconds.
    pub(crate) ln_us: f32,
}

/// A model ready to predict samples.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    pub(crate) model: Model,
    network: Network,
    features: FeatureSet,
}

impl Serving {
    pub(crate) fn new(model: Model) -> Result<Serving, ModelError> {
        if model.about.kind != Kind::Latency {
            return Err(ModelError::Kind { expected: Kind::Latency.name(), found: model.about.kind.name() });
        }
        let (network, features) = (model.network()?, model.features()?);
        Ok(Serving { model, network, features })
    }

    /// ln of the predicted latency in microseconds.
    pub(crate) fn predict(&self, row: &[f32; MAX_INPUTS], normal: (f32, f32)) -> f32 {
        let mut output = [0.0];
        self.network.forward(&row[..self.features.inputs()], &mut output);
        match self.model.about.target {
            OutputKind::Normalised => output[0] * normal.1 + normal.0,
            _ => output[0],
        }
    }
}
