//! Models that come with the project. `models/README.md` has the commands that made them.

use crate::{Model, ModelError};

/// Their names.
pub const NAMES: [&str; 3] = ["classifier", "latency-flash", "latency-disk"];

/// The bytes of a shipped model's file.
pub fn bytes(name: &str) -> Option<&'static [u8]> {
    match name {
        "classifier" => Some(include_bytes!("../models/classifier.safetensors")),
        "latency-flash" => Some(include_bytes!("../models/latency-flash.safetensors")),
        "latency-disk" => Some(include_bytes!("../models/latency-disk.safetensors")),
        _ => None,
    }
}

/// A shipped model; `None` if there is none of that name.
pub fn model(name: &str) -> Option<Result<Model, ModelError>> {
    bytes(name).map(Model::from_bytes)
}
