//! Why a model was refused.

use thiserror::Error;

/// Why a model was refused. Its users then use their fallback.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ModelError {
    /// The file is longer than any model of ours.
    #[error("the model file is {bytes} bytes long; at most {limit} are read")]
    TooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The file is not of the format, or truncated.
    #[error("not a complete model file: {0}")]
    Container(String),
    /// The description is missing or wrong.
    #[error("the model's description (metadata `model`): {0}")]
    Description(String),
    /// A tensor is missing, or shape and layers contradict each other.
    #[error("the model's tensors: {0}")]
    Shape(String),
    /// The checksum of the weights does not match.
    #[error("the checksum of the weights is {found}, the file says {expected}: it was damaged or changed")]
    Checksum {
        /// The checksum in the file.
        expected: String,
        /// The checksum of the weights.
        found: String,
    },
    /// A weight is not a number, or too large.
    #[error("{tensor} holds {value}; weights are numbers between -10000 and 10000")]
    Weight {
        /// The tensor.
        tensor: String,
        /// The value.
        value: f32,
    },
    /// A standard deviation is not positive.
    #[error("`in.std` holds {0}; a standard deviation is above 0")]
    Deviation(f32),
    /// The model was made for other features.
    #[error("the model was made for other features ({found}; this version's `{set}` is {expected}): train it again")]
    Features {
        /// The feature set that it names.
        set: String,
        /// The checksum of this version's definition.
        expected: String,
        /// The file's.
        found: String,
    },
    /// The self-test of the file fails.
    #[error("the self-test gives {found}, the file says {expected}")]
    SelfTest {
        /// The output in the file.
        expected: f32,
        /// The output of inference.
        found: f32,
    },
    /// A model of another kind is needed.
    #[error("a {found} model; a {expected} model is needed here")]
    Kind {
        /// The kind that is needed.
        expected: &'static str,
        /// The kind of the model.
        found: &'static str,
    },
    /// A dump of another program cannot be read.
    #[error("{format}: {problem}")]
    Import {
        /// The program.
        format: &'static str,
        /// The defect.
        problem: String,
    },
}
