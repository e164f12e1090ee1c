//! Import of models that other programs trained.

mod dense;
mod sklearn;

use crate::model::Weights;
use crate::{About, FeatureSet, HISTORY, Kind, LEAF, LatencyModel, Model, ModelError, Node, OutputKind, Trees};

/// The format of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// scikit-learn's arrays of `tree_`, as JSON.
    Sklearn,
    /// Weights and biases of a dense network, as safetensors.
    Safetensors,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 2] = [Format::Sklearn, Format::Safetensors];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Sklearn => "sklearn",
            Format::Safetensors => "safetensors",
        }
    }

    fn error(self, problem: impl Into<String>) -> ModelError {
        ModelError::Import { format: self.name(), problem: problem.into() }
    }
}

/// The purpose of an imported model, which its file does not contain.
#[derive(Clone, Debug, PartialEq)]
pub struct Purpose {
    /// Its task.
    pub kind: Kind,
    /// Its inputs.
    pub features: FeatureSet,
    /// The meaning of its output.
    pub target: OutputKind,
    /// Names of the workloads, in the order of its outputs; empty but for classifiers.
    pub classes: Vec<String>,
}

/// A model from another program's file, with the same checks as for our files.
pub fn import(bytes: &[u8], format: Format, purpose: &Purpose) -> Result<Model, ModelError> {
    if bytes.len() as u64 > crate::model::LONGEST_FILE {
        let limit = crate::model::LONGEST_FILE;
        return Err(ModelError::TooLong { bytes: bytes.len() as u64, limit });
    }
    let text = || std::str::from_utf8(bytes).map_err(|_| format.error("it is not text"));
    let weights = match format {
        Format::Sklearn => Weights::Trees(sklearn::read(text()?)?.into_trees(purpose)?),
        Format::Safetensors => dense::read(bytes, purpose.features.inputs())?,
    };
    let (mut layers, slope) = (vec![purpose.features.inputs()], 0.01);
    match &weights {
        Weights::Dense { layers: dense, .. } => layers.extend(dense.iter().map(|layer| layer.bias.len())),
        Weights::Trees(trees) => layers.push(trees.outputs()),
    }
    let is_latency = purpose.kind == Kind::Latency;
    let shared = purpose.features.inputs() - LatencyModel::own_inputs(purpose.features);
    let model = Model {
        about: About {
            format: 1,
            kind: purpose.kind,
            layers,
            slope,
            n_history: HISTORY,
            tag_encoding: "compact".to_owned(),
            features: purpose.features.name().to_owned(),
            feature_hash: purpose.features.hash(),
            target: purpose.target,
            classes: purpose.classes.clone(),
            temperature: 1.0,
            device: crate::Device { model: format!("imported from {}", format.name()), ..Default::default() },
            trained: crate::Training::default(),
            metrics: serde_json::Value::Null,
            weights_crc32c: String::new(),
        },
        weights,
        cold_history: if is_latency { vec![0.0; shared] } else { Vec::new() },
        // About 100 us, until 16 requests have completed.
        cold_normal: if is_latency { (4.6, 1.0) } else { (0.0, 1.0) },
    };
    Model::from_bytes(&model.to_bytes()?)
}

/// A node of another program's tree.
enum SourceNode {
    /// `left` if the input is at most `threshold`.
    Split { feature: usize, threshold: f64, left: usize, right: usize },
    /// The values of a leaf.
    Leaf(Vec<f32>),
}

/// Another program's trees.
struct SourceTrees {
    format: Format,
    base: Vec<f32>,
    trees: Vec<Vec<SourceNode>>,
}

impl SourceTrees {
    fn into_trees(self, purpose: &Purpose) -> Result<Trees, ModelError> {
        let (mut roots, mut nodes, mut leaves) = (Vec::new(), Vec::new(), Vec::new());
        let mut leaf_count = 0;
        for tree in &self.trees {
            let first = nodes.len();
            roots.push(first as u32);
            nodes.push(Node { feature: LEAF, threshold: 0.0, left: 0 });
            let mut open = vec![(first, 0)];
            while let Some((at, source)) = open.pop() {
                let node = tree.get(source).ok_or_else(|| self.format.error(format!("there is no node {source}")))?;
                match node {
                    SourceNode::Leaf(values) => {
                        leaves.extend(values);
                        nodes[at].left = leaf_count;
                        leaf_count += 1;
                    }
                    &SourceNode::Split { feature, threshold, left, right } => {
                        // Each node of a tree has one parent, so a walk that meets more nodes than there are goes round.
                        if nodes.len() - first + 2 > tree.len() {
                            return Err(self.format.error("a tree has a cycle"));
                        }
                        let feature = u16::try_from(feature)
                            .ok()
                            .filter(|&feature| usize::from(feature) < purpose.features.inputs());
                        let feature = feature.ok_or_else(|| {
                            let (name, inputs) = (purpose.features.name(), purpose.features.inputs());
                            self.format.error(format!("it compares an input beyond the {inputs} of `{name}`"))
                        })?;
                        let children = nodes.len();
                        nodes[at] = Node { feature, threshold: round_down(threshold), left: children as u32 };
                        nodes.extend([Node { feature: LEAF, threshold: 0.0, left: 0 }; 2]);
                        open.extend([(children + 1, right), (children, left)]);
                    }
                }
            }
        }
        let own = LatencyModel::own_inputs(purpose.features);
        Trees::new(purpose.features.inputs(), own, self.base, roots, nodes, leaves)
    }
}

/// The largest 32-bit float at most `x`: for 32-bit inputs, the comparison stays the same.
fn round_down(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) > x { near.next_down() } else { near }
}
