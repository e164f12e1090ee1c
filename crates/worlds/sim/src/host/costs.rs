//! What schedulers cost a machine's CPUs, and how much of it is under their lock.

use dumbwaiter_scenario::{HostCosts, SchedulerNs};

/// How often, and for how long, a scheduler takes its lock for an I/O, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockUse {
    /// For an I/O that completed.
    pub finish: u64,
    /// To look for a request that the I/O may join.
    pub merge: u64,
    /// To look for the limit of its task.
    pub limit: u64,
    /// To insert: once for each request, or for all of a call.
    pub insert: u64,
    pub(crate) insert_each: bool,
    /// To choose the next request.
    pub dispatch: u64,
    /// Another lock, that of the disk's queue: how often for an I/O, and for how long each time.
    pub side: (u64, u64),
}

/// How a scheduler's warm cost is spread over its lock, in thousandths: for each take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockShape {
    finish: u64,
    merge: u64,
    limit: u64,
    insert: u64,
    insert_each: bool,
    dispatch: u64,
    /// The queue's lock: how often for an I/O, and how long each time.
    side: (u64, u64),
}

impl LockShape {
    /// No lock of the device: one for each queue, or none.
    pub const NONE: LockShape =
        LockShape { finish: 0, merge: 0, limit: 0, insert: 0, insert_each: false, dispatch: 0, side: (0, 0) };

    /// Is there a lock?
    pub fn is_shared(&self) -> bool {
        self.dispatch > 0
    }

    /// The takes of a request whose hooks cost `hooks` ns.
    pub(crate) fn takes(&self, hooks: u64) -> LockUse {
        let of = |part: u64| hooks * part / 1000;
        LockUse {
            finish: of(self.finish),
            merge: of(self.merge),
            limit: of(self.limit),
            insert: of(self.insert),
            insert_each: self.insert_each,
            dispatch: of(self.dispatch),
            side: (self.side.0, of(self.side.1)),
        }
    }

    /// The part of a submission's cost that is not under the lock, in thousandths, if submission is `submit` of the cost.
    pub(crate) fn free(&self, submit: u64) -> u64 {
        submit.saturating_sub(self.merge + self.limit + self.insert + self.dispatch + self.side.0 * self.side.1)
    }
}

/// Three takes: merge, insert, dispatch. 0.33 us of 0.57 are under the lock.
const MQ_DEADLINE_LOCK: LockShape =
    LockShape { finish: 0, merge: 116, limit: 0, insert: 232, insert_each: false, dispatch: 232, side: (0, 0) };
/// Five takes: merge, limit, insert, dispatch, finish. 0.62 us of 1.36 are under the lock, and three times the queue's lock is taken.
const BFQ_LOCK: LockShape =
    LockShape { finish: 68, merge: 55, limit: 37, insert: 160, insert_each: true, dispatch: 137, side: (3, 29) };
/// Everything under the queue's one lock, as in the single-queue layer.
const WHOLE_LOCK: LockShape =
    LockShape { finish: 150, merge: 150, limit: 0, insert: 350, insert_each: true, dispatch: 350, side: (0, 0) };

/// Cost of a scheduler's hooks per request with warm caches, ns: insert, dispatch and completion together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerCost {
    /// A read.
    pub read: u64,
    /// Anything else.
    pub write: u64,
    /// What of it is under the device's lock.
    pub lock: LockShape,
}

/// Cost of a scheduler on a machine.
pub fn scheduler_cost(profile: &HostCosts, name: &str) -> SchedulerCost {
    let SchedulerNs { read, write } = profile.scheduler(name);
    let lock = match name {
        _ if profile.schedulers_percent == 0 => LockShape::NONE,
        "none" | "kyber" => LockShape::NONE,
        "bfq" => BFQ_LOCK,
        "noop" => WHOLE_LOCK,
        _ => MQ_DEADLINE_LOCK,
    };
    SchedulerCost { read, write, lock }
}
