//! Reads a model from the bytes of a file, with checks against damaged and hostile files.

use safetensors::SafeTensors;
use safetensors::tensor::Dtype;

use super::about::FORMAT;
use super::{About, Kind, LONGEST_FILE, Model, Weights};
use crate::dense::{LayerWeights, MAX_LAYERS, MAX_WIDTH, Scaling};
use crate::features::{HISTORY, MAX_INPUTS};
use crate::{FeatureSet, LatencyModel, ModelError, Node, Trees};

/// Longest header of a file, in bytes: descriptions are a few kilobytes.
const LONGEST_HEADER: u64 = 1 << 18;
/// Largest absolute weight.
const LARGEST_WEIGHT: f32 = 1e4;
/// Largest difference of the self-test, relative to outputs above 1.
const TOLERANCE: f32 = 1e-4;

impl Model {
    /// A model from a file's bytes. It is complete, undamaged, made for this version's features, and gives the result that its
    /// file says; otherwise the error names the first check that failed.
    pub fn from_bytes(bytes: &[u8]) -> Result<Model, ModelError> {
        let description = description(bytes)?;
        let about: About =
            serde_json::from_str(&description).map_err(|error| ModelError::Description(error.to_string()))?;
        check_description(&about)?;
        let file = File(SafeTensors::deserialize(bytes).map_err(|error| ModelError::Container(error.to_string()))?);
        let weights = file.weights(&about)?;
        let features = named_features(&about)?;
        let own = LatencyModel::own_inputs(features);
        let (cold_history, cold_normal) = match about.kind {
            Kind::Latency => {
                let normal = file.f32("hist.mu_sigma", &[2])?;
                (file.f32("hist.mean", &[about.layers[0].saturating_sub(own)])?, (normal[0], normal[1]))
            }
            _ => (Vec::new(), (0.0, 1.0)),
        };
        let inputs = file.f32("selftest.x", &[about.layers[0]])?;
        let outputs = file.f32("selftest.y", &[*about.layers.last().unwrap_or(&0)])?;
        let found = checksum(bytes)?;
        if found != about.weights_crc32c {
            return Err(ModelError::Checksum { expected: about.weights_crc32c, found });
        }
        file.check_numbers()?;
        if let Weights::Dense { scaling, .. } = &weights
            && let Some(&std) = scaling.std.iter().find(|&&std| std <= 0.0)
        {
            return Err(ModelError::Deviation(std));
        }
        if about.feature_hash != features.hash() {
            let (set, expected) = (about.features.clone(), features.hash());
            return Err(ModelError::Features { set, expected, found: about.feature_hash });
        }
        if about.layers[0] != features.inputs() {
            return Err(ModelError::Shape(format!(
                "{} inputs; the feature set `{}` has {}",
                about.layers[0],
                about.features,
                features.inputs()
            )));
        }
        let model = Model { about, weights, cold_history, cold_normal };
        model.check_self_test(&inputs, &outputs)?;
        Ok(model)
    }

    fn check_self_test(&self, inputs: &[f32], outputs: &[f32]) -> Result<(), ModelError> {
        let network = self.network()?;
        let mut computed = vec![0.0; network.outputs()];
        network.forward(inputs, &mut computed);
        for (&expected, &found) in outputs.iter().zip(&computed) {
            // Written so that NaN fails.
            let is_close = (found - expected).abs() <= TOLERANCE * expected.abs().max(1.0);
            if !is_close {
                return Err(ModelError::SelfTest { expected, found });
            }
        }
        match self.about.kind {
            Kind::Classifier => self.classifier().map(drop),
            Kind::Latency => self.latency().map(drop),
            Kind::Ordered => Ok(()),
        }
    }
}

/// The text of the metadata `model`, after checks of the lengths.
fn description(bytes: &[u8]) -> Result<String, ModelError> {
    if bytes.len() as u64 > LONGEST_FILE {
        return Err(ModelError::TooLong { bytes: bytes.len() as u64, limit: LONGEST_FILE });
    }
    header_bytes(bytes)?;
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| ModelError::Container(error.to_string()))?;
    let text = metadata.metadata().as_ref().and_then(|entries| entries.get("model"));
    text.cloned().ok_or_else(|| ModelError::Description("there is none".to_owned()))
}

/// Refuses a file that is too short for its header, or whose header is too long.
pub(crate) fn check_header(bytes: &[u8]) -> Result<(), ModelError> {
    header_bytes(bytes).map(drop)
}

/// Length of the header with its own length in front.
fn header_bytes(bytes: &[u8]) -> Result<usize, ModelError> {
    let length = bytes
        .first_chunk::<8>()
        .map(|length| u64::from_le_bytes(*length))
        .ok_or_else(|| ModelError::Container("shorter than 8 bytes".to_owned()))?;
    if length > LONGEST_HEADER || length + 8 > bytes.len() as u64 {
        return Err(ModelError::Container(format!("a header of {length} bytes in a file of {}", bytes.len())));
    }
    Ok(length as usize + 8)
}

