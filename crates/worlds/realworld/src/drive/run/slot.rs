//! Slot of an I/O that a thread of a run waits for.

use dumbwaiter_block::{Nanos, Op, TaskId, TenantId};

/// An I/O that its thread waits for.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) submit: Nanos,
    pub(super) thread: u32,
    /// Number of the task in its thread.
    pub(super) number: u16,
    pub(super) op: Op,
    pub(super) task: TaskId,
    pub(super) tenant: TenantId,
}
