//! Every scheduler by name: its source, its settings and its factory.
//!
//! To enter a scheduler, add an [`Entry`] to [`REGISTRY`] in `list.rs`. From there the command, the checks of configuration,
//! the conformance tests and the benchmarks know it.

mod choice;
mod entry;
mod error;
mod factory;
mod list;
mod searched;
mod setting;
#[cfg(test)]
mod tests;

pub use choice::Choice;
pub use entry::Entry;
pub use error::ChoiceError;
pub use factory::{Factory, factory};
pub use list::{REGISTRY, find};
pub use searched::Searched;
pub use setting::{Parameter, ParameterKind, Settings};
