//! Scheduled changes of weights, priorities, membership and the scheduler.

use crate::change::IoCostChange;
use crate::{Scenario, Task, Tenant};
use dumbwaiter_block::{Handover, Ioprio, Nanos, TenantId};
use dumbwaiter_controllers::io_max::Rates;

/// A change of a thread, a tenant or the scheduler at a given time. Threads are indices into [`Load::threads`](crate::load::Load::threads).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The thread submits nothing more; its tasks exit when its outstanding I/O is complete.
    Stop {
        /// The thread.
        thread: u32,
    },
    /// All tasks of the thread get a new I/O priority.
    Ioprio {
        /// The thread.
        thread: u32,
        /// The new priority.
        ioprio: Ioprio,
    },
    /// All tasks of the thread move to a tenant, which is charged for the I/O they submit from then on.
    Move {
        /// The thread.
        thread: u32,
        /// The tenant.
        tenant: TenantId,
    },
    /// Another scheduler takes over.
    Scheduler {
        /// The change's index in [`Scenario::changes`].
        index: u32,
        /// How requests under way pass to the new scheduler.
        how: Handover,
    },
    /// The tenant gets a new weight.
    Weight {
        /// The tenant.
        tenant: TenantId,
        /// The new weight, relative to its siblings.
        weight: u32,
    },
    /// io.cost gets other settings, where it is.
    IoCost {
        /// What is written to `io.cost.qos`.
        qos: Option<String>,
        /// What is written to `io.cost.model`.
        model: Option<String>,
    },
    /// The tenant gets other limits of io.max.
    IoMax {
        /// The tenant.
        tenant: TenantId,
        /// All limits from then on, of reads and of writes.
        limits: [Rates; 2],
    },
}

/// Adds the scheduled changes of the scheduler.
pub(crate) fn of_scheduler(changes: &mut Vec<(Nanos, Change)>, scenario: &Scenario) {
    let indexed = (0..).zip(&scenario.changes);
    changes.extend(indexed.map(|(index, change)| (change.at, Change::Scheduler { index, how: change.how })));
}

/// Adds the scheduled changes of io.cost.
pub(crate) fn of_io_cost(changes: &mut Vec<(Nanos, Change)>, scenario: &Scenario) {
    let of =
        |change: &IoCostChange| (change.at, Change::IoCost { qos: change.qos.clone(), model: change.model.clone() });
    changes.extend(scenario.kernel.io_cost_changes.iter().map(of));
}

/// Adds the scheduled changes of `task`, whose I/O `thread` does.
pub(crate) fn of_task(changes: &mut Vec<(Nanos, Change)>, task: &Task, thread: u32, id_of: impl Fn(&str) -> TenantId) {
    for change in &task.changes {
        if let Some(ioprio) = change.ioprio {
            changes.push((change.at, Change::Ioprio { thread, ioprio }));
        }
        if let Some(tenant) = &change.tenant {
            changes.push((change.at, Change::Move { thread, tenant: id_of(tenant) }));
        }
    }
    changes.extend(task.stop.map(|at| (at, Change::Stop { thread })));
}

/// Adds the scheduled changes of a tenant.
pub(crate) fn of_tenant(changes: &mut Vec<(Nanos, Change)>, spec: &Tenant, tenant: TenantId) {
    for change in &spec.changes {
        changes.extend(change.weight.map(|weight| (change.at, Change::Weight { tenant, weight })));
        changes.extend(change.io_max.map(|limits| (change.at, Change::IoMax { tenant, limits })));
    }
}
