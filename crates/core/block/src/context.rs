//! A scheduler's read access to the rest of the block layer.

use crate::{Nanos, Requests, Tenants};

/// The state that a scheduler may read while it decides.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The time of the call.
    pub now: Nanos,
    /// Every request, by id.
    pub requests: &'a Requests,
    /// Every task and tenant.
    pub tenants: &'a Tenants,
    /// The device has recently refused requests of the hardware queue asked for, or what it refused was sent just now
    /// (Linux: dispatch_busy > 0, or a dispatch list that was not empty).
    pub busy: bool,
}
