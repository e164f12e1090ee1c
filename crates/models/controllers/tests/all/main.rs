//! Controllers in worlds of their own.

mod io_cost;
mod io_latency;
mod io_max;
mod io_max_cost;
mod switching;
mod wbt;
mod world;

use dumbwaiter_testkit::allocations::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
