//! The monotonic clock, counted from an origin.
#![allow(unsafe_code)]

use std::time::Instant;

use dumbwaiter_block::Nanos;

/// Time since the origin.
#[derive(Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock(Instant::now())
    }

    /// Counts from an origin that may lie ahead; sleeps until then.
    pub(crate) fn start_at(begin: Instant) -> Clock {
        std::thread::sleep(begin.saturating_duration_since(Instant::now()));
        Clock(begin)
    }

    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        Nanos(self.0.elapsed().as_nanos() as u64)
    }

    /// Sleeps until a time, as exactly as the kernel can.
    pub(crate) fn sleep_until(&self, at: Nanos) {
        let rest = at.since(self.now());
        if rest > Nanos::ZERO {
            std::thread::sleep(std::time::Duration::from_nanos(rest.0));
        }
    }
}

/// Lets this thread's timers fire when they are due instead of up to 50 us later, or resets that.
pub fn exact_timers(exact: bool) {
    // SAFETY: a plain call that concerns this thread only; 0 is the usual slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, u64::from(exact), 0u64, 0u64, 0u64) };
}
