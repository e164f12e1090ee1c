//! A die: one thing at a time, and what waits for it.

use std::collections::VecDeque;

use dumbwaiter_block::Nanos;

use super::work::Program;

/// A page that a read needs, or the part of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portion {
    pub(super) task: u32,
    pub(super) units: u32,
    pub(super) t_read: Nanos,
    /// Place in the order of arrivals at dies, and at the channel.
    pub(super) order: u64,
    pub(super) turn: u64,
    /// The rest of a step of garbage collection that it met.
    pub(super) gc_stall: Nanos,
    pub(super) arrived: Nanos,
}

/// What a die programs or moves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    Program(Program),
    /// A step of garbage collection of that length.
    Collection(Nanos),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Idle,
    Sensing,
    /// The page register waits for the channel or is being sent.
    Sending,
    /// A program or a step of garbage collection.
    Working,
    Suspending,
}

#[derive(Debug)]
pub(super) struct Die {
    pub(super) step: Step,
    /// End of the step.
    pub(super) until: Nanos,
    /// Number of the step.
    pub(super) turn: u32,
    pub(super) reads: VecDeque<Portion>,
    /// The read in progress, and the delay by garbage collection.
    pub(super) reading: Option<Portion>,
    pub(super) programs: VecDeque<Program>,
    /// The data of the first program is in the die's register, or on its way there.
    pub(super) loaded: bool,
    pub(super) loading: bool,
    /// What is in progress or suspended, and what is left of it.
    pub(super) work: Option<(Work, Nanos)>,
    /// Reads since the last program.
    pub(super) ran: u32,
    /// Programs that are its, also those that the controller has not handed over.
    pub(super) assigned: u32,
    /// Whether it collects when it is idle; time that garbage collection still needs, of that what is due, and what falls due with each program.
    pub(super) collecting: bool,
    pub(super) gc_left: Nanos,
    pub(super) gc_due: Nanos,
    pub(super) gc_slice: Nanos,
}

impl Die {
    pub(super) fn new() -> Die {
        Die {
            step: Step::Idle,
            until: Nanos::ZERO,
            turn: 0,
            reads: VecDeque::new(),
            reading: None,
            programs: VecDeque::new(),
            loaded: false,
            loading: false,
            collecting: false,
            work: None,
            ran: 0,
            assigned: 0,
            gc_left: Nanos::ZERO,
            gc_due: Nanos::ZERO,
            gc_slice: Nanos::ZERO,
        }
    }

    /// Whether the data of a physical unit waits for its program here.
    pub(super) fn holds(&self, physical: u32) -> bool {
        let is = |p: &Program| physical.wrapping_sub(p.physical) < p.units;
        let current = matches!(&self.work, Some((Work::Program(program), _)) if is(program));
        current || self.programs.iter().any(is)
    }
}
