//! Threads of I/O.

use dumbwaiter_block::{Ioprio, Nanos, TaskId, TenantId};
use dumbwaiter_workloads::{Next, Workload};

/// How a thread submits its I/Os.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One I/O a system call: a synchronous thread, or a trace that merges many threads.
    Each,
    /// A ring (io_uring, libaio): one system call submits the successors of all I/Os that completed together.
    Batch,
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
    /// Queue depth: most I/Os outstanding.
    pub depth: u32,
    /// How it submits.
    pub mode: Mode,
    /// The CPU that it runs on.
    pub cpu: u16,
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
            depth: 1,
            mode: Mode::Each,
            cpu: 0,
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
