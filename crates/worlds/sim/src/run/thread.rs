//! State of threads and tasks during a run.

use std::collections::VecDeque;

use dumbwaiter_block::{Nanos, TaskId};
use dumbwaiter_scenario::load::{Mode, Thread};

use crate::host::{Away, Completion, RingTime};

/// A thread of the load on its CPU.
pub(super) struct ThreadState {
    pub(super) cpu: usize,
    /// It goes on on an idle CPU if another thread has its own when it is woken.
    pub(super) moves: bool,
    /// The CPU of the ring's worker thread that started last, if it moves.
    pub(super) worker_cpu: usize,
    /// When a worker of the ring last had nothing more to do: that one is woken first.
    pub(super) worker_idle: Nanos,
    pub(super) mode: Mode,
    /// It runs when its CPU chooses it, until it sleeps. Others only book their work there.
    pub(super) scheduled: bool,
    /// I/Os that it submits and reaps at once, at most.
    pub(super) batch: usize,
    pub(super) reaps: usize,
    /// Completions in its ring that it can see without a call.
    pub(super) visible: usize,
    /// CPU time that it has used, ns; and where its CPU stood when it left that.
    pub(super) used: u64,
    pub(super) ran: bool,
    pub(super) away: Away,
    /// How often it stands in the line for its CPU.
    pub(super) in_line: u32,
    /// What its turn costs more after a sleep.
    pub(super) more: u64,
    /// Its queue depth.
    pub(super) depth: u32,
    pub(super) closed: bool,
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
    /// The drive of its last I/O.
    pub(super) drive: u8,
}

impl ThreadState {
    pub(super) fn new(thread: &Thread, completion: Completion) -> ThreadState {
        let interrupts = completion == Completion::Interrupt;
        let alone = thread.mode == Mode::Each && thread.depth == 1 && thread.closed;
        let ring = matches!(thread.mode, Mode::Ring { .. });
        let (batch, reaps) = match ring && !interrupts {
            // What polls finds all that is there, and submits what follows.
            true => (usize::MAX, usize::MAX),
            false => (thread.mode.batch(), thread.mode.reaps()),
        };
        let scheduled = matches!(thread.mode, Mode::Aio { .. }) || interrupts && (alone || ring);
        ThreadState {
            cpu: usize::from(thread.cpu),
            moves: thread.moves && scheduled && interrupts,
            worker_cpu: usize::from(thread.cpu),
            worker_idle: Nanos::ZERO,
            scheduled,
            batch,
            reaps,
            visible: 0,
            used: 0,
            ran: false,
            away: Away::default(),
            in_line: 0,
            more: 0,
            mode: thread.mode,
            depth: thread.depth,
            closed: thread.closed,
            prepared: VecDeque::new(),
            issuing: 0,
            plugged: false,
            sleeps_for: None,
            for_workers: VecDeque::new(),
            workers: 0,
            ready: VecDeque::new(),
            asleep: true,
            reaping: false,
            owed: 0,
            cold: true,
            polls: false,
            rests: false,
            slept: Nanos::ZERO,
            ring: RingTime::default(),
            drive: 0,
        }
    }

    /// May its I/O sleep in the call that submits it?
    pub(super) fn may_sleep(&self) -> bool {
        self.mode.may_sleep()
    }
}

/// A task that submits its I/Os one by one.
#[derive(Clone, Default)]
pub(super) struct TaskSleep {
    /// It sleeps until an I/O has its request.
    pub(super) asleep: bool,
    /// Slots that it submits afterwards.
    pub(super) behind: VecDeque<u32>,
}

/// Sleeps of tasks, by [`TaskId`].
#[derive(Default)]
pub(super) struct TaskSleeps(Vec<TaskSleep>);

impl TaskSleeps {
    /// That of a task.
    pub(super) fn of(&mut self, task: TaskId) -> &mut TaskSleep {
        let index = task.0 as usize;
        if index >= self.0.len() {
            self.0.resize_with(index + 1, TaskSleep::default);
        }
        &mut self.0[index]
    }

    /// Does the task sleep until an I/O has its request?
    pub(super) fn is_asleep(&self, task: TaskId) -> bool {
        self.0.get(task.0 as usize).is_some_and(|sleep| sleep.asleep)
    }

    /// The next slot that a task submits which does not sleep.
    pub(super) fn next_behind(&mut self, task: TaskId) -> Option<u32> {
        self.0.get_mut(task.0 as usize).filter(|sleep| !sleep.asleep)?.behind.pop_front()
    }

    /// Slots that tasks submit after a sleep.
    pub(super) fn all_behind(&self) -> impl Iterator<Item = &u32> {
        self.0.iter().flat_map(|sleep| &sleep.behind)
    }
}
