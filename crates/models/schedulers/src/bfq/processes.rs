//! State of processes.

use super::queue::{Injection, NONE, QueueId, Raise, ThinkTime};
use crate::mechanisms::wf2q::Class;

/// State of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    /// Its sync queue.
    pub(super) queue: QueueId,
    /// The async queue it used last.
    pub(super) async_queue: QueueId,
    /// Its requests that have not completed.
    pub(super) requests: u32,
    /// The queue to merge with when this process's queue is old enough.
    pub(super) stable_candidate: QueueId,
    pub(super) stably_merged: bool,
    /// Class and level of its last request.
    pub(super) prio: Option<(Class, u8)>,
}

impl Process {
    const NEW: Process = Process {
        queue: NONE,
        async_queue: NONE,
        requests: 0,
        stable_candidate: NONE,
        stably_merged: false,
        prio: None,
    };

    /// Its queue for this kind of I/O.
    pub(super) fn queue_for(&self, sync: bool) -> QueueId {
        if sync { self.queue } else { self.async_queue }
    }
}

/// State of a process's queue before it was merged with the one that the process now shares.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    pub(super) think: ThinkTime,
    pub(super) short_think: bool,
    pub(super) io_bound: bool,
    pub(super) window_start: u64,
    pub(super) idle_sum: u64,
    pub(super) large_burst: bool,
    pub(super) injection: Injection,
    pub(super) raise: Raise,
    pub(super) soft_rt_next_start: i64,
}

/// All processes, by task.
#[derive(Clone, Debug, Default)]
pub(super) struct Processes {
    all: Vec<Process>,
    /// The state of its queue before a merge. Apart from `all`, because few requests need it.
    saved: Vec<Option<Saved>>,
}

impl Processes {
    /// Makes room for a task.
    pub(super) fn admit(&mut self, task: u32) {
        while task as usize >= self.all.len() {
            self.all.push(Process::NEW);
            self.saved.push(None);
        }
    }

    pub(super) fn get(&self, task: u32) -> Option<&Process> {
        self.all.get(task as usize)
    }

    pub(super) fn get_mut(&mut self, task: u32) -> Option<&mut Process> {
        self.all.get_mut(task as usize)
    }

    pub(super) fn len(&self) -> u32 {
        self.all.len() as u32
    }

    /// The task exited, and its number may be used again. Returns what it was.
    pub(super) fn forget(&mut self, task: u32) -> Option<Process> {
        let process = self.all.get_mut(task as usize)?;
        let was = *process;
        *process = Process { requests: was.requests, ..Process::NEW };
        self.saved[task as usize] = None;
        Some(was)
    }

    /// No process has this async queue any more.
    pub(super) fn drop_async_queue(&mut self, q: QueueId) {
        for process in self.all.iter_mut().filter(|p| p.async_queue == q) {
            process.async_queue = NONE;
        }
    }

    /// The state of a task's queue before a merge.
    pub(super) fn saved_mut(&mut self, task: u32) -> &mut Option<Saved> {
        &mut self.saved[task as usize]
    }
}

by_number!(Processes: Process);
