//! State of I/Os, threads and CPUs during a run.

use std::collections::VecDeque;

use dumbwaiter_block::{Io, Nanos, RequestId};
use dumbwaiter_scenario::load::{Running, Thread};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::SplitMix64;

use crate::events::EventKind;
use crate::host::{Completion, RingTime};

/// An I/O of a thread, from its submission until the thread is notified.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    pub(super) submit: Nanos,
    pub(super) insert: Nanos,
    pub(super) issue: Nanos,
    pub(super) device_done: Nanos,
    pub(super) io: Io,
    pub(super) thread: u32,
    pub(super) task: u16,
    /// The request that its task sleeps for.
    pub(super) request: Option<RequestId>,
    /// A worker thread of the ring submits it.
    pub(super) worker: bool,
    /// When its completion could be seen by a thread that was not looking; else zero.
    pub(super) posted: Nanos,
    /// The device has completed it.
    pub(super) done: bool,
    /// It failed.
    pub(super) failed: bool,
    /// Its thread slept before it polled.
    pub(super) slept: bool,
    /// Time since which its thread polls for it.
    pub(super) polls_from: Option<Nanos>,
}

pub(super) struct ThreadState {
    pub(super) running: Running,
    /// Slots prepared for the next batch.
    pub(super) prepared: VecDeque<u32>,
    /// Prepared slots in the batch being submitted.
    pub(super) issuing: u32,
    /// The batch being submitted is plugged.
    pub(super) plugged: bool,
    /// The thread sleeps in the call that submits: for the request of this slot.
    pub(super) sleeps_for: Option<u32>,
    /// Slots that wait for a worker thread of the ring, and the number of workers that have one.
    pub(super) for_workers: VecDeque<u32>,
    pub(super) workers: u32,
    /// Completed slots that the thread has not reaped.
    pub(super) ready: VecDeque<u32>,
    /// Sleeping until a completion.
    pub(super) asleep: bool,
    /// A `Reap` event is pending.
    pub(super) reaping: bool,
    /// Time of the next `Wake` event.
    pub(super) wake_at: Nanos,
    /// CPU time of reaped completions, charged to the next batch.
    pub(super) owed: u64,
    /// The next batch follows a sleep.
    pub(super) cold: bool,
    /// The thread of a ring polls for completions.
    pub(super) polls: bool,
    /// It sleeps before it polls; `slept` is the length of that sleep.
    pub(super) rests: bool,
    pub(super) slept: Nanos,
    pub(super) ring: RingTime,
}

impl ThreadState {
    pub(super) fn new(thread: Thread) -> ThreadState {
        ThreadState {
            running: Running::new(thread),
            prepared: VecDeque::new(),
            issuing: 0,
            plugged: false,
            sleeps_for: None,
            for_workers: VecDeque::new(),
            workers: 0,
            ready: VecDeque::new(),
            asleep: true,
            reaping: false,
            wake_at: Nanos::MAX,
            owed: 0,
            cold: true,
            polls: false,
            rests: false,
            slept: Nanos::ZERO,
            ring: RingTime::default(),
        }
    }
}

impl AsMut<Running> for ThreadState {
    fn as_mut(&mut self) -> &mut Running {
        &mut self.running
    }
}

/// Work of a thread on a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// To submit the I/O of this slot and wait for it.
    Submit(u32),
    /// To poll for the I/O of this slot after a sleep.
    Poll(u32),
    /// To go on submitting the I/O of this slot, for whose request its task slept.
    Resume(u32),
}

/// A task that submits its I/Os one by one.
#[derive(Clone, Default)]
pub(super) struct TaskSleep {
    /// It sleeps until an I/O has its request.
    pub(super) asleep: bool,
    /// Slots that it submits afterwards.
    pub(super) behind: VecDeque<u32>,
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
    pub(super) waiting: VecDeque<Turn>,
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
    /// What threads do next that wait for it.
    pub(super) runnable: VecDeque<EventKind>,
    /// A `Dispatch` event is pending.
    pub(super) dispatching: bool,
}

/// The CPUs of a run.
pub(super) struct CpuQueues {
    pub(super) queues: Vec<CpuQueue>,
    pub(super) random: SplitMix64,
}

impl CpuQueues {
    pub(super) fn new(cpus: usize, seed: u64) -> CpuQueues {
        CpuQueues { queues: vec![CpuQueue::default(); cpus], random: SplitMix64::seed_from_u64(seed) }
    }

    /// A length that differs from loop to loop of a program: up to `most` ns.
    pub(super) fn vary(&mut self, most: u64) -> u64 {
        self.random.random_range(0..=most)
    }
}
