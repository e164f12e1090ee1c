//! Receives from sockets, and what is sent before them, in the disk's own ring: one wait serves clients and the device.
#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::squeue::Flags;
use io_uring::{opcode, types};

use super::Disk;
use super::receives::{MAX_HEAD, Receive};
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
        let index = self.receives.put(Receive { socket: socket.clone(), buffer, tag, answer: None });
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

    /// Can [`Disk::send_and_receive`] be used? Kernels before 6.1 may end a send before all is sent.
    pub fn sends(&self) -> bool {
        self.rings.sends_all()
    }

    /// Sends `head`, at most [`MAX_HEAD`](crate::MAX_HEAD) bytes, and `data` to `socket`, and then receives into `buffer[range]`: the two cost no
    /// system call but the next turn's own. [`Event::Received`](crate::Event::Received) brings both buffers back; until then nothing else may be sent.
    /// To end it, shut the socket down.
    pub fn send_and_receive(
        &mut self,
        socket: &Arc<OwnedFd>,
        head: &[u8],
        data: Option<Buffer>,
        mut buffer: Buffer,
        range: Range<usize>,
        tag: u64,
    ) -> Result<(), Error> {
        let failed = |source| Error::Ring { what: "a socket cannot be sent to", source };
        if head.len() > MAX_HEAD {
            return Err(failed(std::io::ErrorKind::InvalidInput.into()));
        }
        let mut answer = self.receives.answer();
        answer.head[..head.len()].copy_from_slice(head);
        answer.data = data;
        let body = answer.data.as_ref().map_or((std::ptr::null(), 0), |data| (data.as_ptr(), data.len()));
        answer.pieces = [
            libc::iovec { iov_base: answer.head.as_mut_ptr().cast(), iov_len: head.len() },
            libc::iovec { iov_base: body.0.cast_mut().cast(), iov_len: body.1 },
        ];
        answer.message.msg_iov = answer.pieces.as_mut_ptr();
        answer.message.msg_iovlen = 2;
        let message: *const libc::msghdr = &raw const answer.message;
        let part = &mut buffer[range];
        let (start, len) = (part.as_mut_ptr(), part.len().min(i32::MAX as usize) as u32);
        let index = self.receives.put(Receive { socket: socket.clone(), buffer, tag, answer: Some(answer) });
        let fd = types::Fd(socket.as_raw_fd());
        let send = opcode::SendMsg::new(fd, message).flags((libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32).build();
        let linked = Flags::IO_LINK | Flags::SKIP_SUCCESS;
        let send = send.flags(linked).user_data(UserData::Send(index).encode());
        let receive = opcode::Recv::new(fd, start, len).build().user_data(UserData::Receive(index).encode());
        // SAFETY: all memory lives on the heap in `self.receives`, untouched, until the receive is reaped, which begins when the send has
        // ended, or until the send is reaped, which failed; dropping the disk waits for it.
        let pushed = unsafe { self.rings.push_both_beside(&[send, receive]) };
        if pushed.is_err() {
            self.receives.take(index);
        }
        pushed.map_err(failed)
    }

    /// Ends all receives and waits until the kernel has let go of their memory.
    pub(super) fn end_receives(&mut self) -> std::io::Result<()> {
        for receive in self.receives.iter() {
            // SAFETY: a plain call on an open descriptor.
            unsafe { libc::shutdown(receive.socket.as_raw_fd(), libc::SHUT_RDWR) };
        }
        while self.receives.any() {
            self.rings.sleeper().enter(1, None, 0)?;
            let receives = &mut self.receives;
            self.rings.reap(|answered, _, _| {
                if let UserData::Receive(index) | UserData::Send(index) = answered {
                    receives.take(index);
                }
            });
        }
        Ok(())
    }
}
