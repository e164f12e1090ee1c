//! Mechanisms that several schedulers share, each tested alone.

pub mod list;
pub mod ordered;
pub mod sorted;
pub mod wf2q;
