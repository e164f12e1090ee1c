//! The table of receives from sockets, and of what is sent before them.
#![allow(unsafe_code)]

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
    /// What is sent before.
    pub(super) answer: Option<Box<Answer>>,
}

/// A message to be sent, with all that the kernel reads of it. It does not move while the kernel has it.
pub(super) struct Answer {
    pub(super) head: [u8; MAX_HEAD],
    pub(super) data: Option<Buffer>,
    pub(super) pieces: [libc::iovec; 2],
    pub(super) message: libc::msghdr,
}

/// Most bytes before the data of an answer.
pub const MAX_HEAD: usize = 64;

impl Default for Answer {
    fn default() -> Answer {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: a plain structure of the kernel's, for which zeroes mean nothing at all.
        let message = unsafe { std::mem::zeroed() };
        Answer { head: [0; MAX_HEAD], data: None, pieces: [none; 2], message }
    }
}

/// Receives under way, by the number that the kernel knows them by.
#[derive(Default)]
pub(super) struct Receives {
    all: Vec<Option<Receive>>,
    free: Vec<u32>,
    done: Vec<(u32, i32)>,
    /// Answers that may be used again; boxed, as they are when the kernel has them.
    #[allow(clippy::vec_box)]
    answers: Vec<Box<Answer>>,
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
            if let Some(Receive { buffer, tag, answer, .. }) = self.take(index) {
                let result = usize::try_from(result).map_err(|_| Errno(-result));
                let sent = answer.and_then(|answer| self.keep(answer));
                events.push(Event::Received { tag, buffer, result, sent });
            }
        }
        self.done = done;
    }

    /// Memory for an answer.
    pub(super) fn answer(&mut self) -> Box<Answer> {
        self.answers.pop().unwrap_or_default()
    }

    /// The kernel is done with an answer: its data.
    fn keep(&mut self, mut answer: Box<Answer>) -> Option<Buffer> {
        let data = answer.data.take();
        self.answers.push(answer);
        data
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
