//! To the device: a request of the block layer becomes an entry of the ring.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;

use dumbwaiter_block::{Flags, Op, Request, RequestId, SECTOR_BYTES};
use io_uring::{opcode, squeue, types};

use super::Disk;
use super::in_device::{InDevice, NO_SCRATCH};
use super::page_cache::{PageCacheMode, Transfer};
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
        self.issues += 1;
        if id.index() >= self.held.len() {
            self.held.resize(id.index() + 1, InDevice::NONE);
        }
        if self.held[id.index()].number != 0 {
            return Err(Error::Mixed { id: id.0 });
        }
        let mut held = InDevice {
            op,
            sector: request.sector,
            bytes: request.bytes,
            issue: self.now,
            number: self.issues,
            ..InDevice::NONE
        };
        let entry = match op {
            Op::Read | Op::Write if self.slots.any_foreign() => self.gather(id, &request, &mut held),
            Op::Read | Op::Write => self.take_scratch(held.bytes).map(|slot| {
                held.scratch = slot;
                self.scratch_entry(&request, slot)
            }),
            Op::Flush => Some(opcode::Fsync::new(FILE).flags(types::FsyncFlags::DATASYNC).build()),
            Op::Discard | Op::SecureErase | Op::WriteZeroes => Some(deallocation(op, held.sector, held.bytes)),
        };
        if held.gathered && self.iovecs[id.index()].is_empty() {
            // All of it is left in the file.
            self.held[id.index()] = held;
            self.done.push((id.0, held.bytes as i32));
            return Ok(());
        }
        if held.gathered && self.page_cache != PageCacheMode::Ring && self.bypass_ring(id, &request, held) {
            return Ok(());
        }
        let Some(entry) = entry else {
            // The layer counts driver tags, and there is a buffer for each.
            self.layer.refused(self.now, id);
            return Ok(());
        };
        if self.device.is_some() {
            if !self.issue_virtual(id, held) {
                self.layer.refused(self.now, id);
            }
            return Ok(());
        }
        held.mark = self.observe_issue(&held);
        if op.carries_data()
            && let Some(sleeper) = &self.sleeper
        {
            let sleep = sleeper.after_issue(op, (request.bytes / SECTOR_BYTES) as u32);
            self.to_sleep.add(self.now, sleep, id, held.number);
        }
        let entry = entry.user_data(UserData::Request(id).encode());
        // Before the push: a panic after it must find what the request uses.
        self.held[id.index()] = held;
        // SAFETY: scratch buffers and buffers of slots live as long as the disk, which drains its rings before it lets go of
        // any, and are not touched until the completion was reaped (`number`, `Slot::in_device`). For memory of the caller
        // `Iovecs::new` has the same promise. The list of pieces is this request's until then, too.
        let pushed = unsafe { self.rings.push_request(&entry, !op.carries_data()) };
        pushed.map_err(|source| Error::Ring { what: "the ring takes no requests", source })
    }

    /// Does a transfer in place, or gives it to the writer thread; `false` if it is for the ring.
    fn bypass_ring(&mut self, id: RequestId, request: &Outgoing, held: InDevice) -> bool {
        let read = request.op == Op::Read;
        let pieces = &self.iovecs[id.index()];
        let transfer = Transfer {
            id: id.0,
            read,
            first: pieces.as_ptr(),
            count: pieces.len(),
            at: request.sector * SECTOR_BYTES,
            flags: request.durability,
        };
        match (self.page_cache, &mut self.writer) {
            (PageCacheMode::InPlace, _) => {
                self.held[id.index()] = held;
                // SAFETY: the memory belongs to this request until it completes (`Data`), which it does with the next reap.
                let moved = unsafe { transfer.run(self.target.file().as_raw_fd()) };
                self.done.push((id.0, moved));
                true
            }
            (PageCacheMode::WriterThread, Some(writer)) if !read => {
                self.held[id.index()] = held;
                if request.durability == 0 && !writer.busy() && self.in_place_writes.allowed(self.now) {
                    // SAFETY: as above.
                    let moved = unsafe { transfer.run(self.target.file().as_raw_fd()) };
                    self.in_place_writes.done(self.now);
                    self.done.push((id.0, moved));
                    return true;
                }
                writer.push(transfer);
                true
            }
            _ => false,
        }
    }

    fn take_scratch(&mut self, bytes: u64) -> Option<u32> {
        self.arena.as_mut()?.take(bytes as usize)
    }

    /// A transfer of one scratch buffer.
    fn scratch_entry(&self, request: &Outgoing, slot: u32) -> squeue::Entry {
        let Some(arena) = &self.arena else { return opcode::Nop::new().build() };
        let (address, bytes) = (arena.address(slot), request.bytes as u32);
        let (at, durable) = (request.sector * SECTOR_BYTES, request.durability);
        match (request.op, self.registered && arena.is_registered(slot)) {
            (Op::Read, true) => opcode::ReadFixed::new(FILE, address, bytes, BUFFERS).offset(at).build(),
            (Op::Read, false) => opcode::Read::new(FILE, address, bytes).offset(at).build(),
            (_, true) => opcode::WriteFixed::new(FILE, address, bytes, BUFFERS).offset(at).rw_flags(durable).build(),
            (_, false) => opcode::Write::new(FILE, address, bytes).offset(at).rw_flags(durable).build(),
        }
    }

    /// A transfer of the memory of all I/Os that the request consists of, in sector order. `None` without a scratch buffer
    /// for those that need one. One that was merged with others is read even if its data are left in the file.
    fn gather(&mut self, id: RequestId, request: &Outgoing, held: &mut InDevice) -> Option<squeue::Entry> {
        let data = |token: u64| self.slots.data(token as u32);
        let left_in_file = self.layer.parts(id).all(|part| matches!(data(part.io.token), Data::InFile));
        let needs_scratch = !left_in_file && self.layer.parts(id).any(|part| !data(part.io.token).is_memory());
        let slot = if needs_scratch { Some(self.take_scratch(held.bytes)?) } else { None };
        held.scratch = slot.unwrap_or(NO_SCRATCH);
        held.gathered = true;
        if id.index() >= self.iovecs.len() {
            self.iovecs.resize_with(id.index() + 1, Vec::new);
        }
        let pieces = &mut self.iovecs[id.index()];
        pieces.clear();
        let scratch = slot.and_then(|slot| Some(self.arena.as_ref()?.address(slot)));
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
        let data = match (&mut self.arena, held.scratch(), held.gathered) {
            (Some(arena), Some(slot), false) => arena.bytes(slot, held.bytes as usize),
            _ => &mut [],
        };
        observer.issued(&held.transfer(), data)
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
