//! How good predictions are.

pub mod classes;
pub mod latency;
