//! Descriptors that a disk watches for its owner, and the waker.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{opcode, squeue};

use super::Disk;
use super::readiness::{Interest, WatchId};
use super::waker::Waker;
use crate::Error;
use crate::user_data::UserData;

impl Disk {
    /// Reports from now on when `fd` becomes ready ([`Event::Ready`](crate::Event::Ready)), once at least for each time that
    /// it does. It may be ready already. A descriptor that is closed without [`Disk::unwatch`] stays open for the kernel as
    /// long as the disk.
    pub fn watch(&mut self, fd: BorrowedFd<'_>, interest: Interest) -> Result<WatchId, Error> {
        let id = self.watches.add(fd.as_raw_fd(), interest);
        self.rearm_watches()?;
        Ok(id)
    }

    /// Ends a watch: it is not reported any more. Without effect on one that was ended before.
    pub fn unwatch(&mut self, id: WatchId) -> Result<(), Error> {
        if self.watches.remove(id) != Some(true) {
            return Ok(());
        }
        let poll = UserData::Watch { index: id.index, generation: id.generation };
        // `PollRemove` fails where the descriptor becomes ready at the same moment, and the poll keeps it open.
        let entry = opcode::AsyncCancel::new(poll.encode()).build().user_data(UserData::None.encode());
        self.push_beside(&entry)
    }

    /// A handle for other threads.
    pub fn waker(&mut self) -> Result<Waker, Error> {
        if let Some((waker, _)) = &self.watches.waker {
            return Ok(waker.clone());
        }
        let waker = Waker::new().map_err(|source| Error::Ring { what: "no descriptor to be woken by", source })?;
        let id = self.watch(waker.descriptor(), Interest::Read)?;
        self.watches.waker = Some((waker.clone(), id));
        Ok(waker)
    }

    /// Arms watches that are new, or that the kernel reported and forgot.
    pub(super) fn rearm_watches(&mut self) -> Result<(), Error> {
        while let Some(poll) = self.watches.arm_next() {
            self.push_beside(&poll)?;
        }
        Ok(())
    }

    fn push_beside(&mut self, entry: &squeue::Entry) -> Result<(), Error> {
        // SAFETY: polls and their removal name no memory.
        let pushed = unsafe { self.rings.push_beside(entry) };
        pushed.map_err(|source| Error::Ring { what: "a descriptor cannot be watched", source })
    }
}
