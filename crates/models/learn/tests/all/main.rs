//! Tests of features, inference, model files, imports and metrics.

use dumbwaiter_testkit::allocations::CountingAllocator;

mod features;
mod import;
mod inference;
mod line;
mod metrics;
mod model_file;
mod trees;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
