//! What a disk keeps of a request while the device has it.

use dumbwaiter_block::{Nanos, Op};

use crate::observer::Transfer;

/// The request has no scratch buffer.
pub(super) const NO_SCRATCH: u32 = u32::MAX;

/// A request in the device.
#[derive(Clone, Copy)]
pub(super) struct InDevice {
    /// Its scratch buffer, or [`NO_SCRATCH`].
    pub(super) scratch: u32,
    pub(super) op: Op,
    /// Its memory is the caller's, at least in part.
    pub(super) gathered: bool,
    pub(super) sector: u64,
    pub(super) bytes: u64,
    pub(super) issue: Nanos,
    /// Tells two uses of an id apart; 0 while the device does not have it.
    pub(super) number: u64,
    /// The observer's answer at its issue.
    pub(super) mark: u64,
}

impl InDevice {
    pub(super) const NONE: InDevice = InDevice {
        scratch: NO_SCRATCH,
        op: Op::Read,
        gathered: false,
        sector: 0,
        bytes: 0,
        issue: Nanos::ZERO,
        number: 0,
        mark: 0,
    };

    pub(super) fn scratch(&self) -> Option<u32> {
        (self.scratch != NO_SCRATCH).then_some(self.scratch)
    }

    pub(super) fn transfer(&self) -> Transfer {
        Transfer { op: self.op, sector: self.sector, bytes: self.bytes }
    }
}
