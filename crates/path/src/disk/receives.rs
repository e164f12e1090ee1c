//! Receives from sockets in the disk's own ring: one wait serves clients and the device.
#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use dumbwaiter_block::Errno;
use io_uring::{opcode, types};

use super::Disk;
use super::event::Event;
use crate::Error;
use crate::buffer::Buffer;
use crate::user_data::UserData;

/// A receive that the kernel has, with the memory that it writes to.
struct Receive {
    socket: Arc<OwnedFd>,
    buffer: Buffer,
    tag: u64,
}

/// Receives under way, by the number that the kernel knows them by.
#[derive(Default)]
pub(super) struct Receives {
    all: Vec<Option<Receive>>,
    free: Vec<u32>,
    done: Vec<(u32, i32)>,
}

impl Receives {
    /// Is any under way?
    pub(super) fn any(&self) -> bool {
        self.free.len() < self.all.len()
    }

    fn put(&mut self, receive: Receive) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.all[index as usize] = Some(receive);
                index
            }
            None => {
                self.all.push(Some(receive));
                self.all.len() as u32 - 1
            }
        }
    }

    fn take(&mut self, index: u32) -> Option<Receive> {
        let receive = self.all.get_mut(index as usize)?.take();
        if receive.is_some() {
            self.free.push(index);
        }
        receive
    }

    /// The kernel answered one.
    pub(super) fn completed(&mut self, index: u32, result: i32) {
        self.done.push((index, result));
    }

    /// Appends what was received in this turn.
    pub(super) fn report(&mut self, events: &mut Vec<Event>) {
        let mut done = std::mem::take(&mut self.done);
        for (index, result) in done.drain(..) {
            if let Some(Receive { buffer, tag, .. }) = self.take(index) {
                let result = usize::try_from(result).map_err(|_| Errno(-result));
                events.push(Event::Received { tag, buffer, result });
            }
        }
        self.done = done;
    }

    /// Never frees memory that the kernel may still write to.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.all));
    }
}

impl Disk {
    /// Receives from `socket` into `buffer[range]` with the next turn, and answers with [`Event::Received`]. The disk holds buffer and
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
        let index = self.receives.put(Receive { socket: socket.clone(), buffer, tag });
        let flags = if whole { libc::MSG_WAITALL } else { 0 };
        let entry = opcode::Recv::new(types::Fd(socket.as_raw_fd()), start, len).flags(flags).build();
        let entry = entry.user_data(UserData::Receive(index).encode());
        // SAFETY: the memory lives on the heap in `self.receives`, untouched, until the completion is reaped; dropping the
        // disk waits for it.
        let pushed = unsafe { self.rings.push_beside(&entry) };
        if pushed.is_err() {
            self.receives.take(index);
        }
        pushed.map_err(|source| Error::Ring { what: "a socket cannot be received from", source })
    }

    /// Ends all receives and waits until the kernel has let go of their memory.
    pub(super) fn end_receives(&mut self) -> std::io::Result<()> {
        for receive in self.receives.all.iter().flatten() {
            // SAFETY: a plain call on an open descriptor.
            unsafe { libc::shutdown(receive.socket.as_raw_fd(), libc::SHUT_RDWR) };
        }
        while self.receives.any() {
            self.rings.sleeper().enter(1, None, 0)?;
            let receives = &mut self.receives;
            self.rings.reap(|answered, _, _| {
                if let UserData::Receive(index) = answered {
                    receives.take(index);
                }
            });
        }
        Ok(())
    }
}
