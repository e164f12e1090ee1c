//! Tests of features, inference, model files, imports, metrics and training.

use dumbwaiter_testkit::allocations::CountingAllocator;

mod features;
mod import;
mod inference;
mod line;
mod metrics;
mod model_file;
mod training;
mod trees;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
