//! Commands to drivers in the disk's own ring (`IORING_OP_URING_CMD`): a driver that hands over requests this way wakes the same wait as
//! clients and the device.
#![allow(unsafe_code)]

use std::any::Any;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{opcode, types};

use super::Disk;
use super::event::Event;
use crate::Error;
use crate::user_data::UserData;

/// A command to a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverCommand {
    /// The driver's number of the operation.
    pub code: u32,
    /// Its argument, as the driver defines it.
    pub argument: [u8; 16],
}

/// What a command uses until the driver answers.
struct Pending {
    tag: u64,
    _device: Arc<OwnedFd>,
    _memory: Arc<dyn Any + Send + Sync>,
}

/// Commands that a driver has, by the number that the kernel knows them by.
#[derive(Default)]
pub(super) struct Commands {
    all: Vec<Option<Pending>>,
    free: Vec<u32>,
    done: Vec<(u32, i32)>,
}

impl Commands {
    /// Is any under way?
    pub(super) fn any(&self) -> bool {
        self.free.len() < self.all.len()
    }

    fn put(&mut self, pending: Pending) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.all[index as usize] = Some(pending);
                index
            }
            None => {
                self.all.push(Some(pending));
                self.all.len() as u32 - 1
            }
        }
    }

    fn take(&mut self, index: u32) -> Option<Pending> {
        let pending = self.all.get_mut(index as usize)?.take();
        if pending.is_some() {
            self.free.push(index);
        }
        pending
    }

    /// The driver answered one.
    pub(super) fn completed(&mut self, index: u32, result: i32) {
        self.done.push((index, result));
    }

    /// Appends the answers of this turn.
    pub(super) fn report(&mut self, events: &mut Vec<Event>) {
        let mut done = std::mem::take(&mut self.done);
        for (index, result) in done.drain(..) {
            if let Some(Pending { tag, .. }) = self.take(index) {
                events.push(Event::Commanded { tag, result });
            }
        }
        self.done = done;
    }

    /// Never frees memory that a driver may still use: closing the ring cancels what it has, but not at once.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.all));
    }
}

impl Disk {
    /// Sends `command` to the driver of `device` with the next turn, and answers with [`Event::Commanded`] once the driver completes it,
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
        let index = self.commands.put(Pending { tag, _device: device.clone(), _memory: memory });
        let entry = opcode::UringCmd16::new(types::Fd(device.as_raw_fd()), command.code).cmd(command.argument).build();
        let entry = entry.user_data(UserData::Command(index).encode());
        // SAFETY: what the command names is kept in `self.commands` until the answer, and leaked if there is none.
        let pushed = unsafe { self.rings.push_beside(&entry) };
        if pushed.is_err() {
            self.commands.take(index);
        }
        pushed.map_err(|source| Error::Ring { what: "a driver takes no command", source })
    }
}
