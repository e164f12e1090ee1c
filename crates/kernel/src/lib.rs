//! Linux as a subject: dispatch recordings and how a scheduler agrees with them.
#![forbid(unsafe_code)]

pub mod fidelity;
pub mod recording;
