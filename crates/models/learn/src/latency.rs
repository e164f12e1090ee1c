//! Latency predictions from a model, at one moment of a device.

use dumbwaiter_block::Nanos;

use crate::dense::Shared;
use crate::features::{MAX_INPUTS, PLACE, VECTOR};
use crate::{FeatureSet, History, ModelError, Network, OutputKind, Place, RequestVector};

/// Predictions are not below this.
const SHORTEST: f32 = 1.0;
/// Predictions in microseconds are not above this: 60 s.
const LONGEST: f32 = 60e6;

/// A predicted latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// 1 us to 60 s; 60 s where the model gave no number.
    pub latency: Nanos,
    /// Fewer than 16 requests had completed: the training set's history was used.
    pub cold: bool,
}

/// A latency model ready for use. It never changes, so threads may share it.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyModel {
    pub(crate) net: Network,
    pub(crate) features: FeatureSet,
    pub(crate) target: OutputKind,
    /// The training set's mean history inputs, used while cold.
    pub(crate) cold_history: Vec<f32>,
    /// The training set's mean and standard deviation of ln latency in microseconds, used while cold.
    pub(crate) cold_normal: (f32, f32),
}

/// The common part of all predictions at one moment of a device: compute it once, then predict several requests.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    shared: Shared,
    normal: (f32, f32),
    cold: bool,
}

impl LatencyModel {
    /// A model of a network for [`FeatureSet::Unordered`] or [`FeatureSet::Positioned`].
    pub fn new(
        net: Network,
        features: FeatureSet,
        target: OutputKind,
        cold_history: Vec<f32>,
        cold_normal: (f32, f32),
    ) -> Result<LatencyModel, ModelError> {
        let own = LatencyModel::own_inputs(features);
        if own == 0 || net.inputs() != features.inputs() || cold_history.len() != features.inputs() - own {
            return Err(ModelError::Shape(format!("not those of a latency model for `{}` inputs", features.name())));
        }
        Ok(LatencyModel { net, features, target, cold_history, cold_normal })
    }

    /// Leading inputs of a feature set that belong to the request itself; 0 if it is no set of a latency model.
    pub const fn own_inputs(features: FeatureSet) -> usize {
        match features {
            FeatureSet::Unordered | FeatureSet::UnorderedWithMean => VECTOR,
            FeatureSet::Positioned => VECTOR + PLACE,
            _ => 0,
        }
    }

    /// Whether it uses [`Place`], so that its predictions hold only at the moment of dispatch.
    pub fn is_positioned(&self) -> bool {
        self.features == FeatureSet::Positioned
    }

    /// The device's state after its last completion.
    pub fn moment(&self, history: &History) -> Moment {
        match history.normal() {
            None => Moment { shared: self.net.share(&self.cold_history), normal: self.cold_normal, cold: true },
            // Its inputs are the history as it lies in memory.
            Some(normal) if self.features == FeatureSet::Unordered => {
                Moment { shared: self.net.share(history.vectors().as_flattened()), normal, cold: false }
            }
            Some(normal) if self.features == FeatureSet::Positioned => {
                Moment { shared: self.net.share(history.timed_vectors().as_flattened()), normal, cold: false }
            }
            Some(normal) => {
                let mut row = [0.0; MAX_INPUTS];
                let count = history_inputs(self.features, history, normal, &mut row);
                Moment { shared: self.net.share(&row[..count]), normal, cold: false }
            }
        }
    }

    /// The latency of a request at that moment. `place` counts only for a model that [uses it](Self::is_positioned).
    pub fn predict(&self, moment: &Moment, request: &RequestVector, place: &Place) -> Prediction {
        let mut own = [0.0; VECTOR + PLACE];
        own[..VECTOR].copy_from_slice(&request.0);
        let mut count = VECTOR;
        if self.is_positioned() {
            own[VECTOR..].copy_from_slice(&place.inputs());
            count += PLACE;
        }
        let mut output = [0.0];
        self.net.forward_own(&own[..count], &moment.shared, &mut output);
        let (mean, deviation) = match self.target {
            OutputKind::Normalised => moment.normal,
            _ => (0.0, 1.0),
        };
        Prediction { latency: latency_of(output[0] * deviation + mean), cold: moment.cold }
    }
}

/// Writes the inputs of a latency model for training, and returns mean and deviation of the last 16 ln latencies; `None`
/// while the history is cold or for a set of another kind.
pub fn latency_row(
    set: FeatureSet,
    request: &RequestVector,
    place: &Place,
    history: &History,
    row: &mut [f32],
) -> Option<(f32, f32)> {
    let normal = history.normal()?;
    let own = LatencyModel::own_inputs(set);
    if own == 0 || row.len() < set.inputs() {
        return None;
    }
    row[..VECTOR].copy_from_slice(&request.0);
    if set == FeatureSet::Positioned {
        row[VECTOR..own].copy_from_slice(&place.inputs());
    }
    history_inputs(set, history, normal, &mut row[own..]);
    Some(normal)
}

/// Inputs of the history; returns their number.
pub(crate) fn history_inputs(set: FeatureSet, history: &History, normal: (f32, f32), row: &mut [f32]) -> usize {
    let inputs = match set {
        FeatureSet::Positioned => history.timed_vectors().as_flattened(),
        _ => history.vectors().as_flattened(),
    };
    let mut at = inputs.len();
    row[..at].copy_from_slice(inputs);
    if set == FeatureSet::UnorderedWithMean {
        row[at] = normal.0 / 10.0;
        at += 1;
    }
    at
}

/// A latency from its ln in microseconds.
fn latency_of(ln_us: f32) -> Nanos {
    let us = libm::expf(ln_us);
    // NaN fails both comparisons and becomes the longest.
    let bounded = if us < LONGEST { us.max(SHORTEST) } else { LONGEST };
    Nanos((f64::from(bounded) * 1e3) as u64)
}
