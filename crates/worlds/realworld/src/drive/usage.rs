//! The CPU time of this program, and the clock that processes share.
#![allow(unsafe_code)]

use dumbwaiter_block::Nanos;
use dumbwaiter_measure::CpuFacts;

/// The monotonic clock that all processes share, ns.
pub fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives over the call, which cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time and context switches of this program so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User time.
    pub usr: Nanos,
    /// System time.
    pub sys: Nanos,
    /// Context switches.
    pub switches: u64,
}

impl Usage {
    /// As the CPU figures of a run; `self` is what was used between its start and its end.
    pub fn cpu_facts(self) -> CpuFacts {
        CpuFacts {
            busy: vec![self.usr + self.sys],
            usr: self.usr,
            sys: self.sys,
            switches: Some(self.switches),
            ..CpuFacts::default()
        }
    }

    /// Of all threads, those that the kernel runs for our rings included.
    pub fn now() -> Usage {
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

    /// The difference from an earlier reading.
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            usr: self.usr.since(earlier.usr),
            sys: self.sys.since(earlier.sys),
            switches: self.switches.saturating_sub(earlier.switches),
        }
    }
}
