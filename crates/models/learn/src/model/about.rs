//! The description of a model.

use serde::{Deserialize, Serialize};

/// Version of the description.
pub(super) const FORMAT: u32 = 1;

/// The purpose of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Names the workload.
    Classifier,
    /// Predicts a request's service latency, to order a queue.
    Latency,
    /// Predicts a request's total latency from inputs that the order changes: for diagnosis only, never to order a queue.
    Ordered,
}

impl Kind {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Classifier => "classifier",
            Kind::Latency => "latency",
            Kind::Ordered => "ordered",
        }
    }
}

/// The meaning of a model's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputKind {
    /// ln latency, less the mean of the last 16, over their standard deviation.
    #[default]
    Normalised,
    /// ln latency in microseconds.
    Ln,
    /// Logits of the classes.
    Logits,
}

/// The description of a model in its file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Version of this description.
    pub format: u32,
    /// Its purpose.
    pub kind: Kind,
    /// Inputs, then the outputs of each layer. Trees: inputs and outputs.
    pub layers: Vec<usize>,
    /// Slope of the leaky ReLU below 0.
    pub slope: f32,
    /// Completed requests in its history.
    pub n_history: usize,
    /// How tags become numbers.
    pub tag_encoding: String,
    /// Name of the feature set.
    pub features: String,
    /// Checksum of the feature set's definition.
    pub feature_hash: String,
    /// The meaning of the output.
    #[serde(default)]
    pub target: OutputKind,
    /// Names of the workloads; empty but for classifiers.
    #[serde(default)]
    pub classes: Vec<String>,
    /// Outputs of a classifier are divided by it.
    #[serde(default = "one")]
    pub temperature: f32,
    /// Origin of its training data.
    #[serde(default)]
    pub device: Device,
    /// How it was trained.
    #[serde(default)]
    pub trained: Training,
    /// Metrics reached in training, by name.
    #[serde(default)]
    pub metrics: serde_json::Value,
    /// CRC-32C of all tensors, as 8 hexadecimal digits.
    pub weights_crc32c: String,
}

fn one() -> f32 {
    1.0
}

/// The device of the training data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Its name: a device model such as `hdd:hts541010a9e662`, or a description of a real one.
    pub model: String,
    /// Sectors of 512 bytes; 0: unknown.
    pub sectors: u64,
    /// Bytes; 0: unknown.
    pub logical_block: u32,
    /// Whether it has a moving arm.
    pub rotational: bool,
    /// Its rotation, if known.
    #[serde(default)]
    pub rotation: crate::Rotation,
    /// Quantiles 5 %, 50 % and 95 % of the training data's service latency, in microseconds.
    pub latency_us: [f64; 3],
}

/// How a model was trained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Rows.
    pub rows: usize,
    /// Repeats of the data set.
    pub runs: Vec<String>,
    /// Random seed.
    pub seed: u64,
    /// The command line.
    pub args: String,
    /// Version of the program.
    pub tool_version: String,
    /// CRC-32C of each data file, as 8 hexadecimal digits, in the order of `name checksum`.
    pub data: Vec<String>,
}
