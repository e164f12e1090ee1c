//! Between the block layer and the ring: requests out, completions back.
#![allow(unsafe_code)]

use std::io;

use dumbwaiter_block::{Errno, Flags, Nanos, Op, RequestId, SECTOR_BYTES};
use io_uring::{opcode, squeue, types};

use super::Run;
use crate::Error;

/// The buffers' number with the kernel.
const BUFFERS: u16 = 0;
/// The file's number with the kernel.
const FILE: types::Fixed = types::Fixed(0);
/// It moves no data.
const NO_BUFFER: u32 = u32::MAX;

/// What is kept of a request in the device.
#[derive(Clone, Copy)]
pub(super) struct InDevice {
    buffer: u32,
    bytes: u32,
    op: Op,
    side: bool,
    sector: u64,
    issue: Nanos,
    /// Tells two uses of an id apart.
    number: u64,
    /// The verifier's time at its issue.
    verify: u64,
}

impl InDevice {
    const NONE: InDevice = InDevice {
        buffer: NO_BUFFER,
        bytes: 0,
        op: Op::Read,
        side: false,
        sector: 0,
        issue: Nanos::ZERO,
        number: 0,
        verify: 0,
    };

    /// Is it still the request of that number?
    pub(super) fn number_is(&self, number: u64) -> bool {
        self.number == number
    }
}

impl Run<'_> {
    /// Hands the ring what may go now.
    pub(super) fn serve(&mut self) -> Result<(), Error> {
        let now = self.now;
        while let Some(id) = self.layer.poll(now) {
            self.issue(id).map_err(|source| Error::Ring { what: "the ring takes no requests", source })?;
        }
        if let Some(fault) = self.layer.fault() {
            let target = self.target.path().display().to_string();
            return Err(Error::Fault { target, scheduler: String::new(), fault: *fault });
        }
        self.layer.finish_idle(now, &mut self.finished);
        self.deliver();
        if self.open {
            self.recorder.depth(now, self.layer.queued(), self.layer.in_device());
        }
        Ok(())
    }

    fn issue(&mut self, id: RequestId) -> io::Result<()> {
        let request = self.layer.request(id);
        let (op, flags, sector, sectors) = (request.io.op, request.io.flags, request.sector, request.sectors);
        let (at, bytes) = (sector * SECTOR_BYTES, u64::from(sectors) * SECTOR_BYTES);
        let mut buffer = NO_BUFFER;
        let mut verify = 0;
        let entry = match op {
            Op::Read | Op::Write => {
                let Some(slot) = self.arena.take(bytes as usize) else {
                    // The layer counts driver tags, and there is a buffer for each.
                    self.layer.refused(self.now, id);
                    return Ok(());
                };
                buffer = slot;
                if let Some(verifier) = &mut self.verifier {
                    verify = verifier.now();
                    if op == Op::Write {
                        verifier.write_begins(at, self.arena.bytes(slot, bytes as usize));
                    }
                }
                self.transfer(op, flags, at, bytes as u32, slot)
            }
            Op::Flush => opcode::Fsync::new(FILE).flags(types::FsyncFlags::DATASYNC).build(),
            Op::Discard | Op::SecureErase | Op::WriteZeroes => {
                if let Some(verifier) = &mut self.verifier {
                    verifier.erase_begins(at, bytes);
                }
                let how = if op == Op::WriteZeroes { libc::FALLOC_FL_ZERO_RANGE } else { libc::FALLOC_FL_PUNCH_HOLE };
                opcode::Fallocate::new(FILE, bytes).offset(at).mode(how | libc::FALLOC_FL_KEEP_SIZE).build()
            }
        };
        let side = self.side.is_some() && !op_is_transfer(op);
        self.issues += 1;
        let number = self.issues;
        if id.index() >= self.held.len() {
            self.held.resize(id.index() + 1, InDevice::NONE);
        }
        self.held[id.index()] = InDevice {
            buffer,
            bytes: bytes.min(u64::from(u32::MAX)) as u32,
            op,
            side,
            sector,
            issue: self.now,
            number,
            verify,
        };
        if let Some(sleeper) = &self.sleeper
            && op_is_transfer(op)
        {
            let sleep = sleeper.after_issue(op, sectors);
            if sleep > Nanos::ZERO {
                self.to_sleep.push_back((self.now + sleep, id, number));
            }
        }
        let ring = match &mut self.side {
            Some(ring) if side => {
                self.in_side += 1;
                ring
            }
            _ => {
                self.in_ring += 1;
                &mut self.ring
            }
        };
        // SAFETY: the arena lives as long as the run, and a run drains its rings before it ends; the slot is this request's
        // until its completion gives it back.
        unsafe { ring.push(&entry.user_data(u64::from(id.0))) }
    }

    fn transfer(&self, op: Op, flags: Flags, at: u64, bytes: u32, slot: u32) -> squeue::Entry {
        let address = self.arena.address(slot);
        let through = if flags.any(Flags::FUA) { libc::RWF_DSYNC } else { 0 };
        match (op, self.registered && self.arena.is_registered(slot)) {
            (Op::Read, true) => opcode::ReadFixed::new(FILE, address, bytes, BUFFERS).offset(at).build(),
            (Op::Read, false) => opcode::Read::new(FILE, address, bytes).offset(at).build(),
            (_, true) => opcode::WriteFixed::new(FILE, address, bytes, BUFFERS).offset(at).rw_flags(through).build(),
            (_, false) => opcode::Write::new(FILE, address, bytes).offset(at).rw_flags(through).build(),
        }
    }

    /// Takes what is completed.
    pub(super) fn reap(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        self.ring.reap(|id, result| done.push((id, result)));
        if let Some(side) = &mut self.side {
            side.reap(|id, result| done.push((id, result)));
        }
        for (id, result) in done.drain(..) {
            self.completed(RequestId(id as u32), result);
        }
        self.done = done;
        self.deliver();
    }

    fn completed(&mut self, id: RequestId, result: i32) {
        let now = self.now;
        let held = self.held[id.index()];
        if held.side {
            self.in_side -= 1;
        } else {
            self.in_ring -= 1;
        }
        self.held[id.index()].number = 0;
        let transfer = op_is_transfer(held.op);
        let again = matches!(-result, libc::EAGAIN | libc::EINTR);
        let failed = result < 0 || (transfer && result as u32 != held.bytes);
        self.verify(&held, failed);
        if held.buffer != NO_BUFFER {
            self.arena.put(held.buffer);
        }
        if again {
            self.layer.requeue(now, id);
            return;
        }
        if failed {
            self.failed(&held, result);
        } else if transfer {
            let took = now.since(held.issue);
            self.service = self.service - self.service / 64 + took.0 / 64;
            if let Some(sleeper) = &mut self.sleeper {
                sleeper.completed(now, held.op, held.bytes / SECTOR_BYTES as u32, took);
            }
        }
        // A short transfer has no number of its own.
        let errno = if result < 0 { Errno(-result) } else { Errno::EIO };
        self.layer.complete(now, id, if failed { Err(errno) } else { Ok(()) }, &mut self.finished);
    }

    fn verify(&mut self, held: &InDevice, failed: bool) {
        let Some(verifier) = &mut self.verifier else { return };
        let (at, bytes) = (held.sector * SECTOR_BYTES, u64::from(held.bytes));
        match held.op {
            Op::Flush => {}
            Op::Read if failed => {}
            Op::Read => verifier.read(at, self.arena.bytes(held.buffer, held.bytes as usize), held.verify),
            _ => verifier.change_ends(at, bytes, failed),
        }
    }

    #[cold]
    fn failed(&mut self, held: &InDevice, result: i32) {
        let why = if result < 0 {
            io::Error::from_raw_os_error(-result).to_string()
        } else {
            format!("short: {result} of {} bytes", held.bytes)
        };
        let kind = if result < 0 { name_of(-result) } else { "short".to_owned() };
        *self.failures.entry(kind).or_insert(0) += 1;
        if self.failure.is_none() {
            let at = held.sector * SECTOR_BYTES;
            let meaning = if self.target.is_gone() { " (the device is gone)" } else { advice(result) };
            self.failure = Some(format!("{} of {} bytes at byte {at}: {why}{meaning}", held.op, held.bytes));
        }
        self.stopping |= !self.target.options().keep_going;
    }

    /// Waits for everything that the kernel still has, whatever becomes of it: the buffers are not ours until then.
    pub(super) fn abandon(&mut self) {
        while self.in_ring > 0 {
            if self.ring.enter(1, None, 0).is_err() {
                // It cannot be known when the kernel is done: better to lose the memory than to hand it out.
                self.arena.leak();
                return;
            }
            let mut taken = 0;
            self.ring.reap(|_, _| taken += 1);
            self.in_ring -= taken.min(self.in_ring);
        }
    }
}