/// CRC-32C of everything after the header, as 8 hexadecimal digits.
pub(super) fn checksum(bytes: &[u8]) -> Result<String, ModelError> {
    Ok(format!("{:08x}", crc32c::crc32c(&bytes[header_bytes(bytes)?..])))
}

fn named_features(about: &About) -> Result<FeatureSet, ModelError> {
    let name = &about.features;
    FeatureSet::named(name).ok_or_else(|| ModelError::Description(format!("there is no feature set `{name}`")))
}

fn check_description(about: &About) -> Result<(), ModelError> {
    let wrong = |what: String| Err(ModelError::Description(what));
    if about.format != FORMAT {
        return wrong(format!("`format` is {}; this version reads {FORMAT}", about.format));
    }
    if about.layers.len() < 2 || about.layers.len() > MAX_LAYERS + 1 {
        return wrong(format!("`layers` has {} numbers; 2 to {} are possible", about.layers.len(), MAX_LAYERS + 1));
    }
    if about.layers[0] > MAX_INPUTS || about.layers.iter().any(|&width| width == 0 || width > MAX_WIDTH) {
        return wrong(format!("`layers` is {:?}; at most {MAX_INPUTS} inputs and {MAX_WIDTH} units", about.layers));
    }
    if about.n_history != HISTORY {
        return wrong(format!("`n_history` is {}; this version has a history of {HISTORY}", about.n_history));
    }
    if !(0.0..=1.0).contains(&about.slope) {
        return wrong(format!("`slope` is {}; it is from 0 to 1", about.slope));
    }
    named_features(about).map(drop)
}

/// The tensors of a file.
struct File<'a>(SafeTensors<'a>);

impl File<'_> {
    fn bytes(&self, name: &str, dtype: Dtype, shape: Option<&[usize]>) -> Result<&[u8], ModelError> {
        let tensor = self.0.tensor(name).map_err(|_| ModelError::Shape(format!("`{name}` is missing")))?;
        if tensor.dtype() != dtype || shape.is_some_and(|shape| tensor.shape() != shape) {
            let expected = shape.map_or(String::new(), |shape| format!(" {shape:?}"));
            return Err(ModelError::Shape(format!(
                "`{name}` is {:?} {:?}; expected {dtype:?}{expected}",
                tensor.dtype(),
                tensor.shape()
            )));
        }
        Ok(tensor.data())
    }

    fn f32(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        self.bytes(name, Dtype::F32, Some(shape)).map(f32s)
    }

    fn weights(&self, about: &About) -> Result<Weights, ModelError> {
        if self.0.tensor("tree.feature").is_ok() {
            return self.trees(about).map(Weights::Trees);
        }
        let inputs = about.layers[0];
        let scaling = Scaling { mean: self.f32("in.mean", &[inputs])?, std: self.f32("in.std", &[inputs])? };
        let mut layers = Vec::new();
        for (i, sizes) in about.layers.windows(2).enumerate() {
            layers.push(LayerWeights {
                weight: self.f32(&format!("l{i}.weight"), &[sizes[1], sizes[0]])?,
                bias: self.f32(&format!("l{i}.bias"), &[sizes[1]])?,
            });
        }
        Ok(Weights::Dense { layers, scaling })
    }

    fn trees(&self, about: &About) -> Result<Trees, ModelError> {
        let features: Vec<u16> = self
            .bytes("tree.feature", Dtype::U16, None)?
            .as_chunks::<2>()
            .0
            .iter()
            .map(|&bytes| u16::from_le_bytes(bytes))
            .collect();
        let shape = [features.len()];
        let thresholds = self.f32("tree.threshold", &shape)?;
        let lefts = u32s(self.bytes("tree.left", Dtype::U32, Some(&shape))?);
        let nodes = (features.into_iter().zip(thresholds).zip(lefts))
            .map(|((feature, threshold), left)| Node { feature, threshold, left })
            .collect();
        let base = self.f32("tree.base", &[*about.layers.last().unwrap_or(&0)])?;
        let roots = u32s(self.bytes("tree.root", Dtype::U32, None)?);
        let leaves = f32s(self.bytes("tree.leaf", Dtype::F32, None)?);
        Trees::new(about.layers[0], LatencyModel::own_inputs(named_features(about)?), base, roots, nodes, leaves)
    }

    /// Whether every number is finite and in the range of weights.
    fn check_numbers(&self) -> Result<(), ModelError> {
        for (name, tensor) in self.0.iter() {
            if tensor.dtype() != Dtype::F32 {
                continue;
            }
            let is_sound = |value: &f32| value.abs() <= LARGEST_WEIGHT;
            if let Some(value) = f32s(tensor.data()).into_iter().find(|value| !is_sound(value)) {
                return Err(ModelError::Weight { tensor: name.to_owned(), value });
            }
        }
        Ok(())
    }
}

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

fn u32s(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect()
}
