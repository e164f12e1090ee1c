//! The request and the slab that holds all of them.

use crate::{Errno, Flags, Ioprio, Nanos, Op, TaskId, TenantId};

/// Size of the unit in which positions and lengths are counted.
pub const SECTOR_BYTES: u64 = 512;

/// One I/O as it is submitted (Linux: bio).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    /// The operation.
    pub op: Op,
    /// Marks.
    pub flags: Flags,
    /// Priority.
    pub ioprio: Ioprio,
    /// First sector, in units of 512 bytes.
    pub sector: u64,
    /// Length in sectors of 512 bytes; 0 for a flush.
    pub sectors: u32,
    /// The task that submits it.
    pub task: TaskId,
    /// The tenant that is charged.
    pub tenant: TenantId,
    /// The CPU it is submitted on.
    pub cpu: u16,
    /// Stream hint; requests of different streams never merge. From 0xff00 on it is an I/O tag of the `learn` crate.
    pub stream: u16,
    /// The submitter's own number, handed back at completion.
    pub token: u64,
}

/// Handle of a request in [`Requests`]. Numbers are small and reused, so they index side tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

impl RequestId {
    /// Stands for "no request" in links.
    pub const NIL: RequestId = RequestId(u32::MAX);

    /// The number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// `None` for [`RequestId::NIL`].
    pub fn some(self) -> Option<RequestId> {
        (self != RequestId::NIL).then_some(self)
    }
}

impl From<u32> for RequestId {
    fn from(number: u32) -> RequestId {
        RequestId(number)
    }
}

impl From<RequestId> for u32 {
    fn from(id: RequestId) -> u32 {
        id.0
    }
}

/// A request on its way. `sector` and `sectors` grow as others merge into it; `io` stays what was submitted.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The I/O it was made for.
    pub io: Io,
    /// First sector now.
    pub sector: u64,
    /// Length in sectors now.
    pub sectors: u32,
    /// Data segments now (scatter-gather entries).
    pub segments: u16,
    /// Where it is on the path.
    pub state: State,
    /// No more merging into it: a limit was hit, or its flags forbid it.
    pub sealed: bool,
    /// When the submitter asked.
    pub submit: Nanos,
    /// When it became a request, after any wait for a tag (Linux: start time).
    pub start: Nanos,
    /// When the scheduler received it.
    pub insert: Nanos,
    /// When the scheduler chose it.
    pub dispatch: Nanos,
    /// When the device took it.
    pub issue: Nanos,
    /// The next of the requests merged into the same survivor, in no particular order.
    pub(crate) merged: RequestId,
    /// The split request it is a piece of.
    pub(crate) parent: RequestId,
    /// Pieces of it that have not completed.
    pub(crate) pieces: u32,
    /// The first error of its pieces.
    pub(crate) error: Option<Errno>,
    /// The remaining steps of its flush sequence.
    pub(crate) sequence: crate::sequence::Sequence,
}

/// Where a request is on the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Its slot is free.
    #[default]
    Free,
    /// A controller keeps it; its task goes on.
    Parked,
    /// Its task sleeps: for a controller, or for a tag.
    Waiting,
    /// In its task's plug.
    Plugged,
    /// In the scheduler.
    Queued,
    /// Chosen by the scheduler, not taken by the device.
    Dispatched,
    /// In the device.
    Issued,
    /// Part of another request.
    Merged,
    /// Split into pieces, or waiting for a flush.
    Held,
}

impl Request {
    /// A request for `io`, submitted at `now`.
    pub fn new(io: Io, now: Nanos) -> Request {
        Request {
            io,
            sector: io.sector,
            sectors: io.sectors,
            segments: segments_of(io.sectors),
            state: State::Waiting,
            sealed: false,
            submit: now,
            start: now,
            insert: now,
            dispatch: now,
            issue: now,
            merged: RequestId::NIL,
            parent: RequestId::NIL,
            pieces: 0,
            error: None,
            sequence: crate::sequence::Sequence::NONE,
        }
    }

    /// The sector behind the last one.
    pub fn end(&self) -> u64 {
        self.sector.saturating_add(u64::from(self.sectors))
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.sectors) * SECTOR_BYTES
    }

    /// Is it synchronous? Reads always; other operations when marked so.
    pub fn sync(&self) -> bool {
        self.io.op == Op::Read || self.io.flags.any(Flags::SYNC.with(Flags::FUA).with(Flags::PREFLUSH))
    }
}

/// Scatter-gather entries of contiguous data in 4 KiB pages.
fn segments_of(sectors: u32) -> u16 {
    sectors.div_ceil(8).min(u32::from(u16::MAX)) as u16
}

/// Every request of a block layer, by [`RequestId`]. Slots are reused, most recently freed first.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    slots: Vec<Request>,
    free: Vec<RequestId>,
}

impl Requests {
    /// Takes a slot for `request`.
    pub fn insert(&mut self, request: Request) -> RequestId {
        match self.free.pop() {
            Some(id) => {
                self.slots[id.index()] = request;
                id
            }
            None => {
                self.slots.push(request);
                RequestId(self.slots.len() as u32 - 1)
            }
        }
    }

    /// Gives the slot back. The id must be live.
    #[inline]
    pub fn remove(&mut self, id: RequestId) -> Request {
        let slot = &mut self.slots[id.index()];
        // Read whole before a part of it is written: the CPU waits for all earlier stores where a load spans a younger, smaller store.
        let request = *slot;
        assert!(request.state != State::Free, "request {} freed twice", id.0);
        slot.state = State::Free;
        self.free.push(id);
        request
    }

    /// A live request; `None` if no request has this id now.
    pub fn get(&self, id: RequestId) -> Option<&Request> {
        self.slots.get(id.index()).filter(|request| request.state != State::Free)
    }

    /// Live requests by ascending id.
    pub fn iter(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        let ids = (0..).map(RequestId);
        ids.zip(&self.slots).filter(|(_, request)| request.state != State::Free)
    }

    /// Live requests.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Is no request live?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots ever used at once: the size a side table needs.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }
}

impl std::ops::Index<RequestId> for Requests {
    type Output = Request;
    fn index(&self, id: RequestId) -> &Request {
        &self.slots[id.index()]
    }
}

impl std::ops::IndexMut<RequestId> for Requests {
    fn index_mut(&mut self, id: RequestId) -> &mut Request {
        &mut self.slots[id.index()]
    }
}
