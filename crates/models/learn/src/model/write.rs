//! A model as the bytes of a file.

use safetensors::tensor::{Dtype, TensorView};

use super::{Model, Weights};
use crate::ModelError;

/// A tensor to write.
struct Tensor {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Tensor {
    fn f32(name: &str, shape: Vec<usize>, values: &[f32]) -> Tensor {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Tensor { name: name.to_owned(), dtype: Dtype::F32, shape, bytes }
    }
}

impl Model {
    /// The bytes of its file: the same for the same model. The checksum in the description is written anew.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        let tensors = self.tensors()?;
        // The order in a file is the format's, so the checksum is taken from a file.
        let draft = serialize(&tensors, "")?;
        let mut about = self.about.clone();
        about.weights_crc32c = super::read::checksum(&draft)?;
        let text = serde_json::to_string(&about).map_err(|error| ModelError::Description(error.to_string()))?;
        serialize(&tensors, &text)
    }

    fn tensors(&self) -> Result<Vec<Tensor>, ModelError> {
        let mut tensors = match &self.weights {
            Weights::Dense { layers, scaling } => {
                let inputs = scaling.mean.len();
                let mut tensors = vec![
                    Tensor::f32("in.mean", vec![inputs], &scaling.mean),
                    Tensor::f32("in.std", vec![inputs], &scaling.std),
                ];
                for (i, layer) in layers.iter().enumerate() {
                    let outputs = layer.bias.len();
                    let shape = vec![outputs, layer.weight.len() / outputs.max(1)];
                    tensors.push(Tensor::f32(&format!("l{i}.weight"), shape, &layer.weight));
                    tensors.push(Tensor::f32(&format!("l{i}.bias"), vec![outputs], &layer.bias));
                }
                tensors
            }
            Weights::Trees(trees) => {
                let thresholds: Vec<f32> = trees.nodes().iter().map(|node| node.threshold).collect();
                let features = trees.nodes().iter().flat_map(|node| node.feature.to_le_bytes()).collect();
                let lefts = trees.nodes().iter().flat_map(|node| node.left.to_le_bytes()).collect();
                let roots = trees.roots().iter().flat_map(|root| root.to_le_bytes()).collect();
                let nodes = trees.nodes().len();
                let whole =
                    |name: &str, dtype, len, bytes| Tensor { name: name.to_owned(), dtype, shape: vec![len], bytes };
                vec![
                    Tensor::f32("tree.base", vec![trees.outputs()], trees.base()),
                    Tensor::f32("tree.leaf", vec![trees.leaves().len()], trees.leaves()),
                    Tensor::f32("tree.threshold", vec![nodes], &thresholds),
                    whole("tree.feature", Dtype::U16, nodes, features),
                    whole("tree.left", Dtype::U32, nodes, lefts),
                    whole("tree.root", Dtype::U32, trees.roots().len(), roots),
                ]
            }
        };
        if !self.cold_history.is_empty() {
            tensors.push(Tensor::f32("hist.mean", vec![self.cold_history.len()], &self.cold_history));
            tensors.push(Tensor::f32("hist.mu_sigma", vec![2], &[self.cold_normal.0, self.cold_normal.1]));
        }
        let (x, y) = self.self_test()?;
        tensors.push(Tensor::f32("selftest.x", vec![x.len()], &x));
        tensors.push(Tensor::f32("selftest.y", vec![y.len()], &y));
        Ok(tensors)
    }

    /// A row near the middle of the training data, and the outputs for it.
    fn self_test(&self) -> Result<(Vec<f32>, Vec<f32>), ModelError> {
        let network = self.network()?;
        let row: Vec<f32> = match &self.weights {
            Weights::Dense { scaling, .. } => scaling.mean.iter().zip(&scaling.std).map(|(m, s)| m + s / 2.0).collect(),
            Weights::Trees(trees) => vec![0.5; trees.inputs()],
        };
        let mut outputs = vec![0.0; network.outputs()];
        network.forward(&row, &mut outputs);
        Ok((row, outputs))
    }
}

fn serialize(tensors: &[Tensor], description: &str) -> Result<Vec<u8>, ModelError> {
    let container = |error: safetensors::SafeTensorError| ModelError::Container(error.to_string());
    let mut views = Vec::new();
    for tensor in tensors {
        let view = TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.bytes).map_err(container)?;
        views.push((tensor.name.as_str(), view));
    }
    // One entry, so its order cannot differ.
    #[allow(clippy::disallowed_types)]
    let metadata = std::collections::HashMap::from([("model".to_owned(), description.to_owned())]);
    safetensors::serialize(views, Some(metadata)).map_err(container)
}
