//! Tasks that submit I/O, and the weighted tenants they belong to.

use std::fmt;

use crate::Ioprio;

/// A process or thread that submits I/O (Linux: io_context). Numbers are small and reused once a task has exited, so they
/// index side tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// A weighted group of tasks (cgroup, VM, export). Numbers are small and reused once a tenant has been retired, so they
/// index side tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u32);

/// A task's tenant and priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// Priority of its requests unless they carry their own.
    pub ioprio: Ioprio,
}

/// A tenant's weight and its place in the hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Share relative to its siblings, 1 to 10000; 100 is the default (cgroup v2's range).
    pub weight: u32,
    /// The tenant it is nested in, if any.
    pub parent: Option<TenantId>,
}

impl Tenant {
    /// The greatest weight (cgroup v2's).
    pub const MAX_WEIGHT: u32 = 10_000;
}

impl Default for Tenant {
    fn default() -> Self {
        Tenant { weight: 100, parent: None }
    }
}

/// Why a tenant or task was not added, changed or retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantError {
    /// No tenant has this id.
    NoTenant(TenantId),
    /// No task has this id.
    NoTask(TaskId),
    /// The tenant is being retired: it takes no new tasks or tenants.
    Retiring(TenantId),
    /// The weight is not one of 1 to [`Tenant::MAX_WEIGHT`].
    Weight(u32),
    /// The tenant would be nested in itself.
    Cycle(TenantId),
}

impl fmt::Display for TenantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TenantError::NoTenant(id) => write!(f, "there is no tenant {}", id.0),
            TenantError::NoTask(id) => write!(f, "there is no task {}", id.0),
            TenantError::Retiring(id) => write!(f, "tenant {} is being retired", id.0),
            TenantError::Weight(weight) => {
                write!(f, "weight {weight} is out of range: expected 1 to {}", Tenant::MAX_WEIGHT)
            }
            TenantError::Cycle(id) => write!(f, "tenant {} would be nested in itself", id.0),
        }
    }
}

impl std::error::Error for TenantError {}

/// Entries by small numbers; a number freed is the next to be given out.
#[derive(Clone, Debug)]
struct Slots<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    fn add(&mut self, entry: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.entries[number as usize] = Some(entry);
                number
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() as u32 - 1
            }
        }
    }

    fn get(&self, number: u32) -> Option<&T> {
        self.entries.get(number as usize)?.as_ref()
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.entries.get_mut(number as usize)?.as_mut()
    }

    fn remove(&mut self, number: u32) -> Option<T> {
        let entry = self.entries.get_mut(number as usize)?.take();
        if entry.is_some() {
            self.free.push(number);
        }
        entry
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.entries.iter().enumerate().filter_map(|(number, entry)| Some((number as u32, entry.as_ref()?)))
    }
}

/// All tenants and tasks. A scheduler reads them; at run time the block layer changes them and sends an
/// [`Event`](crate::Event) for each change.
#[derive(Clone, Debug, Default)]
pub struct Tenants {
    tenants: Slots<Tenant>,
    tasks: Slots<Task>,
    root: Option<TenantId>,
}

impl Tenants {
    /// Adds a tenant.
    pub fn add_tenant(&mut self, tenant: Tenant) -> TenantId {
        TenantId(self.tenants.add(tenant))
    }

    /// Adds a tenant for the tasks of the root group, which are in no tenant: they are siblings of the outermost tenants.
    /// `weight` is what they count for together, where a scheduler or a figure takes them together. There is one such
    /// tenant at most: a second call changes its weight.
    pub fn add_root(&mut self, weight: u32) -> TenantId {
        if let Some(root) = self.root {
            if let Some(own) = self.tenant_mut(root) {
                own.weight = weight;
            }
            return root;
        }
        let root = self.add_tenant(Tenant { weight, parent: None });
        self.root = Some(root);
        root
    }

    /// Does this tenant hold the tasks of the root group?
    pub fn is_root(&self, id: TenantId) -> bool {
        self.root == Some(id)
    }

