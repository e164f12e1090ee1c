//! The [virtual device](crate::VirtualDevice) of a disk, and how far it has come.
#![allow(unsafe_code)]

use dumbwaiter_block::{Errno, Flags, Nanos, Op, Request, SECTOR_BYTES};

use super::in_device::InDevice;
use crate::virtual_device::{VirtualDevice, VirtualRequest};

pub(super) struct VirtualTarget {
    pub(super) device: Box<dyn VirtualDevice>,
    /// Requests that it has done, of one of its events.
    pub(super) done: Vec<(u32, Result<(), Errno>)>,
    pub(super) now: Nanos,
}

impl VirtualTarget {
    pub(super) fn new(device: Box<dyn VirtualDevice>) -> VirtualTarget {
        VirtualTarget { device, done: Vec::new(), now: Nanos::ZERO }
    }

    /// Hands it a request; `false` if it does not take it now.
    pub(super) fn submit(&mut self, now: Nanos, tag: u32, held: &InDevice, request: &Request) -> bool {
        let command = VirtualRequest {
            tag,
            op: held.op,
            fua: request.io.flags.any(Flags::FUA),
            sector: held.sector,
            sectors: if held.op == Op::Flush { 0 } else { request.sectors },
        };
        self.device.submit(now, &command)
    }

    /// Goes on to its next event, if that is not after `until`. Returns the time of the event.
    pub(super) fn advance(&mut self, until: Nanos) -> Option<Nanos> {
        let at = self.device.next_event().filter(|at| *at <= until)?;
        self.now = at.max(self.now);
        self.device.advance(self.now, &mut self.done);
        Some(self.now)
    }

    /// Copies between it and the memory of a request that is done.
    pub(super) fn move_data(&mut self, held: &InDevice, pieces: &[libc::iovec]) -> Result<(), Errno> {
        let (device, mut at) = (&mut self.device, held.sector * SECTOR_BYTES);
        match held.op {
            Op::Flush => {}
            Op::Discard | Op::SecureErase | Op::WriteZeroes => device.zero(at, held.bytes),
            Op::Read | Op::Write if !held.gathered => {}
            Op::Read | Op::Write => {
                for piece in pieces {
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
