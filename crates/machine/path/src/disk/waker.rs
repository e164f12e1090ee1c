//! A handle that ends the wait of a disk from another thread.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// Ends the wait of a [`Disk`](crate::Disk) from another thread: its turn answers with
/// [`Event::Woken`](crate::Event::Woken). Calls before that answer are one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(super) fn new() -> io::Result<Waker> {
        Ok(Waker(Arc::new(new_eventfd()?)))
    }

    /// The descriptor that becomes ready for reading with a call.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Forgets the calls that were made.
    pub(super) fn reset(&self) {
        drain(self.0.as_fd());
    }

    /// Wakes the disk. Without effect once it is gone.
    pub fn wake(&self) {
        // It fails only where the counter is full; then the disk is woken already.
        let _ = write_one(self.0.as_fd());
    }
}

fn new_eventfd() -> io::Result<OwnedFd> {
    // SAFETY: a plain call.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn write_one(fd: BorrowedFd<'_>) -> bool {
    let one = 1u64;
    // SAFETY: eight bytes that live over the call.
    unsafe { libc::write(fd.as_raw_fd(), (&raw const one).cast(), 8) == 8 }
}

fn drain(fd: BorrowedFd<'_>) {
    let mut count = 0u64;
    // SAFETY: eight bytes that live over the call; it does not block.
    unsafe { libc::read(fd.as_raw_fd(), (&raw mut count).cast(), 8) };
}
