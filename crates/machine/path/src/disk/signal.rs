//! Signals to another ring, sent with the disk's own requests: a call less for each batch of answers.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{opcode, squeue, types};

use super::Disk;
use crate::Error;
use crate::user_data::UserData;

impl Disk {
    /// Posts an empty completion to `ring`, an io_uring without `IORING_SETUP_DEFER_TASKRUN`, with the next call on the disk's own ring: an
    /// eventfd that is registered there is signalled. `false` where the kernel (before 5.18) has no such message, and nothing is sent.
    ///
    /// A descriptor that is closed before that call is no error; the signal is lost.
    pub fn signal(&mut self, ring: BorrowedFd<'_>) -> Result<bool, Error> {
        if !self.rings.passes_messages() {
            return Ok(false);
        }
        let message = opcode::MsgRingData::new(types::Fd(ring.as_raw_fd()), 0, UserData::None.encode(), None).build();
        let message = message.flags(squeue::Flags::SKIP_SUCCESS).user_data(UserData::None.encode());
        // SAFETY: it names no memory.
        let pushed = unsafe { self.rings.push_beside(&message) };
        pushed.map_err(|source| Error::Ring { what: "another ring cannot be signalled", source })?;
        Ok(true)
    }
}
