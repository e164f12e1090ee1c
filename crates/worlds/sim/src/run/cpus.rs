//! The CPUs of a run, and what waits for them.
//!
//! Two kinds of threads wait for a CPU, in queues of their own: those that submit one I/O at a time and poll for it, which take
//! turns, and those of libaio, which run until they sleep. They differ in who runs next (the first in line, or mostly the first)
//! and when (at once, or when the work that was booked is done), and do not wait for each other.

use std::collections::VecDeque;

use dumbwaiter_block::Nanos;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::SplitMix64;

use crate::events::EventKind;
use crate::host::{Completion, Host};

/// Time slice of the kernel's CPU scheduler.
pub(super) const SLICE: Nanos = Nanos(3_000_000);

/// One choice of the next thread out of this many is at random.
const RANDOM_CHOICE_EVERY: u32 = 4;

/// The CPUs: their time, and who waits for each.
pub(super) struct Cpus {
    pub(super) host: Host,
    pub(super) turns: Turns,
    /// Of threads of libaio, by CPU.
    pub(super) queues: Vec<CpuQueue>,
    random: SplitMix64,
}

impl Cpus {
    pub(super) fn new(host: Host, seed: u64) -> Cpus {
        Cpus {
            turns: Turns::new(host.completion(), host.cpus()),
            queues: vec![CpuQueue::default(); host.cpus()],
            random: SplitMix64::seed_from_u64(seed),
            host,
        }
    }

    /// A length that differs from loop to loop of a program: up to that of a system call, ns.
    pub(super) fn vary(&mut self) -> u64 {
        self.random.random_range(0..=self.host.profile.sub)
    }

    /// Takes what a thread does that waits for this CPU.
    pub(super) fn take_runnable(&mut self, cpu: usize) -> Option<EventKind> {
        let queue = &mut self.queues[cpu];
        queue.dispatching = false;
        let chosen = match queue.runnable.len() {
            0 | 1 => 0,
            several if self.random.random_ratio(1, RANDOM_CHOICE_EVERY) => self.random.random_range(0..several),
            _ => 0,
        };
        queue.runnable.remove(chosen)
    }

    /// The polling kernel threads (SQPOLL) of rings on these CPUs start, each on the SMT sibling.
    pub(super) fn start_sq_threads(&mut self, rings: impl Iterator<Item = usize>) {
        let cpus = self.host.cpus();
        if self.host.completion() == Completion::Sqpoll && cpus > 1 {
            for cpu in rings {
                self.host.start_poll((cpu + cpus / 2) % cpus, Nanos::ZERO);
            }
        }
    }
}

/// Work of a thread on a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) enum CpuWork {
    /// To submit the I/O of this slot and wait for it.
    Submit(u32),
    /// To poll for the I/O of this slot after a sleep.
    Poll(u32),
    /// To go on submitting the I/O of this slot, for whose request its task slept.
    Resume(u32),
}

/// Run queues of the CPUs; unused with interrupts, where all threads sleep.
pub(super) struct Turns {
    /// Whether polling threads hold their CPU, so that others queue for it.
    pub(super) exclusive: bool,
    pub(super) cpus: Vec<RunQueue>,
    /// The CPU whose thread was just notified of a completion and continues without queueing.
    pub(super) continuing: Option<usize>,
}

#[derive(Clone, Default)]
pub(super) struct RunQueue {
    pub(super) used: bool,
    pub(super) since: Nanos,
    pub(super) waiting: VecDeque<CpuWork>,
}

impl Turns {
    pub(super) fn new(completion: Completion, cpus: usize) -> Turns {
        let exclusive = completion != Completion::Interrupt;
        Turns { exclusive, cpus: vec![RunQueue::default(); cpus], continuing: None }
    }
}

/// The threads of libaio that want to run on a CPU.
#[derive(Clone, Default)]
pub(super) struct CpuQueue {
    /// The thread that has it, and since when.
    pub(super) owner: Option<u32>,
    pub(super) since: Nanos,
    /// Another thread was woken since: that one gets the CPU when the owner returns to its program.
    pub(super) preempted: bool,
    /// Next events of the threads that wait for it.
    pub(super) runnable: VecDeque<EventKind>,
    /// A `Dispatch` event is pending.
    pub(super) dispatching: bool,
}
