//! Errors of a run: a scheduler or driver that breaks its contract, a device that makes no progress.

use std::fmt;

use crate::request::{Request, State};
use crate::{Nanos, Op, RequestId};

/// How long a device may refuse requests, or a scheduler hold all of them back from an idle device, without one request
/// being finished.
pub const NO_PROGRESS_LIMIT: Nanos = Nanos::from_secs(30);
/// It must have been asked this often in that time: a clock that leaps, or a driver that does not ask, is no fault of theirs.
const NO_PROGRESS_ATTEMPTS: u32 = 100;

/// Attempts to send a request since one was last finished or, by the scheduler, sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FailedAttempts {
    pub(super) since: Option<Nanos>,
    pub(super) count: u32,
}

impl FailedAttempts {
    /// One more; have there been too many for too long?
    pub(super) fn too_many(&mut self, now: Nanos) -> bool {
        self.count = self.count.saturating_add(1);
        let since = *self.since.get_or_insert(now);
        self.count >= NO_PROGRESS_ATTEMPTS && now.since(since) >= NO_PROGRESS_LIMIT
    }
}

/// What is checked of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    pub(super) failed_attempts: FailedAttempts,
    pub(super) fault: Option<Fault>,
}

/// The request that a [`Fault`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// Its id.
    pub id: RequestId,
    /// Where it was on the path.
    pub state: State,
    /// Operation, first sector and length in sectors.
    pub extent: Option<(Op, u64, u32)>,
}

impl Culprit {
    pub(super) fn new(id: RequestId, request: Option<&Request>) -> Culprit {
        let state = request.map_or(State::Free, |r| r.state);
        Culprit { id, state, extent: request.map(|r| (r.io.op, r.sector, r.sectors)) }
    }
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.id.0)?;
        if let Some((op, sector, sectors)) = self.extent {
            write!(f, " ({op} of {sectors} sectors at sector {sector})")?;
        }
        f.write_str(match self.state {
            State::Free => ", which does not exist",
            State::Parked => ", which a controller keeps",
            State::Waiting => ", which waits for a controller or a tag",
            State::Plugged => ", which is in its task's plug",
            State::Queued => ", which is in the scheduler",
            State::Dispatched => ", which was dispatched before",
            State::Issued => ", which is in the device",
            State::Merged => ", which is part of another request",
            State::Held => ", which is split or waits for a flush",
        })
    }
}

/// Why the block layer sends nothing any more. It is set once, and the run cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The scheduler dispatched a request that it does not hold.
    WrongDispatch(Culprit),
    /// The scheduler named a request for a merge that it does not hold, or that the I/O may not join there.
    WrongMerge(Culprit),
    /// A controller released an I/O that it does not keep.
    WrongRelease(Culprit),
    /// The driver completed, refused or requeued a request that is not in the device.
    WrongCompletion(Culprit),
    /// The device refused requests, or gave them back, for [`NO_PROGRESS_LIMIT`] and finished none.
    DeviceRefuses(Culprit),
    /// The scheduler held requests for [`NO_PROGRESS_LIMIT`] and sent none to a device that was idle.
    SchedulerStalls {
        /// Requests waiting.
        waiting: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::WrongDispatch(culprit) => write!(f, "the scheduler dispatched {culprit}"),
            Fault::WrongMerge(culprit) => {
                write!(f, "the scheduler merged an I/O into a request where it does not fit: {culprit}")
            }
            Fault::WrongRelease(culprit) => write!(f, "a controller released {culprit}"),
            Fault::WrongCompletion(culprit) => write!(f, "the driver answered {culprit}"),
            Fault::DeviceRefuses(culprit) => {
                write!(f, "the device finished nothing for {NO_PROGRESS_LIMIT} and refuses {culprit}")
            }
            Fault::SchedulerStalls { waiting } => {
                write!(
                    f,
                    "the scheduler sent nothing for {NO_PROGRESS_LIMIT} to an idle device with {waiting} requests waiting"
                )
            }
        }
    }
}

impl std::error::Error for Fault {}
