//! Random reads with a ring and nothing else: no block layer, no scheduler, no measurement of each I/O. It shows the limit
//! that a [`Disk`](crate::Disk) can reach.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;

use dumbwaiter_block::Nanos;
use io_uring::{opcode, squeue, types};

use crate::arena::Arena;
use crate::clock::Clock;
use crate::options::{Batching, batch};
use crate::ring::{Ring, RingMode, why_no_ring};
use crate::{Error, Target};

/// What was read.
#[derive(Clone, Copy, Debug)]
pub struct Bare {
    /// I/Os.
    pub ios: u64,
    /// Time from the first to the last.
    pub time: Nanos,
}

/// Reads at random places, with the same batching as a disk's.
struct Reader {
    arena: Arena,
    registered: bool,
    bytes: u32,
    places: u64,
    state: u64,
}

impl Reader {
    /// The next read, into the buffer of this slot.
    fn entry(&mut self, slot: u64) -> squeue::Entry {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let at = ((u128::from(self.state) * u128::from(self.places)) >> 64) as u64 * u64::from(self.bytes);
        let (file, address) = (types::Fixed(0), self.arena.address(slot as u32));
        let read = match self.registered {
            true => opcode::ReadFixed::new(file, address, self.bytes, 0).offset(at).build(),
            false => opcode::Read::new(file, address, self.bytes).offset(at).build(),
        };
        read.user_data(slot)
    }

    fn push(&mut self, ring: &mut Ring, slot: u64) -> std::io::Result<()> {
        let entry = self.entry(slot);
        // SAFETY: the arena lives until everything was reaped, or is leaked; each slot has one I/O at a time.
        unsafe { ring.push(&entry) }
    }
}

/// Keeps `depth` reads of `bytes` at random places under way for `time`.
pub fn read_at_random(target: &Target, depth: u32, bytes: u32, time: Nanos, seed: u64) -> Result<Bare, Error> {
    let failed = |source| Error::Ring { what: "the bare loop", source };
    let depth = depth.max(1);
    let arena = Arena::new(depth, bytes as usize).map_err(failed)?;
    let mut ring = Ring::new((depth + 8).next_power_of_two(), RingMode::Interrupt, false)
        .map_err(|e| Error::NoRing(why_no_ring(&e)))?;
    ring.register_file(target.file().as_raw_fd()).map_err(failed)?;
    // As a disk does: the limit of locked memory may be too low.
    let registered = ring.register_buffers(&arena).is_ok();
    let places = (target.facts().bytes / u64::from(bytes)).max(1);
    let mut reader = Reader { arena, registered, bytes, places, state: seed | 1 };
    let result = read_all(&mut reader, &mut ring, depth, time);
    if result.is_err() {
        // Reads may still be under way.
        reader.arena.leak();
    }
    result.map_err(failed)
}

fn read_all(reader: &mut Reader, ring: &mut Ring, depth: u32, time: Nanos) -> std::io::Result<Bare> {
    let clock = Clock::start();
    for slot in 0..u64::from(depth) {
        reader.push(ring, slot)?;
    }
    let mut done: Vec<(u64, i32)> = Vec::with_capacity(2 * depth as usize);
    let (mut ios, mut under_way, mut now, mut error) = (0u64, depth, Nanos::ZERO, None);
    while under_way > 0 {
        let service = Nanos(now.0 / (ios / u64::from(depth)).max(1));
        let (want, min_wait) = batch(ring, under_way, service, Batching::default());
        ring.submit()?;
        ring.enter(want, None, min_wait)?;
        now = clock.now();
        ring.reap(|slot, result, _| done.push((slot, result)));
        for (slot, result) in done.drain(..) {
            under_way -= 1;
            ios += 1;
            if result != reader.bytes as i32 {
                error = Some(std::io::Error::from_raw_os_error(if result < 0 { -result } else { libc::EIO }));
            }
            if now < time && error.is_none() {
                reader.push(ring, slot)?;
                under_way += 1;
            }
        }
    }
    error.map_or(Ok(Bare { ios, time: now }), Err)
}
