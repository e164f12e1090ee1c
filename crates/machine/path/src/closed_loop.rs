//! A closed loop of single I/Os on a target, each timed: no block layer and no scheduler of ours. It measures the device itself, and shows
//! the limit that a [`Disk`](crate::Disk) can reach.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use dumbwaiter_block::{Nanos, Op, SECTOR_BYTES};
use io_uring::{opcode, squeue, types};

use crate::arena::Arena;
use crate::clock::Clock;
use crate::options::{Batching, batch};
use crate::ring::{Ring, RingMode, why_no_ring};
use crate::{Error, Target};

/// How often a wait is interrupted to look whether to stop.
const STOP_POLL_INTERVAL: Nanos = Nanos::from_ms(100);
/// A device that completes nothing for this long has failed.
const HANG_LIMIT: Nanos = Nanos::from_secs(30);
/// How long a stopped loop waits for the I/Os in flight.
const STOP_LIMIT: Nanos = Nanos::from_secs(2);

/// One I/O of the loop: a read, a write or a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Read, write or flush.
    pub op: Op,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Length in sectors; 0 for a flush.
    pub sectors: u32,
}

/// When the loop ends: at the time or the number of I/Os, whichever comes first, and not before `least_ios`.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// I/Os in flight.
    pub depth: u32,
    /// Largest I/O, in sectors.
    pub max_sectors: u32,
    /// Time from the first submission after which nothing more is submitted.
    pub time: Nanos,
    /// I/Os after which nothing more is submitted.
    pub ios: u64,
    /// I/Os that are submitted whatever time they take.
    pub least_ios: u64,
    /// Completions are taken together as by a disk; `None`: each as it arrives.
    pub batching: Option<Batching>,
}

/// A completed I/O; times count from the start of the loop.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// The I/O.
    pub access: Access,
    /// Submission.
    pub submitted: Nanos,
    /// Completion.
    pub completed: Nanos,
}

/// How a loop ended.
#[derive(Debug)]
pub struct Ended {
    /// CPU time of this thread over the loop, in the program and in the kernel.
    pub cpu: Nanos,
    /// The first I/O that failed, and why.
    pub failed: Option<(Access, io::Error)>,
    /// Whether `stop` ended it.
    pub stopped: bool,
}

/// Keeps `limits.depth` I/Os in flight; `next` gives each, and `each` gets every completed one, in order of completion. The
/// loop ends early when an I/O fails or `stop` becomes true; without `stop` nothing interrupts a wait.
///
/// # Errors
/// There is no ring, a call on it fails, or the device completes nothing for 30 s.
pub fn closed_loop(
    target: &Target,
    limits: Limits,
    stop: Option<&AtomicBool>,
    next: impl FnMut() -> Access,
    each: impl FnMut(Timed),
) -> Result<Ended, Error> {
    let failed = |source| Error::Ring { what: "the closed loop", source };
    let depth = limits.depth.max(1);
    let bytes = limits.max_sectors.max(1) as usize * SECTOR_BYTES as usize;
    let mut arena = Arena::new(depth, bytes).map_err(failed)?;
    arena.fill(1);
    let ring = Ring::new((depth + 8).next_power_of_two(), RingMode::Interrupt, false)
        .map_err(|e| Error::NoRing(why_no_ring(&e)))?;
    ring.register_file(target.file().as_raw_fd()).map_err(failed)?;
    let registered = ring.register_buffers(&arena).is_ok();
    let before = thread_cpu();
    let mut state = Loop { arena, registered, ring, next, each, slots: vec![None; 2 * depth as usize] };
    let result = state.run(limits, depth, stop);
    let in_flight = state.slots.iter().any(Option::is_some);
    if in_flight || result.is_err() {
        // I/Os may still write into it.
        state.arena.leak();
    }
    let (failure, stopped) = result.map_err(failed)?;
    Ok(Ended { cpu: thread_cpu().since(before), failed: failure, stopped })
}

struct Loop<N, E> {
    arena: Arena,
    registered: bool,
    ring: Ring,
    next: N,
    each: E,
    /// The I/O in flight by the slot of its buffer.
    slots: Vec<Option<(Access, Nanos)>>,
}

