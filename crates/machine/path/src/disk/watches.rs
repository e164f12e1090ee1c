//! The table of descriptors that a disk watches.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;

use io_uring::{opcode, squeue, types};

use super::event::Event;
use super::readiness::{Interest, Readiness, WatchId};
use super::waker::Waker;
use crate::Error;
use crate::rings::Rings;
use crate::user_data::UserData;

/// The state of a watch.
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
    /// The result of the poll in this turn.
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
    /// The disk's own waker and its watch.
    waker: Option<(Waker, WatchId)>,
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

    pub(super) fn add(&mut self, fd: i32, interest: Interest) -> WatchId {
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

    /// The poll for the next watch that must be armed; from now on it counts as armed.
    fn arm_next(&mut self) -> Option<squeue::Entry> {
        while let Some(index) = self.disarmed.pop() {
            let watch = &mut self.all[index as usize];
            if watch.state != State::Disarmed {
                continue;
            }
            watch.state = State::Armed;
            let watched = UserData::Watch { index, generation: watch.generation };
            let poll = opcode::PollAdd::new(types::Fd(watch.fd), watch.interest.mask() as u32);
            return Some(poll.multi(!self.one_shot).build().user_data(watched.encode()));
        }
        None
    }

    /// Arms watches that are new, or that the kernel reported and forgot.
    pub(super) fn arm(&mut self, rings: &mut Rings) -> Result<(), Error> {
        while let Some(poll) = self.arm_next() {
            push(rings, &poll)?;
        }
        Ok(())
    }

    /// Ends a watch, if there is one of this id.
    pub(super) fn end(&mut self, id: WatchId, rings: &mut Rings) -> Result<(), Error> {
        if self.remove(id) != Some(true) {
            return Ok(());
        }
        let poll = UserData::Watch { index: id.index, generation: id.generation };
        // `PollRemove` fails where the descriptor becomes ready at the same moment, and the poll keeps it open.
        push(rings, &opcode::AsyncCancel::new(poll.encode()).build().user_data(UserData::None.encode()))
    }

    /// A handle for other threads.
    pub(super) fn waker(&mut self, rings: &mut Rings) -> Result<Waker, Error> {
        if let Some((waker, _)) = &self.waker {
            return Ok(waker.clone());
        }
        let waker = Waker::new().map_err(|source| Error::Ring { what: "no descriptor to be woken by", source })?;
        let id = self.add(waker.descriptor().as_raw_fd(), Interest::Read);
        self.arm(rings)?;
        self.waker = Some((waker.clone(), id));
        Ok(waker)
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
        // The kernel adds that the other end has closed its writing side. A caller that waits for room to write must not take that for room.
        let wanted = watch.interest.mask() | libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
        let revents = if result < 0 { i32::from(libc::POLLNVAL) } else { result & i32::from(wanted) };
        if watch.revents == 0 && revents != 0 {
            self.fired.push(index);
        }
        watch.revents |= revents;
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
            if let Some((waker, _)) = self.waker.as_ref().filter(|(_, own)| *own == id) {
                waker.reset();
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

fn push(rings: &mut Rings, entry: &squeue::Entry) -> Result<(), Error> {
    // SAFETY: polls and their removal name no memory.
    let pushed = unsafe { rings.push_beside(entry) };
    pushed.map_err(|source| Error::Ring { what: "a descriptor cannot be watched", source })
}
