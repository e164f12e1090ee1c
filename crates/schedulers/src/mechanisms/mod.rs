//! Mechanisms that several schedulers share, each tested alone.

pub mod list;
pub mod sorted;
