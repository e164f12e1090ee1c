//! The table of commands to drivers.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::event::Event;

/// A command to a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverCommand {
    /// The driver's number of the operation.
    pub code: u32,
    /// Its argument, as the driver defines it.
    pub argument: [u8; 16],
}

/// The descriptor and the memory that a command uses until the driver answers.
pub(super) struct Pending {
    pub(super) tag: u64,
    pub(super) _device: Arc<OwnedFd>,
    pub(super) _memory: Arc<dyn Any + Send + Sync>,
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

    pub(super) fn put(&mut self, pending: Pending) -> u32 {
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

    pub(super) fn take(&mut self, index: u32) -> Option<Pending> {
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
