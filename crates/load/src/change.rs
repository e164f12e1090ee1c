//! What becomes different while a run goes on.

use dumbwaiter_block::{BlockLayer, Ioprio, Nanos, TenantId};
use dumbwaiter_measure::Recorder;
use dumbwaiter_scenario::{Task, Tenant};

use crate::Running;

/// Something that happens to a thread or a tenant at a time. Threads are indices into [`crate::Load::threads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The thread asks for nothing more; its tasks exit when its I/O is done.
    Stop {
        /// The thread.
        thread: u32,
    },
    /// All tasks of the thread get a priority.
    Ioprio {
        /// The thread.
        thread: u32,
        /// The priority.
        ioprio: Ioprio,
    },
    /// All tasks of the thread go over to a tenant, which is charged for what they ask for from then on.
    Move {
        /// The thread.
        thread: u32,
        /// The tenant.
        tenant: TenantId,
    },
    /// The tenant gets a weight.
    Weight {
        /// The tenant.
        tenant: TenantId,
        /// Its share relative to its siblings.
        weight: u32,
    },
}

impl Change {
    /// Makes the change; answers with the thread that asks for nothing more from now on, if it is that.
    pub fn make<T: AsMut<Running>>(
        self,
        now: Nanos,
        threads: &mut [T],
        layer: &mut BlockLayer,
        recorder: &mut Recorder,
    ) -> Option<u32> {
        match self {
            Change::Stop { thread } => return threads[thread as usize].as_mut().stop().then_some(thread),
            Change::Ioprio { thread, ioprio } => {
                let running = threads[thread as usize].as_mut();
                running.thread.ioprio = ioprio;
                running.change(now, layer, |task| task.ioprio = ioprio);
            }
            Change::Move { thread, tenant } => {
                let running = threads[thread as usize].as_mut();
                running.thread.tenant = tenant;
                running.change(now, layer, |task| task.tenant = tenant);
            }
            Change::Weight { tenant, weight } => {
                recorder.weight(now, tenant, weight);
                if let Some(own) = layer.tenants().tenant(tenant).copied() {
                    // The scenario's weights have been checked.
                    let _ = layer.change_tenant(now, tenant, dumbwaiter_block::Tenant { weight, ..own });
                }
            }
        }
        None
    }
}

/// The changes of a task, which is this thread.
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

/// The changes of a tenant.
pub(crate) fn of_tenant(changes: &mut Vec<(Nanos, Change)>, spec: &Tenant, tenant: TenantId) {
    changes.extend(spec.changes.iter().map(|c| (c.at, Change::Weight { tenant, weight: c.weight })));
}
