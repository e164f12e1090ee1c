//! What a policy is told at a tick, and what it decides.

use dumbwaiter_block::Nanos;

use crate::switching::work::Work;

/// Inputs of a tick: what happened since the last one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tick {
    /// The time.
    pub now: Nanos,
    /// Completed I/O.
    pub work: Work,
    /// All requests sent by an earlier scheduler are complete.
    pub clean: bool,
    /// The candidate in force.
    pub in_force: usize,
}

/// The reason of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Too few requests to recognise the load.
    TooFewRequests,
    /// The requested exchange has not happened yet.
    NotInForce,
    /// The load may have changed; the next observations will confirm it.
    Unsure,
    /// The candidate in force is the best known for this workload.
    BestKnown,
    /// A better one is known, but the last exchange was too recent, or there were too many in this hour.
    Dwelling,
    /// A better one is known.
    Better,
    /// A trial goes on, or begins.
    Trial,
    /// A trial is over.
    TrialOver,
    /// The effect of the last exchange is being measured.
    Checking,
    /// Trials have used up their budget for now.
    NoBudget,
    /// The table does not cover this workload, or not confidently enough.
    Unknown,
    /// The last exchange lost more than it gained.
    Revert,
}

/// The decision of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Exchange the scheduler for this candidate; `None` keeps the one in force.
    pub switch_to: Option<usize>,
    /// Why.
    pub reason: Reason,
    /// Time of the next tick.
    pub next: Nanos,
    /// The workload, if it was recognised.
    pub workload: Option<usize>,
}
