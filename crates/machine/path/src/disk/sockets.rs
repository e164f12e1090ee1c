//! Receives from sockets in the disk's own ring: one wait serves clients and the device.
#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{opcode, types};

use super::Disk;
use super::listeners::Receive;
use crate::Error;
use crate::buffer::Buffer;
use crate::user_data::UserData;

impl Disk {
    /// Receives from `socket` into `buffer[range]` with the next turn, and answers with [`Event::Received`](crate::Event::Received). The disk holds buffer and
    /// socket until then. `whole` waits until the range is full, or the stream ends. To end a receive, shut the socket down.
    pub fn receive(
        &mut self,
        socket: &Arc<OwnedFd>,
        mut buffer: Buffer,
        range: Range<usize>,
        whole: bool,
        tag: u64,
    ) -> Result<(), Error> {
        let part = &mut buffer[range];
        let (start, len) = (part.as_mut_ptr(), part.len().min(i32::MAX as usize) as u32);
        let index = self.listeners.receives.put(Receive { socket: socket.clone(), buffer, tag });
        let flags = if whole { libc::MSG_WAITALL } else { 0 };
        let entry = opcode::Recv::new(types::Fd(socket.as_raw_fd()), start, len).flags(flags).build();
        let entry = entry.user_data(UserData::Receive(index).encode());
        // SAFETY: the memory lives on the heap in `self.listeners.receives`, untouched, until the completion is reaped; dropping the
        // disk waits for it.
        let pushed = unsafe { self.rings.push_beside(&entry) };
        if pushed.is_err() {
            self.listeners.receives.take(index);
        }
        pushed.map_err(|source| Error::Ring { what: "a socket cannot be received from", source })
    }
}
