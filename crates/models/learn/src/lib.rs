//! Learned models of block I/O: features, model files, inference, metrics, and their [`training`].
//!
//! Nothing but `training` reads a file, nothing reads a clock, and nothing on the request path allocates, locks or fails. Models are passed as
//! bytes; callers bound their predictions. Results are the same bits on every machine.

mod classifier;
mod dense;
mod error;
mod features;
pub mod gap;
mod history;
pub mod import;
mod latency;
mod line;
pub mod metrics;
mod model;
mod network;
mod record;
pub mod rotation;
pub mod shipped;
pub mod training;
mod trees;

pub use classifier::{Classifier, MAX_CLASSES, Posterior};
pub use dense::{Dense, LayerWeights, Scaling, Shared};
pub use error::ModelError;
pub use features::{FeatureSet, HISTORY, MAX_INPUTS, Place, RequestVector, VECTOR, ln_us, ordered_row, signed_log2};
pub use history::{History, IssueOrder, Regions};
pub use latency::{LatencyModel, Moment, Prediction, latency_row};
pub use line::LatencyLine;
pub use model::{About, Device, Kind, Model, OutputKind, Training, Weights};
pub use network::Network;
pub use record::RequestRecord;
pub use rotation::{Rotation, Spindle};
pub use trees::{LEAF, Node, Trees};
