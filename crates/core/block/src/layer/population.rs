//! Tenants and tasks that come, change and go at run time.

use crate::{Errno, TaskId, TenantId, Tenants};

/// Uses of an id, which keep it from being given to another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    /// I/Os under way.
    pub(super) ios: u32,
    /// Of a tenant: its tasks and the tenants nested in it.
    pub(super) members: u32,
    /// Of a task: what it has submitted and the device has not is dropped.
    pub(super) gone: Option<Errno>,
    /// It is removed as soon as it has no use left.
    pub(super) retiring: bool,
}

impl Use {
    pub(super) fn is_unused(&self) -> bool {
        self.retiring && self.ios == 0 && self.members == 0
    }
}

/// Uses of each id.
#[derive(Clone, Debug, Default)]
pub(super) struct Population {
    pub(super) tenants: Vec<Use>,
    pub(super) tasks: Vec<Use>,
    /// Some task has been gone: the requests of such tasks are looked for.
    pub(super) any_gone: bool,
    /// Ids that may be given up.
    pub(super) pending: Vec<PendingRemoval>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum PendingRemoval {
    Task(TaskId),
    Tenant(TenantId),
}

impl Population {
    pub(super) fn new(tenants: &Tenants) -> Population {
        let mut population = Population {
            tenants: vec![Use::default(); tenants.tenant_slots()],
            tasks: vec![Use::default(); tenants.task_slots()],
            any_gone: false,
            pending: Vec::new(),
        };
        for (_, tenant) in tenants.tenants() {
            population.joins(tenant.parent);
        }
        for (_, task) in tenants.tasks() {
            population.joins(Some(task.tenant));
        }
        population
    }

    /// An I/O was submitted. One of unknown ids is not counted.
    #[inline]
    pub(super) fn begins(&mut self, task: TaskId, tenant: TenantId) {
        if let Some(task) = self.tasks.get_mut(task.0 as usize) {
            task.ios += 1;
        }
        if let Some(tenant) = self.tenants.get_mut(tenant.0 as usize) {
            tenant.ios += 1;
        }
    }

    /// An I/O was finished.
    #[inline]
    pub(super) fn ends(&mut self, task: TaskId, tenant: TenantId) {
        if let Some(own) = self.tasks.get_mut(task.0 as usize) {
            own.ios = own.ios.saturating_sub(1);
            if own.is_unused() {
                self.pending.push(PendingRemoval::Task(task));
            }
        }
        if let Some(own) = self.tenants.get_mut(tenant.0 as usize) {
            own.ios = own.ios.saturating_sub(1);
            if own.is_unused() {
                self.pending.push(PendingRemoval::Tenant(tenant));
            }
        }
    }

    /// Nobody waits for the I/Os of a task any more. Does it have any under way?
    pub(super) fn give_up(&mut self, task: TaskId, why: Errno) -> bool {
        let Some(own) = self.tasks.get_mut(task.0 as usize) else { return false };
        own.gone = Some(why);
        own.ios > 0
    }

    /// Why the I/Os of a task are dropped, if they are.
    pub(super) fn gone(&self, task: TaskId) -> Option<Errno> {
        self.tasks.get(task.0 as usize)?.gone
    }

    /// Capacities, for a test.
    #[cfg(test)]
    pub(super) fn footprint(&self) -> [usize; 3] {
        [self.tenants.capacity(), self.tasks.capacity(), self.pending.capacity()]
    }

    pub(super) fn joins(&mut self, tenant: Option<TenantId>) {
        if let Some(own) = tenant.and_then(|id| self.tenants.get_mut(id.0 as usize)) {
            own.members += 1;
        }
    }

    pub(super) fn leaves(&mut self, tenant: Option<TenantId>) {
        if let Some(id) = tenant
            && let Some(own) = self.tenants.get_mut(id.0 as usize)
        {
            own.members = own.members.saturating_sub(1);
            if own.is_unused() {
                self.pending.push(PendingRemoval::Tenant(id));
            }
        }
    }
}

/// Makes an entry for `index`, which is new or was given up before.
pub(super) fn enroll(uses: &mut Vec<Use>, index: u32) {
    let index = index as usize;
    if index >= uses.len() {
        uses.resize(index + 1, Use::default());
    }
    uses[index] = Use::default();
}
