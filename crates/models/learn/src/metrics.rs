//! Metrics of predictions.

pub mod classes;
pub mod latency;
