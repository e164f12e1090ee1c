//! Reads at random with a ring and nothing else: no block layer, no scheduler, no measurement of each I/O. What the engine
//! costs is held against it.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;

use dumbwaiter_block::Nanos;
use io_uring::{opcode, types};

use crate::arena::Arena;
use crate::clock::{Clock, Usage};
use crate::options::{Batching, batch};
use crate::ring::{Finding, Ring, why_no_ring};
use crate::{Error, Target};

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Bare {
    /// I/Os per second.
    pub iops: f64,
    /// CPU time of this program per I/O, us.
    pub us_cpu_per_io: f64,
    /// Mean latency, by Little's law, us.
    pub mean_us: f64,
}

/// Keeps `depth` reads of `bytes` at random places under way for `time`, with the same batching as the engine's.
pub fn read_at_random(target: &Target, depth: u32, bytes: u32, time: Nanos, seed: u64) -> Result<Bare, Error> {
    let failed = |source| Error::Ring { what: "the bare loop", source };
    let depth = depth.max(1);
    let arena = Arena::new(depth, bytes as usize).map_err(failed)?;
    let mut ring = Ring::new((depth + 8).next_power_of_two(), Finding::Interrupt, false)
        .map_err(|e| Error::NoRing(why_no_ring(&e)))?;
    ring.register_file(target.file().as_raw_fd()).map_err(failed)?;
    // As the engine does: the limit of locked memory may be too low.
    let registered = ring.register_buffers(&arena).is_ok();
    let places = (target.facts().bytes / u64::from(bytes)).max(1);
    let mut state = seed | 1;
    let mut entry = |slot: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = ((u128::from(state) * u128::from(places)) >> 64) as u64 * u64::from(bytes);
        let (file, address) = (types::Fixed(0), arena.address(slot as u32));
        let read = match registered {
            true => opcode::ReadFixed::new(file, address, bytes, 0).offset(at).build(),
            false => opcode::Read::new(file, address, bytes).offset(at).build(),
        };
        read.user_data(slot)
    };
    let before = Usage::now();
    let clock = Clock::start();
    for slot in 0..u64::from(depth) {
        // SAFETY: the arena lives until everything was reaped, below; each slot has one I/O at a time.
        unsafe { ring.push(&entry(slot)) }.map_err(failed)?;
    }
    let mut done: Vec<(u64, i32)> = Vec::with_capacity(2 * depth as usize);
    let (mut count, mut under_way) = (0u64, depth);
    let mut open = true;
    let mut now = Nanos::ZERO;
    let mut error = None;
    while under_way > 0 {
        let service = Nanos(now.0 / (count / u64::from(depth)).max(1));
        let (want, min_wait) = batch(&ring, under_way, service, Batching::default());
        let entered = ring.submit().and_then(|()| ring.enter(want, None, min_wait));
        if let Err(e) = entered {
            std::mem::forget(arena);
            return Err(failed(e));
        }
        now = clock.now();
        open &= now < time;
        ring.reap(|slot, result| done.push((slot, result)));
        for (slot, result) in done.drain(..) {
            under_way -= 1;
            count += 1;
            if result != bytes as i32 {
                error = Some(std::io::Error::from_raw_os_error((-result).max(libc::EIO)));
                open = false;
            }
            if open {
                under_way += 1;
                // SAFETY: as above; this slot's I/O was reaped.
                if let Err(e) = unsafe { ring.push(&entry(slot)) } {
                    std::mem::forget(arena);
                    return Err(failed(e));
                }
            }
        }
    }
    let usage = Usage::now().since(&before);
    match error {
        Some(e) => Err(failed(e)),
        None => Ok(Bare {
            iops: count as f64 / now.as_secs_f64(),
            us_cpu_per_io: (usage.usr + usage.sys).as_us_f64() / count as f64,
            mean_us: now.as_us_f64() * f64::from(depth) / count as f64,
        }),
    }
}
