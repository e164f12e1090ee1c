//! The discrete-event simulator: workloads, block layer, host and device in virtual time.
//!
//! Nothing here reads a clock or draws a random number; equal input gives equal output bit for bit.
#![forbid(unsafe_code)]

mod episode;
mod events;
mod experiment;
pub mod host;
mod power;
mod run;
pub mod validate;
mod world;

pub use episode::Episode;
pub use experiment::{Error, Prepared};
pub use run::{Period, PeriodEnd, Replacement, Run, RunOutput, RunParts};
pub use world::Simulator;
