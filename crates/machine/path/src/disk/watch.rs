//! Descriptors that a disk watches for its owner, and the waker.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::Disk;
use super::readiness::{Interest, WatchId};
use super::waker::Waker;
use crate::Error;

impl Disk {
    /// Reports from now on when `fd` becomes ready ([`Event::Ready`](crate::Event::Ready)), once at least for each time that
    /// it does. It may be ready already. A descriptor that is closed without [`Disk::unwatch`] stays open for the kernel as
    /// long as the disk.
    pub fn watch(&mut self, fd: BorrowedFd<'_>, interest: Interest) -> Result<WatchId, Error> {
        let id = self.listeners.watches.add(fd.as_raw_fd(), interest);
        self.listeners.watches.arm(&mut self.rings)?;
        Ok(id)
    }

    /// Ends a watch: it is not reported any more. Without effect on one that was ended before.
    pub fn unwatch(&mut self, id: WatchId) -> Result<(), Error> {
        self.listeners.watches.end(id, &mut self.rings)
    }

    /// A handle for other threads.
    pub fn waker(&mut self) -> Result<Waker, Error> {
        self.listeners.watches.waker(&mut self.rings)
    }
}
