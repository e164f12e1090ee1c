//! A simulated request allocates nothing in steady state: between two points of a run, thousands of requests apart, there
//! are next to no allocations.
#![allow(unsafe_code)] // A global allocator that counts can only be written with it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use dumbwaiter_experiment::Control;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::{Choice, REGISTRY};
use dumbwaiter_sim::Prepared;

/// The system's allocator, which counts the allocations of the run that its thread watches.
struct Counting;

/// The part of a run in which allocations are counted.
struct Watch {
    /// I/Os finished so far; the simulator adds to it every few thousand events.
    finished: &'static AtomicU64,
    counted: Range<u64>,
}

thread_local! {
    // Tests of this program run side by side: each thread counts its own.
    static WATCH: Cell<Option<&'static Watch>> = const { Cell::new(None) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    if let Some(watch) = WATCH.get()
        && watch.counted.contains(&watch.finished.load(Ordering::Relaxed))
    {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    }
}

// SAFETY: every call goes unchanged to the system's allocator; counting allocates nothing, as the cells are constants
// without destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// I/Os before the counted ones, in which queues and maps reach their size.
const WARMUP_IOS: u64 = 24_000;
const COUNTED_IOS: u64 = 20_000;
/// I/Os after the counted ones: the end of a run, which makes its result, is not counted.
const REST_IOS: u64 = 4_000;

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
    let watch = Watch { finished: &control.finished, counted: WARMUP_IOS..WARMUP_IOS + COUNTED_IOS };
    WATCH.set(Some(Box::leak(Box::new(watch))));
    ALLOCATIONS.set(0);
    let cell = prepared.run(&model, &choice, 0, control).unwrap();
    WATCH.set(None);
    assert_eq!(cell.run.requests, limit);
    ALLOCATIONS.get()
}

#[test]
fn none_per_request() {
    for device in ["ull:optane-900p", "hdd:st1000dm003", "ssd:850pro-256"] {
        for entry in REGISTRY {
            let more = allocations(device, entry.name);
            assert!(more < 100, "{device}, {}: {more} allocations for {COUNTED_IOS} requests", entry.name);
        }
    }
}

/// The counter sees what it is there for.
#[test]
fn one_per_request_is_counted() {
    let finished: &'static AtomicU64 = Box::leak(Box::default());
    WATCH.set(Some(Box::leak(Box::new(Watch { finished, counted: 10..20 }))));
    for n in 0..30 {
        finished.store(n, Ordering::Relaxed);
        drop(std::hint::black_box(Box::new(n)));
    }
    WATCH.set(None);
    assert_eq!(ALLOCATIONS.get(), 10);
}
