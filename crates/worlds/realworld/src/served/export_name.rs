//! Names of the exports that stand for tenants.

/// An export's name: names of tenants may hold what a URI cannot.
pub(super) fn export_name(tenant: usize) -> String {
    format!("tenant{tenant}")
}
