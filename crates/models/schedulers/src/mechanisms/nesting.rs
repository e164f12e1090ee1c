//! Nested tenants.

use dumbwaiter_block::{Tenant, TenantId, Tenants};

/// The tenant that this one is nested in. A cycle of tenants is cut: they are nested in none.
pub fn parent_of(tenant: &Tenant, tenants: &Tenants) -> Option<TenantId> {
    let mut above = tenant.parent;
    // No chain is longer than there are tenants, unless it is a cycle.
    for _ in 0..tenants.tenant_slots() {
        let Some(at) = above else { return tenant.parent };
        above = tenants.tenant(at).and_then(|t| t.parent);
    }
    tenant.parent.filter(|_| above.is_none())
}
