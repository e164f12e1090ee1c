//! To the device: a request of the block layer becomes an entry of the ring.
#![allow(unsafe_code)]

use dumbwaiter_block::{Flags, Op, Request, RequestId, SECTOR_BYTES};
use io_uring::{opcode, squeue, types};

use super::Disk;
use super::in_device::{InDevice, NO_SCRATCH};
use super::page_cache::{Taken, Transfer};
use super::scratch::Scratch;
use crate::Error;
use crate::buffer::Data;
use crate::user_data::UserData;

/// The scratch buffers' number with the kernel.
const BUFFERS: u16 = 0;
/// The file's number with the kernel.
const FILE: types::Fixed = types::Fixed(0);

/// The fields of a request that its ring entry needs.
struct Outgoing {
    op: Op,
    sector: u64,
    bytes: u64,
    /// Flags of a write that must be durable when it completes.
    durability: i32,
}

impl Outgoing {
    fn of(request: &Request) -> Outgoing {
        let durability = if request.io.flags.any(Flags::FUA) { libc::RWF_DSYNC } else { 0 };
        Outgoing { op: request.io.op, sector: request.sector, bytes: request.bytes(), durability }
    }
}

impl Disk {
    /// Queues a request that the scheduler chose.
    pub(super) fn issue(&mut self, id: RequestId) -> Result<(), Error> {
        let request = Outgoing::of(self.layer.request(id));
        let op = request.op;
        let mut held = self.held.number(id, op, request.sector, request.bytes, self.now)?;
        let entry = match op {
            Op::Read | Op::Write if self.slots.any_foreign() => self.gather(id, &request, &mut held),
            Op::Read | Op::Write => self.scratch.take(held.bytes).map(|slot| {
                held.scratch = slot;
                scratch_entry(&self.scratch, &request, slot)
            }),
            Op::Flush => Some(opcode::Fsync::new(FILE).flags(types::FsyncFlags::DATASYNC).build()),
            Op::Discard | Op::SecureErase | Op::WriteZeroes => Some(deallocation(op, held.sector, held.bytes)),
        };
        if held.gathered && self.held.iovecs[id.index()].is_empty() {
            // All of it is left in the file.
            self.held.finish(id, held, held.bytes as i32);
            return Ok(());
        }
        if held.gathered && self.page_cache.in_use() && self.bypass_ring(id, &request, held) {
            return Ok(());
        }
        let Some(entry) = entry else {
            // The layer counts driver tags, and there is a buffer for each.
            self.layer.refused(self.now, id);
            return Ok(());
        };
        if let Some(device) = &mut self.device {
            if device.submit(self.now, id.0, &held, self.layer.request(id)) {
                self.held.put(id, held);
            } else {
                self.return_data(id, &held);
                self.layer.refused(self.now, id);
            }
            return Ok(());
        }
        held.mark = self.observe_issue(&held);
        if op.carries_data() {
            self.waiter.issued(self.now, id, &held);
        }
        let entry = entry.user_data(UserData::Request(id).encode());
        // Before the push: a panic after it must find what the request uses.
        self.held.put(id, held);
        // SAFETY: scratch buffers and buffers of slots live as long as the disk, which drains its rings before it lets go of
        // any, and are not touched until the completion was reaped (`number`, `Slot::in_device`). For memory of the caller
        // `Iovecs::new` has the same promise. The list of pieces is this request's until then, too.
        let pushed = unsafe { self.rings.push_request(&entry, !op.carries_data()) };
        pushed.map_err(|source| Error::Ring { what: "the ring takes no requests", source })
    }

    /// Does a transfer in place, or gives it to the writer thread; `false` if it is for the ring.
    fn bypass_ring(&mut self, id: RequestId, request: &Outgoing, held: InDevice) -> bool {
        let pieces = &self.held.iovecs[id.index()];
        let transfer = Transfer {
            id: id.0,
            read: request.op == Op::Read,
            first: pieces.as_ptr(),
            count: pieces.len(),
            at: request.sector * SECTOR_BYTES,
            flags: request.durability,
        };
        // SAFETY: the memory belongs to this request until it completes (`Data`), which it does with the next reap or when the writer
        // thread has reported it.
        match unsafe { self.page_cache.take(transfer, &self.target, self.now) } {
            Taken::No => return false,
            Taken::ToWriter => self.held.put(id, held),
            Taken::Done(moved) => self.held.finish(id, held, moved),
        }
        true
    }

