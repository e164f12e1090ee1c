//! Tenants and tasks that come, change and go while requests are under way.

use crate::layer::BlockLayer;
use crate::layer::population::{PendingRemoval, enroll};
use crate::scheduler::Event;
use crate::{Nanos, Task, TaskId, Tenant, TenantError, TenantId};

impl BlockLayer {
    /// Adds a tenant.
    pub fn add_tenant(&mut self, now: Nanos, tenant: Tenant) -> Result<TenantId, TenantError> {
        check_weight(tenant.weight)?;
        self.check_member(tenant.parent)?;
        let id = self.tenants.add_tenant(tenant);
        enroll(&mut self.population.tenants, id.0);
        self.population.joins(tenant.parent);
        self.notify_scheduler(now, Event::TenantAdded(id));
        Ok(id)
    }

    /// Changes a tenant's weight or parent.
    pub fn change_tenant(&mut self, now: Nanos, id: TenantId, tenant: Tenant) -> Result<(), TenantError> {
        let before = *self.tenants.tenant(id).ok_or(TenantError::NoTenant(id))?;
        check_weight(tenant.weight)?;
        if tenant.parent != before.parent {
            self.check_member(tenant.parent)?;
        }
        let mut above = tenant.parent;
        while let Some(at) = above {
            if at == id {
                return Err(TenantError::Cycle(id));
            }
            above = self.tenants.tenant(at).and_then(|t| t.parent);
        }
        if let Some(own) = self.tenants.tenant_mut(id) {
            *own = tenant;
        }
        self.population.joins(tenant.parent);
        self.population.leaves(before.parent);
        self.event(now, Event::TenantChanged(id));
        self.give_up_ids(now);
        Ok(())
    }

    /// A tenant goes: as soon as it has no task, no nested tenant and no I/O under way, the scheduler gets
    /// [`Event::TenantRetired`] and the id may be given out again.
    pub fn retire_tenant(&mut self, now: Nanos, id: TenantId) -> Result<(), TenantError> {
        self.tenants.tenant(id).ok_or(TenantError::NoTenant(id))?;
        let own = &mut self.population.tenants[id.0 as usize];
        own.retiring = true;
        if own.is_unused() {
            self.population.pending.push(PendingRemoval::Tenant(id));
            self.give_up_ids(now);
        }
        Ok(())
    }

    /// Adds a task.
    pub fn add_task(&mut self, now: Nanos, task: Task) -> Result<TaskId, TenantError> {
        self.check_member(Some(task.tenant))?;
        let id = self.tenants.add_task(task.tenant, task.ioprio);
        enroll(&mut self.population.tasks, id.0);
        self.population.joins(Some(task.tenant));
        self.notify_scheduler(now, Event::TaskAdded(id));
        Ok(id)
    }

    /// Changes a task's tenant or priority. I/O under way stays charged to the tenant it names.
    pub fn change_task(&mut self, now: Nanos, id: TaskId, task: Task) -> Result<(), TenantError> {
        let before = *self.tenants.task(id).ok_or(TenantError::NoTask(id))?;
        if task.tenant != before.tenant {
            self.check_member(Some(task.tenant))?;
        }
        if let Some(own) = self.tenants.task_mut(id) {
            *own = task;
        }
        self.population.joins(Some(task.tenant));
        self.population.leaves(Some(before.tenant));
        self.event(now, Event::TaskChanged(id));
        self.give_up_ids(now);
        Ok(())
    }

    /// A task goes: as soon as it has no I/O under way, the scheduler gets [`Event::TaskExited`] and the id may be given out
    /// again.
    pub fn retire_task(&mut self, now: Nanos, id: TaskId) -> Result<(), TenantError> {
        self.tenants.task(id).ok_or(TenantError::NoTask(id))?;
        let own = &mut self.population.tasks[id.0 as usize];
        own.retiring = true;
        if own.is_unused() {
            self.population.pending.push(PendingRemoval::Task(id));
            self.give_up_ids(now);
        }
        Ok(())
    }

    /// May something new belong to this tenant?
    fn check_member(&self, tenant: Option<TenantId>) -> Result<(), TenantError> {
        let Some(id) = tenant else { return Ok(()) };
        self.tenants.tenant(id).ok_or(TenantError::NoTenant(id))?;
        if self.population.tenants[id.0 as usize].retiring { Err(TenantError::Retiring(id)) } else { Ok(()) }
    }

    /// Tells the scheduler and frees the ids of which nothing is under way any more.
    pub(super) fn give_up_ids(&mut self, now: Nanos) {
        while let Some(removal) = self.population.pending.pop() {
            match removal {
                PendingRemoval::Task(id) => {
                    // It may be in the list twice, or have been given out again since.
                    let Some(task) = self.tenants.task(id).copied() else { continue };
                    if self.population.tasks[id.0 as usize].is_unused() {
                        self.event(now, Event::TaskExited(id));
                        self.tenants.remove_task(id);
                        self.population.leaves(Some(task.tenant));
                    }
                }
                PendingRemoval::Tenant(id) => {
                    let Some(tenant) = self.tenants.tenant(id).copied() else { continue };
                    if self.population.tenants[id.0 as usize].is_unused() {
                        self.event(now, Event::TenantRetired(id));
                        self.tenants.remove_tenant(id);
                        self.population.leaves(tenant.parent);
                    }
                }
            }
        }
    }

    /// Are there ids to give up?
    pub(super) fn some_leave(&self) -> bool {
        !self.population.pending.is_empty()
    }
}

fn check_weight(weight: u32) -> Result<(), TenantError> {
    if (1..=Tenant::MAX_WEIGHT).contains(&weight) { Ok(()) } else { Err(TenantError::Weight(weight)) }
}
