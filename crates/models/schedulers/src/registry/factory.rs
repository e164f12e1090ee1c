//! Factories: what builds a scheduler with its controllers.

use std::sync::Arc;

use dumbwaiter_block::{Scheduler, Setup, Stack};

use super::error::ChoiceError;

/// Builds a stack with its default numbers. It may be called any number of times, from any thread.
pub type Factory = Arc<dyn Fn(Setup) -> Stack + Send + Sync>;

/// A factory of one type of scheduler, as [`Entry::make`](super::Entry::make) returns it.
pub fn factory<S: Scheduler + 'static>(
    build: impl Fn(Setup) -> S + Send + Sync + 'static,
) -> Result<Factory, ChoiceError> {
    Ok(Arc::new(move |setup| (Box::new(build(setup)) as Box<dyn Scheduler>).into()))
}
