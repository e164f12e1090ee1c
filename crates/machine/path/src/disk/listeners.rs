//! Listeners that end a wait beside the device: watched descriptors, receives from sockets and commands to drivers.
#![allow(unsafe_code)]

use std::any::Any;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use dumbwaiter_block::Errno;

use super::event::Event;
use super::underway::Underway;
use super::watches::Watches;
use crate::buffer::Buffer;
use crate::rings::Rings;
use crate::user_data::UserData;

/// A command to a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverCommand {
    /// The driver's number of the operation.
    pub code: u32,
    /// Its argument, as the driver defines it.
    pub argument: [u8; 16],
}

/// The descriptor and the memory that a command uses until the driver answers. Closing the ring cancels what it has, but not at once.
pub(super) struct Pending {
    pub(super) tag: u64,
    pub(super) _device: Arc<OwnedFd>,
    pub(super) _memory: Arc<dyn Any + Send + Sync>,
}

/// A receive that the kernel has, with the memory that it writes to.
pub(super) struct Receive {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) buffer: Buffer,
    pub(super) tag: u64,
}

#[derive(Default)]
pub(super) struct Listeners {
    pub(super) watches: Watches,
    pub(super) receives: Underway<Receive>,
    pub(super) commands: Underway<Pending>,
}

impl Listeners {
    /// Can any of them end a wait?
    pub(super) fn any(&self) -> bool {
        self.watches.any() || self.any_answers()
    }

    /// Is a receive or a command under way?
    pub(super) fn any_answers(&self) -> bool {
        self.receives.any() || self.commands.any()
    }

    /// The kernel answered something that is no request.
    pub(super) fn answered(&mut self, what: UserData, result: i32, more: bool) {
        match what {
            UserData::Watch { index, generation } => self.watches.fired(index, generation, result, more),
            UserData::Receive(index) => self.receives.completed(index, result),
            UserData::Command(index) => self.commands.completed(index, result),
            UserData::Request(_) | UserData::None => {}
        }
    }

    /// Appends what happened in this turn.
    pub(super) fn report(&mut self, events: &mut Vec<Event>) {
        self.watches.report(events);
        self.receives.report(|Receive { buffer, tag, .. }, result| {
            let result = usize::try_from(result).map_err(|_| Errno(-result));
            events.push(Event::Received { tag, buffer, result });
        });
        self.commands.report(|Pending { tag, .. }, result| events.push(Event::Commanded { tag, result }));
    }

    /// Ends all receives and waits until the kernel has let go of their memory. What the kernel keeps is never freed.
    pub(super) fn end(&mut self, rings: &mut Rings) {
        self.commands.leak();
        if self.end_receives(rings).is_err() {
            self.receives.leak();
        }
    }

    fn end_receives(&mut self, rings: &mut Rings) -> std::io::Result<()> {
        for receive in self.receives.iter() {
            // SAFETY: a plain call on an open descriptor.
            unsafe { libc::shutdown(receive.socket.as_raw_fd(), libc::SHUT_RDWR) };
        }
        while self.receives.any() {
            rings.sleeper().enter(1, None, 0)?;
            rings.reap(|answered, _, _| {
                if let UserData::Receive(index) = answered {
                    self.receives.take(index);
                }
            });
        }
        Ok(())
    }
}
