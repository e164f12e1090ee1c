//! Counts the allocations of a thread, for tests of code that allocates nothing in steady state.
//!
//! A test program sets it as its allocator: `#[global_allocator] static ALLOCATOR: CountingAllocator = CountingAllocator;`
#![allow(unsafe_code)] // A global allocator can only be written with it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator with counters.
pub struct CountingAllocator;

/// The part of a run in which allocations are counted.
struct Window {
    progress: &'static AtomicU64,
    counted: Range<u64>,
}

thread_local! {
    // Tests of one program run side by side, so each thread has its own counters.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
    static WINDOW: Cell<Option<&'static Window>> = const { Cell::new(None) };
}

/// Allocations and reallocations of this thread so far, within the window if [`count_only`] set one.
pub fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// Bytes that this thread allocated and did not free.
pub fn live_bytes() -> i64 {
    LIVE_BYTES.with(Cell::get)
}

/// Counts only this thread's allocations during which `progress` is in the range; `None` counts all again.
pub fn count_only(window: Option<(&'static AtomicU64, Range<u64>)>) {
    WINDOW.set(window.map(|(progress, counted)| &*Box::leak(Box::new(Window { progress, counted }))));
}

fn count(allocations: u64, bytes: i64) {
    // The counters are gone while a thread ends.
    let _ = LIVE_BYTES.try_with(|live| live.set(live.get() + bytes));
    let counts = WINDOW
        .try_with(Cell::get)
        .is_ok_and(|window| window.is_none_or(|w| w.counted.contains(&w.progress.load(Ordering::Relaxed))));
    if counts {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + allocations));
    }
}

// SAFETY: every call goes unchanged to the system's allocator; counting allocates nothing, as the cells are constants
// without destructors.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as i64 - layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
