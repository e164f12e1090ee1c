//! Workloads: generators, applications, fio job files and a page-cache model.
#![forbid(unsafe_code)]

pub mod applications;
pub mod fio;
pub mod generate;
mod options;
pub mod page_cache;

use dumbwaiter_block::{Flags, Ioprio, Nanos, Op};

/// The I/O that a workload submits next, without task and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The operation.
    pub op: Op,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Length in sectors; 0 only for a flush.
    pub sectors: u32,
    /// Request flags.
    pub flags: Flags,
    /// I/O priority, if it differs from the task's.
    pub ioprio: Option<Ioprio>,
    /// Stream or tag hint.
    pub stream: u16,
    /// Index of the submitting task within the workload. Generators have one task; a trace has one per process.
    pub task: u16,
}

/// The next action of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Submit this now.
    Issue(Want),
    /// Nothing before this time: call again then.
    Wait(Nanos),
    /// As `Wait`: the page cache lets the task sleep, which has written much ([`dumbwaiter_block::Event::WriterPaused`]).
    Pause(Nanos),
    /// Nothing until one of its I/Os completes: call again then.
    Blocked,
    /// The workload has ended.
    Done,
}

/// The I/O of one thread. The world calls it whenever the thread may submit one more I/O.
pub trait Workload: Send {
    /// The next action at `now`; times do not decrease between calls.
    fn next(&mut self, now: Nanos) -> Next;

    /// An I/O of task `task` completed; `lat` is its latency from submission to completion.
    fn completed(&mut self, now: Nanos, task: u16, lat: Nanos) {
        let _ = (now, task, lat);
    }

    /// Its task was stopped: there will be no further calls of [`Workload::next`].
    fn stopped(&mut self) {}

    /// Results of an application at `now`, called once at the end of a run; `None` for plain I/O.
    fn outcome(&self, now: Nanos) -> Option<ApplicationOutcome> {
        let _ = now;
        None
    }
}

/// Results of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplicationOutcome {
    /// A program that is launched repeatedly.
    StartUps {
        /// Name of the program.
        kind: &'static str,
        /// Time after which a launch is aborted.
        timeout: Nanos,
        /// Start-up times of the completed launches.
        started: Vec<Nanos>,
        /// Launches aborted at the time-out.
        not_started: u64,
        /// How long the launch that is still running at the end has run.
        cut_off: Option<Nanos>,
    },
    /// A player that shows one frame after another.
    Frames {
        /// Name of the video.
        kind: &'static str,
        /// Frames that were had, or are late enough to be dropped.
        frames: u64,
        /// Of those, the dropped ones.
        missed: u64,
        /// How long after it was due each frame was had.
        batches: Vec<Nanos>,
    },
}
