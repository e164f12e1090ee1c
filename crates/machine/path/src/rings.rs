//! The rings of a disk: the main one, and beside a polled one another for what cannot be polled.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::RawFd;

use io_uring::squeue;

use crate::ring::{Ring, RingMode};
use crate::user_data::UserData;

/// One or two rings over one file, and how many requests the kernel holds of each.
pub(crate) struct Rings {
    pub(crate) main: Ring,
    /// For what a polled ring does not take: flushes, discards, watched descriptors.
    side: Option<Ring>,
    in_main: u32,
    in_side: u32,
    /// The kernel passes messages from the ring that takes watches to other rings.
    passes_messages: bool,
}

impl Rings {
    /// Rings of `entries`, each made by `make`.
    pub(crate) fn new<E>(mode: RingMode, make: impl Fn(RingMode) -> Result<Ring, E>) -> Result<Rings, E> {
        let main = make(mode)?;
        let side = if main.polled() { Some(make(RingMode::Interrupt)?) } else { None };
        let passes_messages = side.as_ref().unwrap_or(&main).passes_messages();
        Ok(Rings { main, side, in_main: 0, in_side: 0, passes_messages })
    }

    /// Registers the file with all rings, as number 0.
    pub(crate) fn register_file(&self, file: RawFd) -> io::Result<()> {
        self.main.register_file(file)?;
        self.side.as_ref().map_or(Ok(()), |side| side.register_file(file))
    }

    /// Requests that the kernel has, or will have with the next call.
    pub(crate) fn requests(&self) -> u32 {
        self.in_main + self.in_side
    }

    /// Those of the main ring.
    pub(crate) fn in_main(&self) -> u32 {
        self.in_main
    }

    /// Queues a request; `beside` if the main ring does not take it where it is polled.
    ///
    /// # Safety
    /// As [`Ring::push`].
    pub(crate) unsafe fn push_request(&mut self, entry: &squeue::Entry, beside: bool) -> io::Result<()> {
        let (ring, count) = match &mut self.side {
            Some(side) if beside => (side, &mut self.in_side),
            _ => (&mut self.main, &mut self.in_main),
        };
        // SAFETY: by the caller's promise.
        unsafe { ring.push(entry)? };
        // Counted only now: what was refused never completes.
        *count += 1;
        Ok(())
    }

    /// Queues something else that cannot be polled, such as a watch.
    ///
    /// # Safety
    /// As [`Ring::push`].
    pub(crate) unsafe fn push_beside(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: by the caller's promise.
        unsafe { self.side.as_mut().unwrap_or(&mut self.main).push(entry) }
    }

    /// Does the kernel pass messages from the ring that takes watches to other rings?
    pub(crate) fn passes_messages(&self) -> bool {
        self.passes_messages
    }

    /// The ring that takes watches, for a wait with nothing in the main ring.
    pub(crate) fn sleeper(&mut self) -> &mut Ring {
        self.side.as_mut().unwrap_or(&mut self.main)
    }

    /// Hands over what is queued and lets the kernel bring what is there, without waiting.
    pub(crate) fn look(&mut self, watching: bool) -> io::Result<()> {
        self.main.look()?;
        match &mut self.side {
            Some(side) if self.in_side > 0 || watching || side.pending() > 0 => side.look(),
            _ => Ok(()),
        }
    }

    /// Is there anything to reap?
    pub(crate) fn ready(&mut self) -> bool {
        self.main.ready() || self.side.as_mut().is_some_and(Ring::ready)
    }

    /// Is there anything to reap, or will there be after a call?
    pub(crate) fn has_news(&mut self) -> bool {
        [Some(&mut self.main), self.side.as_mut()].into_iter().flatten().any(|ring| ring.ready() || ring.has_work())
    }

    /// Hands over what is queued, without looking for completions.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        self.main.submit()?;
        self.side.as_mut().map_or(Ok(()), Ring::submit)
    }

    /// Must both rings be looked at?
    pub(crate) fn side_in_use(&self, watching: bool) -> bool {
        self.side.is_some() && (self.in_side > 0 || watching)
    }

    /// Takes every completion that is there: what it answers, its result, and whether a watch stays armed.
    pub(crate) fn reap(&mut self, mut each: impl FnMut(UserData, i32, bool)) {
        let rings = [(Some(&mut self.main), &mut self.in_main), (self.side.as_mut(), &mut self.in_side)];
        for (ring, count) in rings {
            let Some(ring) = ring else { continue };
            ring.reap(|user_data, result, more| {
                let answered = UserData::decode(user_data);
                if matches!(answered, UserData::Request(_)) {
                    *count -= 1;
                }
                each(answered, result, more);
            });
        }
    }

    /// Waits until the kernel holds no request, and discards the results. After an error the kernel may still use their memory.
    pub(crate) fn drain(&mut self) -> io::Result<()> {
        while self.requests() > 0 {
            let ring = match &mut self.side {
                Some(side) if self.in_main == 0 => side,
                _ => &mut self.main,
            };
            ring.enter(1, None, 0)?;
            self.reap(|_, _, _| {});
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    use dumbwaiter_block::RequestId;
    use io_uring::{opcode, types};

    use super::*;

    #[test]
    fn draining_waits_for_the_requests_of_both_rings() {
        for beside in [false, true] {
            let (reader, mut writer) = io::pipe().unwrap();
            let mut buffer = [0u8; 4];
            let make = |_| Ring::new(8, RingMode::Interrupt, false);
            let mut rings = Rings::new(RingMode::Interrupt, make).unwrap();
            rings.side = Some(make(RingMode::Interrupt).unwrap());
            let read = opcode::Read::new(types::Fd(reader.as_raw_fd()), buffer.as_mut_ptr(), 4).build();
            let read = read.user_data(UserData::Request(RequestId(3)).encode());
            // SAFETY: the buffer lives until the rings are drained, below.
            unsafe { rings.push_request(&read, beside).unwrap() };
            let written = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    written.store(true, Ordering::SeqCst);
                    writer.write_all(b"done").unwrap();
                });
                rings.drain().unwrap();
            });
            assert!(written.load(Ordering::SeqCst) && rings.requests() == 0);
            assert_eq!(&buffer, b"done", "the kernel is done with the buffer");
        }
    }

    #[test]
    fn what_the_ring_does_not_take_is_not_waited_for() {
        let make = |_| Ring::new(8, RingMode::Interrupt, false);
        let mut rings = Rings::new(RingMode::Interrupt, make).unwrap();
        rings.main.refuse_next_push = true;
        let entry = opcode::Nop::new().build().user_data(UserData::Request(RequestId(0)).encode());
        // SAFETY: it names no memory.
        unsafe { rings.push_request(&entry, false).unwrap_err() };
        // If it were counted before the push, `drain` would wait for it for ever.
        rings.drain().unwrap();
        // SAFETY: as above.
        unsafe { rings.push_request(&entry, false).unwrap() };
        assert_eq!(rings.requests(), 1);
        rings.drain().unwrap();
    }
}
