//! Threads of I/O.

use dumbwaiter_block::{Ioprio, Nanos, TaskId, TenantId};
use dumbwaiter_workloads::{Next, Workload};

/// How a thread submits its I/Os, and what it does when there is no request for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One I/O a system call, in which its task sleeps until it has a request: a synchronous thread, or a trace that merges many
    /// tasks.
    Each,
    /// libaio as fio uses it: one call submits `batch` I/Os, fewer when no more may be outstanding, and one call reaps. The thread sleeps in the call, with all I/Os behind, until the I/O has a request.
    Aio {
        /// I/Os that one call submits.
        batch: u32,
        /// I/Os that it reaps at once, at most.
        reaps: u32,
    },
    /// io_uring as fio uses it: one call submits `batch` I/Os and shows what has completed, from which it reaps.
    Ring {
        /// I/Os that one call submits.
        batch: u32,
        /// I/Os that it reaps at once, at most.
        reaps: u32,
        /// The thread sleeps in the call until an I/O has a request. Otherwise I/Os that would have to go to worker threads of the
        /// ring.
        sleeps: bool,
    },
    /// One call submits the successors of all I/Os that completed together, and the thread sleeps until each I/O has a request: a kernel thread such as that of write-back.
    Kernel {
        /// I/Os that it has ready at a time, at most.
        batch: u32,
    },
}

impl Mode {
    /// Has the thread a queue of its own for I/Os under way?
    pub fn queues(self) -> bool {
        self != Mode::Each
    }

    /// I/Os that one call submits at most.
    pub fn batch(self) -> usize {
        match self {
            Mode::Each => 1,
            Mode::Aio { batch, .. } | Mode::Ring { batch, .. } | Mode::Kernel { batch } => batch.max(1) as usize,
        }
    }

    /// Completions that it reaps at once, at most.
    pub fn reaps(self) -> usize {
        match self {
            Mode::Aio { reaps, .. } | Mode::Ring { reaps, .. } => reaps.max(1) as usize,
            Mode::Each | Mode::Kernel { .. } => usize::MAX,
        }
    }

    /// May its I/O sleep in the call that submits it?
    pub fn may_sleep(self) -> bool {
        !matches!(self, Mode::Ring { sleeps: false, .. })
    }
}

/// Worker threads of an io_uring with `entries` on `cpus` (Linux: for I/O on block devices and files).
pub fn ring_workers(entries: u32, cpus: usize) -> u32 {
    entries.max(1).min(4 * cpus as u32)
}

/// A thread that submits I/O.
pub struct Thread {
    /// Generates its I/Os.
    pub workload: Box<dyn Workload>,
    /// The tenant that is charged.
    pub tenant: TenantId,
    /// Its first task; a workload with several tasks gets more of them when they appear.
    pub task: TaskId,
    /// I/O priority of I/Os that carry none of their own.
    pub ioprio: Ioprio,
    /// An I/O whose predicted wait is longer is refused.
    pub deadline: Option<Nanos>,
    /// Queue depth: most I/Os outstanding.
    pub depth: u32,
    /// How it submits.
    pub mode: Mode,
    /// The CPU that it runs on.
    pub cpu: u16,
    /// Woken while another thread runs there, it goes on on a CPU that is idle.
    pub moves: bool,
    /// Closed loop: the next I/O follows a completion. Otherwise the workload sets arrival times (open loop).
    pub closed: bool,
    /// It starts when all threads of lower stages have ended.
    pub stage: u32,
    /// Earliest time of its first I/O.
    pub start: Nanos,
    /// A service of the host, such as write-back: it starts with the first stage, and no stage waits for it to end.
    pub background: bool,
}

impl Thread {
    /// A thread that submits nothing: the base for struct updates.
    pub fn idle() -> Thread {
        Thread {
            workload: Box::new(Nothing),
            tenant: TenantId(0),
            task: TaskId(0),
            ioprio: Ioprio::DEFAULT,
            deadline: None,
            depth: 1,
            mode: Mode::Each,
            cpu: 0,
            moves: false,
            closed: true,
            stage: 0,
            start: Nanos::ZERO,
            background: false,
        }
    }
}

struct Nothing;

impl Workload for Nothing {
    fn next(&mut self, _now: Nanos) -> Next {
        Next::Done
    }
}
