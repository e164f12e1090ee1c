//! What a run keeps of an I/O that its thread waits for.

use dumbwaiter_block::Nanos;

/// An I/O that its thread waits for.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    pub(super) submit: Nanos,
    pub(super) thread: u32,
    pub(super) task: u16,
}
