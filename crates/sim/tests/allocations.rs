//! A simulated request allocates nothing in steady state: twice as many requests cost no more allocations.
#![allow(unsafe_code)] // A global allocator that counts can only be written with it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use dumbwaiter_experiment::Control;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::{Choice, REGISTRY};
use dumbwaiter_sim::Prepared;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes unchanged to the system's allocator; only a counter is added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(device: &str, scheduler: &str, requests: u64) -> u64 {
    let text = format!(
        "limit = {requests}\nseries = \"10s\"\n[[task]]\nname = \"a\"\ncount = 2\nrw = \"randrw\"\nbs = \"4k\"\niodepth = 64\nnorandommap = true\nsize = \"1GiB\"\n"
    );
    let scenario = Scenario::from_toml(&text, "test").unwrap();
    let model = dumbwaiter_devices::load(device).unwrap();
    let choice = Choice::parse(scheduler).unwrap();
    let prepared = Prepared::new(&scenario).unwrap();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let cell = prepared.run(&model, &choice, 0, &Control::default()).unwrap();
    assert_eq!(cell.run.requests, requests);
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

#[test]
fn none_per_request() {
    // Flash keeps a map of what was written: its pages appear as the load reaches them, so it gets a longer start.
    for (device, start) in [("ull:optane-900p", 20_000), ("hdd:st1000dm003", 20_000), ("ssd:850pro-256", 400_000)] {
        for entry in REGISTRY {
            let (once, twice) =
                (allocations(device, entry.name, start), allocations(device, entry.name, start + 20_000));
            let more = twice.saturating_sub(once);
            assert!(more < 100, "{device}, {}: {more} more allocations for 20,000 more requests", entry.name);
        }
    }
}