    /// Adds a task of `tenant`.
    pub fn add_task(&mut self, tenant: TenantId, ioprio: Ioprio) -> TaskId {
        TaskId(self.tasks.add(Task { tenant, ioprio }))
    }

    /// A tenant; `None` if no tenant has this id now.
    pub fn tenant(&self, id: TenantId) -> Option<&Tenant> {
        self.tenants.get(id.0)
    }

    /// A task; `None` if no task has this id now.
    pub fn task(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(id.0)
    }

    /// The tenant to change, if it exists.
    pub fn tenant_mut(&mut self, id: TenantId) -> Option<&mut Tenant> {
        self.tenants.get_mut(id.0)
    }

    /// The task to change, if it exists.
    pub fn task_mut(&mut self, id: TaskId) -> Option<&mut Task> {
        self.tasks.get_mut(id.0)
    }

    /// Removes a tenant; its id may be given out again.
    pub fn remove_tenant(&mut self, id: TenantId) -> Option<Tenant> {
        self.root = self.root.filter(|root| *root != id);
        self.tenants.remove(id.0)
    }

    /// Removes a task; its id may be given out again.
    pub fn remove_task(&mut self, id: TaskId) -> Option<Task> {
        self.tasks.remove(id.0)
    }

    /// Tenants by ascending id.
    pub fn tenants(&self) -> impl Iterator<Item = (TenantId, &Tenant)> {
        self.tenants.iter().map(|(id, tenant)| (TenantId(id), tenant))
    }

    /// Tasks by ascending id.
    pub fn tasks(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        self.tasks.iter().map(|(id, task)| (TaskId(id), task))
    }

    /// Tenant ids given out so far lie below this number: the size of a table by tenant.
    pub fn tenant_slots(&self) -> usize {
        self.tenants.entries.len()
    }

    /// Task ids given out so far lie below this number: the size of a table by task.
    pub fn task_slots(&self) -> usize {
        self.tasks.entries.len()
    }
}

impl FromIterator<Tenant> for Tenants {
    fn from_iter<I: IntoIterator<Item = Tenant>>(tenants: I) -> Tenants {
        let entries = tenants.into_iter().map(Some).collect();
        Tenants { tenants: Slots { entries, free: Vec::new() }, tasks: Slots::default(), root: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_given_out_again_once_it_is_free() {
        let mut tenants: Tenants = [Tenant::default(), Tenant { weight: 300, parent: None }].into_iter().collect();
        let task = tenants.add_task(TenantId(1), Ioprio::DEFAULT);
        assert_eq!(tenants.task(task).map(|t| t.tenant), Some(TenantId(1)));
        assert_eq!(tenants.remove_tenant(TenantId(0)).map(|t| t.weight), Some(100));
        assert_eq!((tenants.remove_tenant(TenantId(0)), tenants.tenant(TenantId(0))), (None, None));
        assert_eq!(tenants.tenants().map(|(id, t)| (id.0, t.weight)).collect::<Vec<_>>(), [(1, 300)]);
        assert_eq!(tenants.add_tenant(Tenant { weight: 5, parent: None }), TenantId(0));
        assert_eq!((tenants.tenant_slots(), tenants.task_slots()), (2, 1));
        assert_eq!(tenants.tenant(TenantId(9)), None);
    }

    #[test]
    fn there_is_one_root_until_it_is_removed() {
        let mut tenants: Tenants = [Tenant::default()].into_iter().collect();
        let root = tenants.add_root(40);
        assert_eq!((tenants.add_root(80), tenants.tenant(root).map(|t| t.weight)), (root, Some(80)));
        assert!(tenants.is_root(root) && !tenants.is_root(TenantId(0)));
        tenants.remove_tenant(root);
        let next = tenants.add_tenant(Tenant::default());
        assert!(next == root && !tenants.is_root(next), "the number is given out again, the place is not");
    }
}
