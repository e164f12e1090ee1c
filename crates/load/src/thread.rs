//! One thread of I/O.

use dumbwaiter_block::{Ioprio, Nanos, TaskId, TenantId};
use dumbwaiter_workloads::{Next, Workload};

/// How a thread hands its I/Os over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each by itself: a synchronous thread, or a trace whose requests come from many.
    Each,
    /// A ring: what completed together is followed up together, in one system call.
    Batch,
}

/// One thread of I/O.
pub struct Thread {
    /// What it does.
    pub workload: Box<dyn Workload>,
    /// The tenant that is charged.
    pub tenant: TenantId,
    /// Its task; a workload with several tasks gets new ones behind all that are known.
    pub task: TaskId,
    /// Priority of its I/Os unless they carry their own.
    pub ioprio: Ioprio,
    /// I/Os it may have outstanding.
    pub depth: u32,
    /// How it hands them over.
    pub mode: Mode,
    /// CPU it runs on.
    pub cpu: u16,
    /// Does it pause between I/Os as an application does (its own arrival times otherwise)?
    pub closed: bool,
    /// It starts when all threads of lower stages have ended.
    pub stage: u32,
    /// It asks for nothing before this time.
    pub start: Nanos,
}

impl Thread {
    /// A thread that does nothing, to be filled in.
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
        }
    }
}

struct Nothing;

impl Workload for Nothing {
    fn next(&mut self, _now: Nanos) -> Next {
        Next::Done
    }
}
