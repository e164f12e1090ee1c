//! State shared by the rings of one run: the time that they reached, and whether one of them failed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dumbwaiter_block::Nanos;

/// The rings of one run: each has its own thread, disk and scheduler, and the first failure ends all.
#[derive(Default)]
pub(crate) struct RingGroup {
    /// One of them failed, so all end.
    stop: AtomicBool,
    /// The latest time that any of them reached, ns.
    reached: AtomicU64,
}

impl RingGroup {
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// One ring reached `now`: how much later that is than any reached before.
    pub(super) fn advance(&self, now: Nanos) -> Nanos {
        now.since(Nanos(self.reached.fetch_max(now.0, Ordering::Relaxed)))
    }
}
