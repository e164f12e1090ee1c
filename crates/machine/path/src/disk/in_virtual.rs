//! Requests of a disk whose device is a [`VirtualDevice`](crate::VirtualDevice).
#![allow(unsafe_code)]

use dumbwaiter_block::{Errno, Flags, Op, RequestId, SECTOR_BYTES};

use super::Disk;
use super::event::Event;
use super::in_device::InDevice;
use crate::Error;
use crate::virtual_device::VirtualRequest;

impl Disk {
    /// Hands a request that the scheduler chose to the virtual device; `false` if it does not take it now.
    pub(super) fn issue_virtual(&mut self, id: RequestId, held: InDevice) -> bool {
        let request = self.layer.request(id);
        let command = VirtualRequest {
            tag: id.0,
            op: held.op,
            fua: request.io.flags.any(Flags::FUA),
            sector: held.sector,
            sectors: if held.op == Op::Flush { 0 } else { request.sectors },
        };
        let Some(device) = &mut self.device else { return false };
        if device.submit(self.now, &command) {
            self.held[id.index()] = held;
            return true;
        }
        if held.gathered {
            for part in self.layer.parts(id) {
                self.slots.returns(part.io.token as u32);
            }
        }
        false
    }

    /// Lets the virtual device work up to the present, one event after another: the scheduler answers each at its own time,
    /// however late this thread was woken.
    pub(super) fn run_virtual(&mut self, events: &mut Vec<Event>) -> Result<(), Error> {
        let until = self.now;
        let mut done = std::mem::take(&mut self.virtual_done);
        while let Some(at) = self.device.as_ref().and_then(|device| device.next_event()).filter(|at| *at <= until) {
            self.now = at.max(self.virtual_now);
            self.virtual_now = self.now;
            if let Some(device) = &mut self.device {
                device.advance(self.now, &mut done);
            }
            for (tag, result) in done.drain(..) {
                let id = RequestId(tag);
                let result = result.and_then(|()| self.move_virtual_data(id));
                let result = result.map_or_else(|errno| -errno.0, |()| self.held[id.index()].bytes as i32);
                self.completed(id, result, events);
            }
            if self.layer.next_timer().is_some_and(|at| at <= self.now) {
                self.layer.timer(self.now);
            }
            while let Some(id) = self.layer.poll(self.now) {
                self.issue(id)?;
            }
        }
        self.virtual_done = done;
        self.now = until;
        self.virtual_now = self.virtual_now.max(until);
        Ok(())
    }

    /// Copies between the device and the memory of a request that is done.
    fn move_virtual_data(&mut self, id: RequestId) -> Result<(), Errno> {
        let held = self.held[id.index()];
        let (Some(device), mut at) = (&mut self.device, held.sector * SECTOR_BYTES) else { return Ok(()) };
        match held.op {
            Op::Flush => {}
            Op::Discard | Op::SecureErase | Op::WriteZeroes => device.zero(at, held.bytes),
            Op::Read | Op::Write if !held.gathered => {}
            Op::Read | Op::Write => {
                for piece in &self.iovecs[id.index()] {
                    let start = piece.iov_base.cast::<u8>();
                    // SAFETY: the memory of an I/O in the device belongs to the disk until it is completed (`Data`), and
                    // no kernel works on that of a virtual device.
                    let memory = unsafe { std::slice::from_raw_parts_mut(start, piece.iov_len) };
                    match held.op {
                        Op::Read => device.read(at, memory),
                        _ => device.write(at, memory)?,
                    }
                    at += piece.iov_len as u64;
                }
            }
        }
        Ok(())
    }
}