impl<N: FnMut() -> Access, E: FnMut(Timed)> Loop<N, E> {
    /// Queues the next I/O, at `time` or, if it is the first of its batch, now.
    fn submit(&mut self, clock: &Clock, time: &mut Option<Nanos>) -> io::Result<()> {
        let access = (self.next)();
        let time = *time.get_or_insert_with(|| clock.now());
        let bytes = access.sectors as usize * SECTOR_BYTES as usize;
        let slot = self.arena.take(bytes).ok_or_else(|| io::Error::other("no buffer is free"))?;
        let entry = self.entry(access, slot);
        self.slots[slot as usize] = Some((access, time));
        // SAFETY: the arena lives until every I/O was reaped, or is leaked; each slot has one I/O at a time.
        unsafe { self.ring.push(&entry) }
    }

    fn entry(&self, access: Access, slot: u32) -> squeue::Entry {
        let file = types::Fixed(0);
        let (address, bytes) = (self.arena.address(slot), access.sectors * SECTOR_BYTES as u32);
        let at = access.sector * SECTOR_BYTES;
        let fixed = self.registered && self.arena.is_registered(slot);
        let entry = match access.op {
            Op::Write if fixed => opcode::WriteFixed::new(file, address, bytes, 0).offset(at).build(),
            Op::Write => opcode::Write::new(file, address, bytes).offset(at).build(),
            Op::Flush => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
            _ if fixed => opcode::ReadFixed::new(file, address, bytes, 0).offset(at).build(),
            _ => opcode::Read::new(file, address, bytes).offset(at).build(),
        };
        entry.user_data(u64::from(slot))
    }

    fn run(
        &mut self,
        limits: Limits,
        depth: u32,
        stop: Option<&AtomicBool>,
    ) -> io::Result<(Option<(Access, io::Error)>, bool)> {
        let clock = Clock::start();
        let (mut submitted, mut in_flight, mut last) = (0u64, 0u32, Nanos::ZERO);
        let mut done: VecDeque<(u64, i32)> = VecDeque::with_capacity(2 * depth as usize);
        let mut failure = None;
        let mut stopped = None;
        loop {
            let now = clock.now();
            if stopped.is_none() && stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                stopped = Some(now);
            }
            let mut time = None;
            while failure.is_none()
                && stopped.is_none()
                && in_flight < depth
                && submitted < limits.ios
                && (submitted < limits.least_ios.max(1) || now < limits.time)
            {
                self.submit(&clock, &mut time)?;
                submitted += 1;
                in_flight += 1;
            }
            if in_flight == 0 || stopped.is_some_and(|at| now.since(at) > STOP_LIMIT) {
                return Ok((failure, stopped.is_some()));
            }
            let (want, min_wait_us) = limits.batching.map_or((1, 0), |batching| {
                let rounds = (submitted - u64::from(in_flight)) / u64::from(depth);
                batch(&self.ring, in_flight, Nanos(now.0 / rounds.max(1)), batching)
            });
            match self.ring.enter(want, stop.map(|_| STOP_POLL_INTERVAL), min_wait_us) {
                Err(e) if e.raw_os_error() == Some(libc::ETIME) => {}
                other => other?,
            }
            let now = clock.now();
            self.ring.reap(|slot, result, _| done.push_back((slot, result)));
            if done.is_empty() && now.since(last) > HANG_LIMIT {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the device completed nothing for 30 s"));
            }
            for (slot, result) in done.drain(..) {
                last = now;
                in_flight -= 1;
                self.arena.put(slot as u32);
                let Some((access, begun)) = self.slots[slot as usize].take() else { continue };
                let bytes = (u64::from(access.sectors) * SECTOR_BYTES) as i64;
                match result {
                    _ if i64::from(result) == bytes => {
                        (self.each)(Timed { access, submitted: begun, completed: now });
                    }
                    _ if failure.is_some() => {}
                    error if error < 0 => failure = Some((access, io::Error::from_raw_os_error(-error))),
                    short => {
                        let text = format!("only {short} of {bytes} bytes were transferred");
                        failure = Some((access, io::Error::other(text)));
                    }
                }
            }
        }
    }
}

/// CPU time of this thread so far.
fn thread_cpu() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives over the call, which cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
