//! Names of tenants and tasks in results.

use dumbwaiter_block::TenantId;

/// Name, weight and place of a tenant in the tree of tenants.
#[derive(Clone, Debug)]
pub struct TenantSpec {
    /// Its name.
    pub name: String,
    /// Its weight, relative to its siblings.
    pub weight: u32,
    /// The tenant that contains it.
    pub parent: Option<TenantId>,
    /// Whether it is the focus of latency metrics, such as an interactive user; recommendations look at its latency.
    pub focus: bool,
}

/// Name and tenant of a task.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// Its name.
    pub name: String,
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// The name, without the number of the instance, of a task whose latency decides; recommendations look at it. `None` for others.
    pub focus: Option<String>,
    /// It writes dirty pages back, for which nobody waits.
    pub write_back: bool,
}
