//! A simulated request allocates nothing in steady state: between two points of a run, thousands of requests apart, there
//! are next to no allocations.

use std::sync::atomic::{AtomicU64, Ordering};

use dumbwaiter_experiment::Control;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::{Choice, REGISTRY};
use dumbwaiter_sim::Prepared;
use dumbwaiter_testkit::allocations::{self, CountingAllocator};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// I/Os before the counted ones, in which queues and maps reach their size.
const WARMUP_IOS: u64 = 24_000;
const COUNTED_IOS: u64 = 10_000;
/// I/Os after the counted ones: the end of a run, which makes its result, is not counted.
const REST_IOS: u64 = 2_000;

/// Allocations while the I/Os of the counted part finish.
fn allocations(device: &str, scheduler: &str) -> u64 {
    let limit = WARMUP_IOS + COUNTED_IOS + REST_IOS;
    // Flash keeps a map of the pages that were written: all of this size are, by the end of the warm-up.
    let text = format!(
        "limit = {limit}\nseries = \"10s\"\n[[task]]\nname = \"a\"\ncount = 2\nrw = \"randrw\"\nbs = \"4k\"\niodepth = 64\nnorandommap = true\nsize = \"8MiB\"\n"
    );
    let scenario = Scenario::from_toml(&text, "test").unwrap();
    let model = dumbwaiter_devices::load(device).unwrap();
    let choice = Choice::parse(scheduler).unwrap();
    let prepared = Prepared::new(&scenario).unwrap();
    let control: &'static Control = Box::leak(Box::default());
    // The simulator adds to `finished` every few thousand events.
    allocations::count_only(Some((&control.finished, WARMUP_IOS..WARMUP_IOS + COUNTED_IOS)));
    let before = allocations::allocations();
    let cell = prepared.run(&model, &choice, 0, control).unwrap();
    let counted = allocations::allocations() - before;
    assert_eq!(cell.run.requests, limit);
    counted
}

#[test]
fn none_per_request() {
    for device in ["ull:optane-900p", "hdd:st1000dm003", "ssd:850pro-256"] {
        for entry in REGISTRY {
            let more = allocations(device, entry.name);
            // Each exchange of the scheduler makes one, with its queues.
            let most = if entry.name == "adaptive" { COUNTED_IOS / 10 } else { 100 };
            assert!(more < most, "{device}, {}: {more} allocations for {COUNTED_IOS} requests", entry.name);
        }
    }
}

/// The counter sees what it is there for.
#[test]
fn one_per_request_is_counted() {
    let finished: &'static AtomicU64 = Box::leak(Box::default());
    allocations::count_only(Some((finished, 10..20)));
    let before = allocations::allocations();
    for n in 0..30 {
        finished.store(n, Ordering::Relaxed);
        drop(std::hint::black_box(Box::new(n)));
    }
    assert_eq!(allocations::allocations() - before, 10);
}
