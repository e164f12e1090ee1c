//! The monotonic clock, counted from an origin.
#![allow(unsafe_code)]

use std::time::Instant;

use dumbwaiter_block::Nanos;

/// Time since the origin.
#[derive(Clone, Copy)]
pub(crate) enum Clock {
    /// The machine's.
    Monotonic(Instant),
    /// Time that passes only when its owner says so.
    Manual(Nanos),
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock::Monotonic(Instant::now())
    }

    /// Moves a manual clock on; it never goes back.
    pub(crate) fn advance(&mut self, to: Nanos) {
        if let Clock::Manual(now) = self {
            *now = (*now).max(to);
        }
    }

    /// Counts from an origin that may lie ahead; sleeps until then.
    pub(crate) fn start_at(begin: Instant) -> Clock {
        std::thread::sleep(begin.saturating_duration_since(Instant::now()));
        Clock::Monotonic(begin)
    }

    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        match self {
            Clock::Monotonic(origin) => Nanos(origin.elapsed().as_nanos() as u64),
            Clock::Manual(now) => *now,
        }
    }

    /// Sleeps until a time, as exactly as the kernel can.
    pub(crate) fn sleep_until(&self, at: Nanos) {
        let rest = at.since(self.now());
        if rest > Nanos::ZERO {
            std::thread::sleep(std::time::Duration::from_nanos(rest.0));
        }
    }
}

/// `struct sched_attr` of `linux/sched/types.h`, its first version.
#[repr(C)]
#[derive(Default)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks for slices of `slice` of CPU time for this thread: it runs sooner when it is woken, and for no longer in all. Linux 6.12
/// does so; others ignore it.
pub fn short_slices(slice: Nanos) {
    let size = size_of::<SchedulingAttributes>() as u32;
    let mut attributes = SchedulingAttributes { size, ..SchedulingAttributes::default() };
    // SAFETY: both calls concern this thread only, and the structure lives over them.
    unsafe {
        if libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) == 0 && attributes.policy == 0 {
            attributes.runtime = slice.0;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
        }
    }
}

/// Lets this thread's timers fire when they are due instead of up to 50 us later, or resets that.
pub fn exact_timers(exact: bool) {
    // SAFETY: a plain call that concerns this thread only; 0 is the usual slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, u64::from(exact), 0u64, 0u64, 0u64) };
}
