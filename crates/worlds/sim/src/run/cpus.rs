//! The CPUs of a run, and what waits for them.
//!
//! Two kinds of threads wait for a CPU, in queues of their own: those that submit one I/O at a time and poll for it, which take
//! turns, and those that run until they sleep. They differ in who runs next (the first in line, or the one that has run least)
//! and when (at once, or when the work that was booked is done), and do not wait for each other.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use dumbwaiter_block::Nanos;

use crate::events::EventKind;
use crate::host::{Completion, Host};

/// Time slice of the kernel's CPU scheduler.
pub(super) const SLICE: Nanos = Nanos(3_000_000);

/// The CPUs: their time, and who waits for each.
pub(super) struct Cpus {
    pub(super) host: Host,
    pub(super) turns: Turns,
    /// Of threads that run until they sleep, by CPU.
    pub(super) queues: Vec<CpuQueue>,
    /// By CPU: what happens once the call that is under way there has been through the scheduler's lock.
    pub(super) calls: Vec<Option<EventKind>>,
}

impl Cpus {
    pub(super) fn new(host: Host) -> Cpus {
        Cpus {
            turns: Turns::new(host.completion(), host.cpus()),
            queues: vec![CpuQueue::default(); host.cpus()],
            calls: vec![None; host.cpus()],
            host,
        }
    }

    /// Does nobody run on a CPU at `at`, or wait for it?
    pub(super) fn is_idle(&self, cpu: usize, at: Nanos) -> bool {
        let queue = &self.queues[cpu];
        queue.owner.is_none() && queue.runnable.is_empty() && !queue.dispatching && self.host.free_at(cpu) <= at
    }

    /// The next CPU behind this one that is idle at `at`.
    pub(super) fn idle_behind(&self, cpu: usize, at: Nanos) -> Option<usize> {
        let cpus = self.queues.len();
        (1..cpus).map(|step| (cpu + step) % cpus).find(|cpu| self.is_idle(*cpu, at))
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

/// What a thread does first that gets its CPU after a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resumes {
    /// It goes on in its call.
    Call,
    /// It returns to its application with a completion.
    Application,
}

/// A thread that waits for its CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runnable {
    /// CPU time that it has used, ns.
    pub(super) used: u64,
    pub(super) arrival: u64,
    /// What it does next.
    pub(super) event: EventKind,
    pub(super) thread: u32,
    /// It slept, and is switched in first.
    pub(super) resumes: Option<Resumes>,
}

impl PartialEq for Runnable {
    fn eq(&self, other: &Runnable) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Runnable {}

impl PartialOrd for Runnable {
    fn partial_cmp(&self, other: &Runnable) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Runnable {
    /// The one that has used least is the greatest, for a max-heap.
    fn cmp(&self, other: &Runnable) -> Ordering {
        (other.used, other.arrival).cmp(&(self.used, self.arrival))
    }
}

/// The threads that want to run on a CPU until they sleep.
#[derive(Clone, Default)]
pub(super) struct CpuQueue {
    /// The thread that has it, and since when.
    pub(super) owner: Option<u32>,
    pub(super) since: Nanos,
    /// Another thread was woken since: that one gets the CPU when the owner returns to its program.
    pub(super) preempted: bool,
    /// The threads that wait for it.
    pub(super) runnable: BinaryHeap<Runnable>,
    pub(super) arrivals: u64,
    /// CPU time that the one had used which was chosen last: who wakes up or begins has not used much less.
    pub(super) floor: u64,
    /// A `Dispatch` event is pending.
    pub(super) dispatching: bool,
}
