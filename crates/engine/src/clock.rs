//! The monotonic clock, counted from the start of a run, and the CPU time of this program.
#![allow(unsafe_code)]

use std::time::Instant;

use dumbwaiter_block::Nanos;

/// Time since the run began.
#[derive(Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock(Instant::now())
    }

    /// Counts from a moment that may be still to come; it is waited for.
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

/// The monotonic clock that all processes share, ns.
pub fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives over the call, which cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What this program used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) usr: Nanos,
    pub(crate) sys: Nanos,
    pub(crate) switches: u64,
}

impl Usage {
    /// Of all threads, those that the kernel runs for our rings included.
    pub(crate) fn now() -> Usage {
        // SAFETY: a plain structure for the kernel to fill in.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` lives over the call, which cannot fail with these arguments.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
        let time = |t: libc::timeval| Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000);
        Usage {
            usr: time(usage.ru_utime),
            sys: time(usage.ru_stime),
            switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64,
        }
    }

    pub(crate) fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            usr: self.usr.since(earlier.usr),
            sys: self.sys.since(earlier.sys),
            switches: self.switches.saturating_sub(earlier.switches),
        }
    }
}

/// Lets this thread's timers fire when they are due, not up to 50 us later; or as usual again.
pub(crate) fn exact_timers(exact: bool) {
    // SAFETY: a plain call that concerns this thread only; 0 is the usual slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, u64::from(exact), 0u64, 0u64, 0u64) };
}
