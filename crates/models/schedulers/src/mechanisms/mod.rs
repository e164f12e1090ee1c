//! Mechanisms that several schedulers share, each with its own tests.

pub mod flows;
pub mod list;
pub mod nesting;
pub mod ordered;
pub mod wf2q;

/// Requests in order of sector. It is defined in `block` because devices use it too.
pub mod sorted {
    pub use dumbwaiter_block::Sorted;
}
