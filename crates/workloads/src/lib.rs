//! Workload generators, fio job files, and block-trace readers and writers.
#![forbid(unsafe_code)]

pub mod applications;
pub mod fio;
pub mod generate;
pub mod nearest;
pub mod page_cache;
pub mod units;

use dumbwaiter_block::{Flags, Ioprio, Nanos, Op};

/// One I/O that a workload wants, without who asks and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// What to do.
    pub op: Op,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Length in sectors; 0 only for a flush.
    pub sectors: u32,
    /// Marks.
    pub flags: Flags,
    /// Priority, where it differs from the task's.
    pub ioprio: Option<Ioprio>,
    /// Stream or tag hint.
    pub stream: u16,
    /// Which of this workload's tasks asks, from 0. Generators have one task; a trace has one per process.
    pub task: u16,
}

/// Answer of a workload to "what next?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Issue this now.
    Issue(Want),
    /// Nothing before this time; ask again then.
    Wait(Nanos),
    /// Nothing until one of its I/Os completes; ask again then.
    Blocked,
    /// Nothing any more.
    Done,
}

/// What one thread of I/O does. It is asked whenever the thread may have one more I/O outstanding.
pub trait Workload: Send {
    /// What next, at `now`? Never earlier than at the call before.
    fn next(&mut self, now: Nanos) -> Next;

    /// An I/O of task `task` completed. `lat` is from submission to completion.
    fn completed(&mut self, now: Nanos, task: u16, lat: Nanos) {
        let _ = (now, task, lat);
    }

    /// It will not be asked again: its task is stopped.
    fn stopped(&mut self) {}

    /// What came of it by `now`, where there is more to tell than its I/O. Asked once, at the end of a run.
    fn outcome(&self, now: Nanos) -> Option<Outcome> {
        let _ = now;
        None
    }
}

/// What came of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A program that is started again and again.
    StartUps {
        /// What program.
        kind: &'static str,
        /// A start that takes longer is given up.
        timeout: Nanos,
        /// How long each start took that came to its end.
        started: Vec<Nanos>,
        /// Starts that were given up.
        not_started: u64,
        /// Starts under way at the end.
        cut_off: u64,
    },
    /// A player that reads a frame at a time.
    Frames {
        /// What it plays.
        kind: &'static str,
        /// Frames that were due or read.
        frames: u64,
        /// Of those, not read by their time.
        missed: u64,
        /// How long it took to read each that was read.
        batches: Vec<Nanos>,
    },
}
