//! Training and evaluation of learned models of block I/O, from recorded runs.

pub mod data;
mod error;
pub mod evaluate;
mod matrix;
pub mod network;
pub mod samples;
pub mod serve;
pub mod train;

pub use error::Error;
