//! The table of receives from sockets.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use dumbwaiter_block::Errno;

use super::event::Event;
use crate::buffer::Buffer;

/// A receive that the kernel has, with the memory that it writes to.
pub(super) struct Receive {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) buffer: Buffer,
    pub(super) tag: u64,
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

    pub(super) fn put(&mut self, receive: Receive) -> u32 {
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

    pub(super) fn take(&mut self, index: u32) -> Option<Receive> {
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

    /// Those under way.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Receive> {
        self.all.iter().flatten()
    }

    /// Never frees memory that the kernel may still write to.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.all));
    }
}
