//! Model files: a safetensors container, whose metadata `model` is one JSON object.

mod about;
mod read;
mod write;

pub(crate) use read::check_header;

pub use about::{About, Device, Kind, OutputKind, Training};

use crate::classifier::usual_size;
use crate::dense::{LayerWeights, Scaling};
use crate::{Classifier, Dense, FeatureSet, LatencyModel, ModelError, Network, Trees};

/// Largest model file, in bytes.
pub(crate) const LONGEST_FILE: u64 = 16 << 20;

/// A model with its description, as in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The description.
    pub about: About,
    /// The weights.
    pub weights: Weights,
    /// The mean of the training set's history inputs; empty for classifiers.
    pub cold_history: Vec<f32>,
    /// Mean and standard deviation of ln latency (us) of the training set.
    pub cold_normal: (f32, f32),
}

/// The weights of a model.
#[derive(Clone, Debug, PartialEq)]
pub enum Weights {
    /// Layers, and the scaling of their inputs.
    Dense {
        /// First to last.
        layers: Vec<LayerWeights>,
        /// Of the inputs.
        scaling: Scaling,
    },
    /// Decision trees.
    Trees(Trees),
}

impl Model {
    /// The network or trees.
    pub fn network(&self) -> Result<Network, ModelError> {
        Ok(match &self.weights {
            Weights::Dense { layers, scaling } => {
                let own = LatencyModel::own_inputs(self.features()?);
                Network::Dense(Dense::new(layers, scaling, self.about.slope, own)?)
            }
            Weights::Trees(trees) => Network::Trees(trees.clone()),
        })
    }

    /// Its feature set.
    pub fn features(&self) -> Result<FeatureSet, ModelError> {
        let name = &self.about.features;
        FeatureSet::named(name).ok_or_else(|| ModelError::Description(format!("there is no feature set `{name}`")))
    }

    /// As a latency model for use.
    pub fn latency(&self) -> Result<LatencyModel, ModelError> {
        self.expect(Kind::Latency)?;
        LatencyModel::new(
            self.network()?,
            self.features()?,
            self.about.target,
            self.cold_history.clone(),
            self.cold_normal,
        )
    }

    /// As a classifier for use.
    pub fn classifier(&self) -> Result<Classifier, ModelError> {
        self.expect(Kind::Classifier)?;
        let (network, features) = (self.network()?, self.features()?);
        let classifier = Classifier::new(network, features, self.about.classes.clone(), self.about.temperature)?;
        let usual_size = match &self.weights {
            Weights::Dense { scaling, .. } => usual_size(&scaling.mean),
            Weights::Trees(_) => None,
        };
        Ok(Classifier { usual_size, ..classifier })
    }

    fn expect(&self, kind: Kind) -> Result<(), ModelError> {
        if self.about.kind == kind {
            Ok(())
        } else {
            Err(ModelError::Kind { expected: kind.name(), found: self.about.kind.name() })
        }
    }
}