fn op_is_transfer(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write)
}

/// What an error means for who runs this, beyond its text.
fn advice(result: i32) -> &'static str {
    match -result {
        libc::ENOSPC => " (the file system, or the thin device below, is full)",
        libc::EFBIG => " (a limit on the size of files: `ulimit -f`, or the file system's own)",
        libc::ENODEV | libc::ENXIO => " (the device is gone)",
        libc::EOPNOTSUPP => " (the device or file system cannot do this)",
        libc::ENODATA => " (the medium is bad there: the drive cannot read or write it)",
        libc::EILSEQ => " (the data does not fit its protection information)",
        libc::EINVAL => " (the device does not take this size or position)",
        _ if result >= 0 => " (the file was cut off, or the medium ends)",
        _ => "",
    }
}

/// The name of the commonest errors, or the number.
fn name_of(errno: i32) -> String {
    let name = match errno {
        libc::EIO => "EIO",
        libc::ENOSPC => "ENOSPC",
        libc::EROFS => "EROFS",
        libc::EFBIG => "EFBIG",
        libc::ENODEV => "ENODEV",
        libc::ENXIO => "ENXIO",
        libc::EINVAL => "EINVAL",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::ENODATA => "ENODATA",
        libc::EILSEQ => "EILSEQ",
        libc::ENOLINK => "ENOLINK",
        libc::EREMOTEIO => "EREMOTEIO",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::EBADF => "EBADF",
        _ => return format!("errno {errno}"),
    };
    name.to_owned()
}
