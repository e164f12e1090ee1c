//! Who asks: tasks, and the weighted tenants they belong to.

use crate::Ioprio;

/// A process or thread that submits I/O (Linux: io_context). An index into [`Tenants::tasks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// A weighted group of tasks (cgroup, VM, export). An index into [`Tenants::tenants`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u32);

/// What schedulers know of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// Priority of its requests unless they carry their own.
    pub ioprio: Ioprio,
}

/// What schedulers know of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Share relative to its siblings, 1 to 10000; 100 is the default (cgroup v2's range).
    pub weight: u32,
    /// The tenant it is nested in, if any.
    pub parent: Option<TenantId>,
}

impl Default for Tenant {
    fn default() -> Self {
        Tenant { weight: 100, parent: None }
    }
}

/// All tenants and tasks of a run.
#[derive(Clone, Debug, Default)]
pub struct Tenants {
    /// Tenants by [`TenantId`].
    pub tenants: Vec<Tenant>,
    /// Tasks by [`TaskId`].
    pub tasks: Vec<Task>,
}

impl Tenants {
    /// Adds a tenant.
    pub fn add_tenant(&mut self, tenant: Tenant) -> TenantId {
        self.tenants.push(tenant);
        TenantId(self.tenants.len() as u32 - 1)
    }

    /// Adds a task of `tenant`.
    pub fn add_task(&mut self, tenant: TenantId, ioprio: Ioprio) -> TaskId {
        self.tasks.push(Task { tenant, ioprio });
        TaskId(self.tasks.len() as u32 - 1)
    }
}
