//! What the flash works on, and what it tells the controller.

use dumbwaiter_block::Nanos;

/// No task.
pub(crate) const NONE: u32 = u32::MAX;

/// What the flash tells the controller.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// A page of a read has been sent.
    Sent { task: u32, media: Nanos, channel: Nanos, gc_stall: Nanos },
    /// Data of a write that waits for its program is in the cells.
    Programmed { task: u32, media: Nanos, channel: Nanos },
    /// All of a write is in the buffer.
    Buffered { task: u32 },
    /// All programs before the one of this number have ended.
    Durable { before: u64 },
}

/// A program of one unit of all planes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// Its number.
    pub(crate) seq: u64,
    pub(crate) die: u32,
    /// First physical unit and number of units whose data is still in the buffer.
    pub(crate) physical: u32,
    pub(crate) units: u32,
    /// Buffer space that its end frees, bytes.
    pub(crate) bytes: u64,
    /// The write that waits for it.
    pub(crate) task: u32,
    /// Place in the order of arrivals at dies.
    pub(crate) order: u64,
}
