//! Signals to an eventfd that belongs to another process too.
//!
//! A plain `write` blocks where the counter is full, and whether it may block is a flag that the other side can change at any time. The
//! kernel's own signals never block: a small ring raises the eventfd with each completion, and a signal is a completed no-op, or a
//! message from another ring.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use io_uring::{IoUring, opcode};

/// Completions that the ring has room for; more of them before the next [`Signal::ring`] are one signal.
const COMPLETIONS: u32 = 16;

/// An eventfd of the front end that the device signals.
pub struct Signal(IoUring);

impl std::fmt::Debug for Signal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signal")
    }
}

impl Signal {
    /// Signals of `descriptor`; an error if it is no eventfd.
    pub(crate) fn new(descriptor: &OwnedFd) -> io::Result<Signal> {
        let ring = IoUring::builder().setup_cqsize(COMPLETIONS).build(1)?;
        ring.submitter().register_eventfd(descriptor.as_raw_fd())?;
        Ok(Signal(ring))
    }

    /// The ring to which a message (`IORING_OP_MSG_RING`) is a signal, with room for it.
    pub fn ring(&mut self) -> BorrowedFd<'_> {
        self.0.completion().for_each(drop);
        // SAFETY: the descriptor is the ring's, which lives as long as the borrow.
        unsafe { BorrowedFd::borrow_raw(self.0.as_raw_fd()) }
    }

    /// Adds one, and never waits. A counter that is full stays so: it was signalled before.
    pub fn send(&mut self) {
        // SAFETY: a no-op names no memory.
        if unsafe { self.0.submission().push(&opcode::Nop::new().build()) }.is_ok() {
            // Nothing can be done about a ring that takes nothing; its driver notices that it gets no signals.
            let _ = self.0.submit();
        }
        self.0.completion().for_each(drop);
    }
}

/// Is this an eventfd? Others may block the thread that polls them, such as files of a file system in user space.
pub(crate) fn is_eventfd(descriptor: &OwnedFd) -> bool {
    Signal::new(descriptor).is_ok()
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;

    fn count(of: &OwnedFd) -> u64 {
        let mut bytes = [0; 8];
        rustix::io::read(of, &mut bytes).unwrap();
        u64::from_ne_bytes(bytes)
    }

    #[test]
    fn each_signal_adds_one() {
        let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let mut signal = Signal::new(&event).unwrap();
        for sent in [1, 2, 5] {
            (0..sent).for_each(|_| signal.send());
            assert_eq!(count(&event), sent);
        }
    }

    #[test]
    fn a_full_counter_that_blocks_writers_does_not_block_a_signal() {
        let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let mut signal = Signal::new(&event).unwrap();
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        // The front end changes its mind: a write would wait for a reader now.
        fcntl_setfl(&event, OFlags::empty()).unwrap();
        (0..100).for_each(|_| signal.send());
        assert!(count(&event) >= u64::MAX - 1);
        signal.send();
        assert_eq!(count(&event), 1, "it works again");
    }

    #[test]
    fn nothing_but_an_eventfd_is_taken() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (reader, writer): (OwnedFd, OwnedFd) = (reader.into(), writer.into());
        assert!(!is_eventfd(&reader) && !is_eventfd(&writer));
        let memory = rustix::fs::memfd_create("m", rustix::fs::MemfdFlags::empty()).unwrap();
        assert!(!is_eventfd(&memory));
        assert!(is_eventfd(&eventfd(0, EventfdFlags::empty()).unwrap()));
    }
}
