//! Commands to drivers in the disk's own ring (`IORING_OP_URING_CMD`): a driver that hands over requests this way wakes the same wait as
//! clients and the device.
#![allow(unsafe_code)]

use std::any::Any;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{opcode, types};

use super::Disk;
use super::listeners::{DriverCommand, Pending};
use crate::Error;
use crate::user_data::UserData;

impl Disk {
    /// Sends `command` to the driver of `device` with the next turn, and answers with [`Event::Commanded`](crate::Event::Commanded) once the driver completes it,
    /// which may be at any time. The disk holds `device` and `memory`, which the command may name, until then.
    ///
    /// # Safety
    /// Memory that the command names belongs to `memory`, and nothing but the driver uses it until the answer.
    pub unsafe fn command(
        &mut self,
        device: &Arc<OwnedFd>,
        command: DriverCommand,
        memory: Arc<dyn Any + Send + Sync>,
        tag: u64,
    ) -> Result<(), Error> {
        let index = self.listeners.commands.put(Pending { tag, _device: device.clone(), _memory: memory });
        let entry = opcode::UringCmd16::new(types::Fd(device.as_raw_fd()), command.code).cmd(command.argument).build();
        let entry = entry.user_data(UserData::Command(index).encode());
        // SAFETY: what the command names is kept in `self.listeners.commands` until the answer, and leaked if there is none.
        let pushed = unsafe { self.rings.push_beside(&entry) };
        if pushed.is_err() {
            self.listeners.commands.take(index);
        }
        pushed.map_err(|source| Error::Ring { what: "a driver takes no command", source })
    }
}
