//! A disk's records of the requests that the device has.

use dumbwaiter_block::{Nanos, Op, RequestId};

use crate::Error;
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
    const NONE: InDevice = InDevice {
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

/// All requests in the device, by their id.
#[derive(Default)]
pub(super) struct Held {
    all: Vec<InDevice>,
    /// Memory of those whose data is the caller's.
    pub(super) iovecs: Vec<Vec<libc::iovec>>,
    /// Results that were not handled.
    pub(super) done: Vec<(u32, i32)>,
    issues: u64,
}

impl Held {
    /// With room for this many results.
    pub(super) fn new(room: usize) -> Held {
        Held { done: Vec::with_capacity(room), ..Held::default() }
    }

    /// A request is about to go to the device.
    pub(super) fn number(
        &mut self,
        id: RequestId,
        op: Op,
        sector: u64,
        bytes: u64,
        now: Nanos,
    ) -> Result<InDevice, Error> {
        self.issues += 1;
        if id.index() >= self.all.len() {
            self.all.resize(id.index() + 1, InDevice::NONE);
        }
        if self.all[id.index()].number != 0 {
            return Err(Error::Mixed { id: id.0 });
        }
        Ok(InDevice { op, sector, bytes, issue: now, number: self.issues, ..InDevice::NONE })
    }

    /// It goes.
    pub(super) fn put(&mut self, id: RequestId, held: InDevice) {
        self.all[id.index()] = held;
    }

    /// It is done, without a call of the kernel or after it.
    pub(super) fn finish(&mut self, id: RequestId, held: InDevice, result: i32) {
        self.put(id, held);
        self.done.push((id.0, result));
    }

    pub(super) fn get(&self, id: RequestId) -> &InDevice {
        &self.all[id.index()]
    }

    /// It came back.
    pub(super) fn take(&mut self, id: RequestId) -> InDevice {
        let held = self.all[id.index()];
        self.all[id.index()].number = 0;
        held
    }

    /// The list of pieces of a request, empty.
    pub(super) fn pieces(&mut self, id: RequestId) -> &mut Vec<libc::iovec> {
        if id.index() >= self.iovecs.len() {
            self.iovecs.resize_with(id.index() + 1, Vec::new);
        }
        let pieces = &mut self.iovecs[id.index()];
        pieces.clear();
        pieces
    }

    /// Never frees the lists of pieces.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.iovecs));
    }
}
