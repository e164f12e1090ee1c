//! Mechanisms that several schedulers share, each tested alone.

pub mod forest;
pub mod list;
pub mod ordered;
pub mod wf2q;

/// Order by sector; it lives with the vocabulary because devices use it too.
pub mod sorted {
    pub use dumbwaiter_block::Sorted;
}