    /// The device does not have the data of this request's I/Os any more.
    pub(super) fn return_data(&mut self, id: RequestId, held: &InDevice) {
        if held.gathered {
            for part in self.layer.parts(id) {
                self.slots.returns(part.io.token as u32);
            }
        }
    }

    /// A transfer of the memory of all I/Os that the request consists of, in sector order. `None` without a scratch buffer
    /// for those that need one. One that was merged with others is read even if its data are left in the file.
    fn gather(&mut self, id: RequestId, request: &Outgoing, held: &mut InDevice) -> Option<squeue::Entry> {
        let data = |token: u64| self.slots.data(token as u32);
        let left_in_file = self.layer.parts(id).all(|part| matches!(data(part.io.token), Data::InFile));
        let needs_scratch = !left_in_file && self.layer.parts(id).any(|part| !data(part.io.token).is_memory());
        let slot = if needs_scratch { Some(self.scratch.take(held.bytes)?) } else { None };
        held.scratch = slot.unwrap_or(NO_SCRATCH);
        held.gathered = true;
        let pieces = self.held.pieces(id);
        let scratch = slot.and_then(|slot| Some(self.scratch.place(slot)?.0));
        for part in self.layer.parts(id) {
            let bytes = u64::from(part.sectors) * SECTOR_BYTES;
            self.slots.goes(part.io.token as u32);
            match (self.slots.data(part.io.token as u32), scratch) {
                (data, Some(scratch)) if !data.is_memory() => {
                    let place = scratch.wrapping_add(((part.sector - request.sector) * SECTOR_BYTES) as usize);
                    pieces.push(libc::iovec { iov_base: place.cast(), iov_len: bytes as usize });
                }
                (data, _) => data.append_to(u64::from(part.offset) * SECTOR_BYTES, bytes, pieces),
            }
        }
        Some(vectored(request, pieces))
    }

    /// Shows the observer what goes to the device.
    fn observe_issue(&mut self, held: &InDevice) -> u64 {
        let Some(observer) = &mut self.observer else { return 0 };
        let slot = held.scratch().filter(|_| !held.gathered);
        observer.issued(&held.transfer(), self.scratch.bytes(slot, held.bytes))
    }
}

/// A transfer of one scratch buffer.
fn scratch_entry(scratch: &Scratch, request: &Outgoing, slot: u32) -> squeue::Entry {
    let Some((address, registered)) = scratch.place(slot) else { return opcode::Nop::new().build() };
    let bytes = request.bytes as u32;
    let (at, durable) = (request.sector * SECTOR_BYTES, request.durability);
    match (request.op, registered) {
        (Op::Read, true) => opcode::ReadFixed::new(FILE, address, bytes, BUFFERS).offset(at).build(),
        (Op::Read, false) => opcode::Read::new(FILE, address, bytes).offset(at).build(),
        (_, true) => opcode::WriteFixed::new(FILE, address, bytes, BUFFERS).offset(at).rw_flags(durable).build(),
        (_, false) => opcode::Write::new(FILE, address, bytes).offset(at).rw_flags(durable).build(),
    }
}

fn deallocation(op: Op, sector: u64, bytes: u64) -> squeue::Entry {
    let how = if op == Op::WriteZeroes { libc::FALLOC_FL_ZERO_RANGE } else { libc::FALLOC_FL_PUNCH_HOLE };
    opcode::Fallocate::new(FILE, bytes).offset(sector * SECTOR_BYTES).mode(how | libc::FALLOC_FL_KEEP_SIZE).build()
}

/// One call for all pieces. They must stay where they are until it completed.
fn vectored(request: &Outgoing, pieces: &[libc::iovec]) -> squeue::Entry {
    let (at, durable) = (request.sector * SECTOR_BYTES, request.durability);
    let read = request.op == Op::Read;
    if let [only] = pieces {
        let (address, bytes) = (only.iov_base.cast::<u8>(), only.iov_len as u32);
        return match read {
            true => opcode::Read::new(FILE, address, bytes).offset(at).build(),
            false => opcode::Write::new(FILE, address, bytes).offset(at).rw_flags(durable).build(),
        };
    }
    let (first, count) = (pieces.as_ptr(), pieces.len() as u32);
    match read {
        true => opcode::Readv::new(FILE, first.cast(), count).offset(at).build(),
        false => opcode::Writev::new(FILE, first.cast(), count).offset(at).rw_flags(durable).build(),
    }
}
