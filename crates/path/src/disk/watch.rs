//! Descriptors that a disk watches for its owner, and the waker.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{opcode, types};

use super::{Disk, Event};
use crate::Error;
use crate::user_data::UserData;

/// What a descriptor is watched for. Errors and hang-ups are always reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// There is something to read, or a connection to accept.
    Read,
    /// There is room to write.
    Write,
    /// Either.
    ReadWrite,
}

impl Interest {
    fn mask(self) -> i16 {
        match self {
            Interest::Read => libc::POLLIN | libc::POLLRDHUP,
            Interest::Write => libc::POLLOUT,
            Interest::ReadWrite => libc::POLLIN | libc::POLLRDHUP | libc::POLLOUT,
        }
    }
}

/// What a watched descriptor is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// There is something to read, the end of the stream included.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// It is broken or closed at the other end, or cannot be watched: nothing more is reported of it.
    pub ended: bool,
}

/// Names a watched descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WatchId {
    index: u32,
    generation: u32,
}

/// Ends the wait of a [`Disk`] from another thread: its turn answers with [`Event::Woken`]. Calls before that answer are one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Wakes the disk. Without effect once it is gone.
    pub fn wake(&self) {
        // It fails only where the counter is full; then the disk is woken already.
        let _ = write_one(self.0.as_fd());
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Armed,
    /// The kernel reported it and forgot it; it is armed with the next turn.
    Disarmed,
    /// Over; only waits to be removed.
    Ended,
}

struct Watch {
    fd: i32,
    interest: Interest,
    generation: u32,
    state: State,
    /// What the poll answered in this turn.
    revents: i32,
}

/// The table of watched descriptors.
#[derive(Default)]
pub(super) struct Watches {
    all: Vec<Watch>,
    free: Vec<u32>,
    used: usize,
    /// Reported in this turn.
    fired: Vec<u32>,
    /// Must be armed again.
    disarmed: Vec<u32>,
    /// The kernel (before 5.13) knows no poll with many answers.
    one_shot: bool,
    /// The waker's own descriptor and its place.
    waker: Option<(Arc<OwnedFd>, WatchId)>,
}

/// A generation fits into `user_data`.
const GENERATIONS: u32 = 1 << 30;

impl Watches {
    /// Can a descriptor or waker end a wait?
    pub(super) fn any(&self) -> bool {
        self.used > 0
    }

    /// Must a watch be armed?
    pub(super) fn to_arm(&self) -> bool {
        !self.disarmed.is_empty()
    }

    fn add(&mut self, fd: i32, interest: Interest) -> WatchId {
        self.used += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.all.push(Watch { fd, interest, generation: 0, state: State::Free, revents: 0 });
            self.all.len() as u32 - 1
        });
        let watch = &mut self.all[index as usize];
        (watch.fd, watch.interest, watch.state, watch.revents) = (fd, interest, State::Disarmed, 0);
        self.disarmed.push(index);
        WatchId { index, generation: watch.generation }
    }

    /// Forgets a watch. Was the kernel still watching? `None` if there is no such watch.
    fn remove(&mut self, id: WatchId) -> Option<bool> {
        let watch = self.all.get_mut(id.index as usize)?;
        if watch.generation != id.generation || watch.state == State::Free {
            return None;
        }
        let armed = watch.state == State::Armed;
        watch.state = State::Free;
        watch.generation = (watch.generation + 1) % GENERATIONS;
        self.used -= 1;
        self.free.push(id.index);
        Some(armed)
    }

    /// The poll of a watch answered; `more` if it goes on.
    pub(super) fn fired(&mut self, index: u32, generation: u32, result: i32, more: bool) {
        let Some(watch) = self.all.get_mut(index as usize) else { return };
        if watch.generation != generation || watch.state == State::Free {
            // A late answer to one that was removed.
            return;
        }
        if result == -libc::EINVAL && !self.one_shot {
            self.one_shot = true;
            watch.state = State::Disarmed;
            self.disarmed.push(index);
            return;
        }
        if watch.revents == 0 {
            self.fired.push(index);
        }
        watch.revents |= if result < 0 { i32::from(libc::POLLNVAL) } else { result };
        if !more {
            let ended = watch.revents & i32::from(libc::POLLNVAL | libc::POLLERR | libc::POLLHUP) != 0;
            watch.state = if ended { State::Ended } else { State::Disarmed };
            if !ended {
                self.disarmed.push(index);
            }
        }
    }

    /// Appends what fired in this turn.
    pub(super) fn report(&mut self, events: &mut Vec<Event>) {
        for index in self.fired.drain(..) {
            let watch = &mut self.all[index as usize];
            let revents = std::mem::take(&mut watch.revents) as i16;
            if watch.state == State::Free {
                continue;
            }
            let id = WatchId { index, generation: watch.generation };
            if let Some((fd, _)) = self.waker.as_ref().filter(|(_, own)| *own == id) {
                drain(fd.as_fd());
                events.push(Event::Woken);
                continue;
            }
            let has = |bits: i16| revents & bits != 0;
            let readiness = Readiness {
                readable: has(libc::POLLIN | libc::POLLRDHUP | libc::POLLHUP),
                writable: has(libc::POLLOUT),
                ended: has(libc::POLLNVAL | libc::POLLERR | libc::POLLHUP),
            };
            events.push(Event::Ready { watch: id, readiness });
        }
    }
}

impl Disk {
    /// Reports from now on when `fd` becomes ready ([`Event::Ready`]), once at least for each time that it does. It may be
    /// ready already. A descriptor that is closed without [`Disk::unwatch`] stays open for the kernel as long as the disk.
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
        let entry = opcode::PollRemove::new(poll.encode()).build().user_data(UserData::None.encode());
        self.push_beside(&entry)
    }

    /// A handle for other threads.
    pub fn waker(&mut self) -> Result<Waker, Error> {
        if let Some((fd, _)) = &self.watches.waker {
            return Ok(Waker(Arc::clone(fd)));
        }
        let fd =
            Arc::new(new_eventfd().map_err(|source| Error::Ring { what: "no descriptor to be woken by", source })?);
        let id = self.watch(fd.as_fd(), Interest::Read)?;
        self.watches.waker = Some((Arc::clone(&fd), id));
        Ok(Waker(fd))
    }

    /// Arms watches that are new, or that the kernel reported and forgot.
    pub(super) fn rearm_watches(&mut self) -> Result<(), Error> {
        while let Some(index) = self.watches.disarmed.pop() {
            let watch = &mut self.watches.all[index as usize];
            if watch.state != State::Disarmed {
                continue;
            }
            watch.state = State::Armed;
            let watched = UserData::Watch { index, generation: watch.generation };
            let poll = opcode::PollAdd::new(types::Fd(watch.fd), watch.interest.mask() as u32);
            let poll = poll.multi(!self.watches.one_shot);
            let entry = poll.build().user_data(watched.encode());
            self.push_beside(&entry)?;
        }
        Ok(())
    }
}

impl Disk {
    fn push_beside(&mut self, entry: &io_uring::squeue::Entry) -> Result<(), Error> {
        // SAFETY: polls and their removal name no memory.
        let pushed = unsafe { self.rings.push_beside(entry) };
        pushed.map_err(|source| Error::Ring { what: "a descriptor cannot be watched", source })
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
