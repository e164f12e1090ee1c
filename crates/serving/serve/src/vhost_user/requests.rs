//! Requests of rings under way: the memory that they use stays here until the disk is done with them.
#![allow(unsafe_code)]

use dumbwaiter_path::{Buffer, Data, Iovecs};
use dumbwaiter_protocols::vhost_user::{BlockRequest, Memory, Operation, Piece, Status};

/// A request under way.
pub(super) struct Pending {
    pub(super) ring: u16,
    pub(super) head: u16,
    pub(super) request: BlockRequest,
    /// Its data in guest memory.
    pieces: Vec<Piece>,
    /// The same for the kernel.
    iovecs: Vec<libc::iovec>,
    used: bool,
}

/// All requests of a device under way.
#[derive(Default)]
pub(super) struct Requests {
    all: Vec<Pending>,
    free: Vec<u32>,
}

impl Requests {
    /// Keeps a request; answers with its number.
    pub(super) fn put(&mut self, ring: u16, head: u16, request: BlockRequest, pieces: &[Piece]) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(Pending { ring, head, request, pieces: Vec::new(), iovecs: Vec::new(), used: false });
            self.all.len() as u32 - 1
        });
        let pending = &mut self.all[number as usize];
        (pending.ring, pending.head, pending.request, pending.used) = (ring, head, request, true);
        pending.pieces.clear();
        pending.pieces.extend_from_slice(pieces);
        number
    }

    /// A request is done.
    pub(super) fn take(&mut self, number: u32) -> Option<&Pending> {
        let pending = self.all.get_mut(number as usize).filter(|pending| pending.used)?;
        pending.used = false;
        self.free.push(number);
        Some(pending)
    }

    pub(super) fn get(&self, number: u32) -> &Pending {
        &self.all[number as usize]
    }

    /// Does all memory of a request lie on multiples of `align`, as direct I/O needs it?
    pub(super) fn is_aligned(&self, number: u32, memory: &Memory, align: usize) -> bool {
        self.all[number as usize].pieces.iter().all(|piece| {
            let at = memory.pointer(*piece).map_or(1, |pointer| pointer as usize);
            (at | piece.len as usize).is_multiple_of(align)
        })
    }

    /// The memory of a request as the data of an I/O; `None` if it lies outside of the guest's.
    ///
    /// The session keeps both the list and the mapping until the I/O is done: it takes no message that changes memory before, and closes only
    /// when nothing is under way.
    pub(super) fn guest_data(&mut self, number: u32, memory: &Memory) -> Option<Data> {
        let pending = &mut self.all[number as usize];
        pending.iovecs.clear();
        for piece in &pending.pieces {
            let pointer = memory.pointer(*piece)?;
            pending.iovecs.push(libc::iovec { iov_base: pointer.cast(), iov_len: piece.len as usize });
        }
        // SAFETY: the list is not touched before `take`, and mappings outlive what is under way (see above). The guest may change
        // its own memory meanwhile, as no reference to it exists: only the kernel and volatile copies use it.
        Some(Data::Iovec(unsafe { Iovecs::new(&pending.iovecs) }))
    }

    /// Copies the data of a write into a buffer.
    pub(super) fn gather(&self, number: u32, memory: &Memory, buffer: &mut Buffer) -> bool {
        let mut at = 0;
        self.all[number as usize].pieces.iter().all(|piece| {
            let end = at + piece.len as usize;
            let copied = memory.read(piece.place, &mut buffer[at..end]);
            at = end;
            copied
        })
    }
}

impl Pending {
    /// Copies what was read into guest memory, as far as there is room; bytes that were.
    pub(super) fn scatter(&self, memory: &Memory, bytes: &[u8]) -> u32 {
        let mut at = 0;
        for piece in &self.pieces {
            let end = (at + piece.len as usize).min(bytes.len());
            memory.write(piece.place, &bytes[at..end]);
            at = end;
        }
        at as u32
    }

    /// Bytes that a request has written to the guest when it ends well, its status apart.
    pub(super) fn bytes_read(&self) -> u32 {
        if self.request.operation == Operation::Read { self.request.length } else { 0 }
    }
}

/// Writes the result of a request where the driver looks for it.
pub(super) fn answer(memory: &Memory, request: &BlockRequest, status: Status) {
    memory.write(request.status, &[status as u8]);
}
