//! Training and evaluation of learned models of block I/O, from recorded runs.
//!
//! Reading data, rows of inputs and evaluation are always there; the feature `fit` adds training.

pub mod data;
mod error;
pub mod evaluate;
pub mod features;
#[cfg(feature = "fit")]
mod matrix;
#[cfg(feature = "fit")]
pub mod network;
pub mod predict;
#[cfg(feature = "fit")]
mod ridge;
pub mod samples;
pub mod serve;
pub mod store;
pub mod task;
#[cfg(feature = "fit")]
pub mod train;
#[cfg(feature = "fit")]
mod trees;

pub use error::Error;
