//! Flash SSD: channels × dies behind firmware and a host link, with page mapping, garbage collection and a write
//! buffer.
//!
//! Each resource is a FIFO server with its own timeline; a command reserves all that it needs on arrival. A page
//! register stays occupied until the channel has sent its data, and channels and link send in command order, so that a
//! read delayed by a program delays the reads after it. On a die, reads precede programs that have not begun, and both
//! precede garbage collection, which uses idle gaps until free blocks run out.
//!
//! Choices that the sources leave open:
//! - Thresholds of garbage collection are fractions of the spare blocks, not of all blocks: 8 % of all blocks cannot be
//!   free with 6.9 % spare.
//! - Garbage collection moves data within the die (copy-back), with all planes at once.
//! - A partial 4 KiB unit costs what a whole one costs. Write-zeroes is a write without link time; discard and
//!   secure erase unmap whole units.

mod flash;
mod ftl;
mod kind;
mod params;
mod precondition;
mod streams;

use dumbwaiter_block::{Nanos, Op};

use self::flash::Flash;
use self::ftl::UNIT;
pub use self::params::{KEYS, Params};
use self::streams::Streams;
use crate::held::Held;
use crate::kind::DeviceParams;
use crate::{Breakdown, Command, Completion, Counters, Device, Facts, Submitted};

/// Sectors of a unit.
const UNIT_SECTORS: u64 = UNIT / 512;

/// Direction of a transfer over the host link.
#[derive(Clone, Copy, Debug)]
enum Direction {
    In = 0,
    Out = 1,
}

/// A flash SSD.
#[derive(Debug)]
pub struct Ssd {
    facts: Facts,
    queued_flush: bool,
    half_duplex: bool,
    firmware_read: Nanos,
    firmware_write: Nanos,
    latency_read: Nanos,
    latency_write: Nanos,
    link_command_ns: f64,
    link_ns_per_byte: f64,
    t_flush: Nanos,
    t_err: Nanos,
    t_idle_gc: Nanos,
    firmware_free: Nanos,
    link_free: [Nanos; 2],
    /// No command begins before this time: the end of a flush that is not queued.
    barrier: Nanos,
    /// Latest completion so far.
    last_completion: Nanos,
    last_arrival: Nanos,
    flash: Flash,
    streams: Streams,
    held: Held,
    counters: Counters,
}

impl Ssd {
    /// A device in its initial state. The model has no random numbers, so the seed has no effect.
    pub fn new(p: &Params, _seed: u64) -> Ssd {
        let us = Nanos::from_us_f64;
        let cached = p.cache == "on";
        let read_cache = if cached { (p.read_cache_mib * 1_048_576.0) as u64 / UNIT } else { 0 };
        let capacity_units = p.capacity_sectors / UNIT_SECTORS;
        Ssd {
            facts: p.facts(),
            queued_flush: p.interface == "nvme",
            half_duplex: p.duplex == "half",
            firmware_read: us(p.firmware_read_us),
            firmware_write: us(p.firmware_write_us),
            latency_read: us(p.latency_read_us),
            latency_write: us(p.latency_write_us),
            link_command_ns: p.link_command_us * 1e3,
            link_ns_per_byte: 1e3 / p.link_mb_per_s,
            t_flush: us(p.t_flush_ms * 1e3),
            t_err: us(p.t_err_us),
            t_idle_gc: us(p.t_idle_gc_ms * 1e3),
            firmware_free: Nanos::ZERO,
            link_free: [Nanos::ZERO; 2],
            barrier: Nanos::ZERO,
            last_completion: Nanos::ZERO,
            last_arrival: Nanos::ZERO,
            flash: Flash::new(p),
            streams: Streams::new(read_cache, u64::from(p.prefetch_kib) / 4, capacity_units),
            held: Held::new(p.facts().depth),
            counters: Counters::default(),
        }
    }

    /// Reserves the serial firmware from `at` on; returns the end and the wait.
    fn firmware(&mut self, at: Nanos, duration: Nanos) -> (Nanos, Nanos) {
        let start = at.max(self.firmware_free);
        self.firmware_free = start + duration;
        (self.firmware_free, start.since(at))
    }

    /// Reserves the host link from `at` on; returns the end of the transfer and the wait.
    fn link(&mut self, at: Nanos, bytes: u64, direction: Direction) -> (Nanos, Nanos) {
        let duration = Nanos((self.link_command_ns + bytes as f64 * self.link_ns_per_byte + 0.5) as u64);
        let free = &mut self.link_free[if self.half_duplex { 0 } else { direction as usize }];
        let start = at.max(*free);
        *free = start + duration;
        self.counters.link_busy += duration;
        (*free, start.since(at))
    }

    fn read(&mut self, now: Nanos, command: &Command) -> (Nanos, Breakdown) {
        let begin = now.max(self.barrier);
        let (firm, waited) = self.firmware(begin, self.firmware_read);
        let (from, to) = units(command);
        let ready = firm + self.latency_read;
        let mut breakdown =
            Breakdown { queue: begin.since(now) + waited, firmware: self.firmware_read, ..Breakdown::default() };
        let answer = self.streams.read(from, to);
        let buffered = || self.flash.buffers(from, to, firm);
        let arrived = if let Some(at) = answer.cached.or_else(|| buffered().then_some(firm)) {
            self.counters.cache_hits += 1;
            breakdown.media = at.since(firm);
            firm.max(at)
        } else {
            breakdown.firmware += self.latency_read;
            let fetched = self.flash.read(from, to, ready, &mut self.counters);
            breakdown.queue += fetched.queue;
            breakdown.media = fetched.media;
            breakdown.channel = fetched.channel;
            breakdown.gc_stall = fetched.gc_stall;
            fetched.at
        };
        if let Some(fetch) = answer.fetch {
            let fetched = self.flash.read(fetch.from, fetch.to, ready, &mut self.counters);
            self.streams.fetched(fetch, fetched.at);
        }
        let (end, waited) = self.link(arrived, command.bytes(), Direction::Out);
        breakdown.queue += waited;
        breakdown.link = end.since(arrived).since(waited);
        (end, breakdown)
    }

    fn write(&mut self, now: Nanos, command: &Command) -> (Nanos, Breakdown) {
        let begin = now.max(self.barrier);
        let (firm, waited) = self.firmware(begin, self.firmware_write);
        let mut breakdown = Breakdown {
            queue: begin.since(now) + waited,
            firmware: self.firmware_write + self.latency_write,
            ..Breakdown::default()
        };
        let mut arrived = firm;
        if command.op == Op::Write {
            let (end, waited) = self.link(firm, command.bytes(), Direction::In);
            breakdown.queue += waited;
            breakdown.link = end.since(firm).since(waited);
            arrived = end;
        }
        let (from, to) = units(command);
        let stored = self.flash.write(from, to, arrived, command.fua, &mut self.counters);
        breakdown.queue += stored.queue;
        breakdown.media = stored.media;
        breakdown.channel = stored.channel;
        breakdown.gc_stall = stored.gc_stall;
        (stored.at + self.latency_write, breakdown)
    }

    fn flush(&mut self, now: Nanos) -> (Nanos, Breakdown) {
        // Not queued: earlier commands finish first, and later ones wait.
        let begin = if self.queued_flush { now } else { now.max(self.barrier).max(self.last_completion) };
        let drained = self.flash.drain(begin, &mut self.counters);
        let end = drained.max(begin) + self.t_flush;
        if !self.queued_flush {
            self.barrier = end;
        }
        let breakdown = Breakdown {
            queue: begin.since(now),
            media: drained.since(begin),
            firmware: self.t_flush,
            ..Breakdown::default()
        };
        (end, breakdown)
    }

    fn discard(&mut self, now: Nanos, command: &Command) -> (Nanos, Breakdown) {
        let begin = now.max(self.barrier);
        let (firm, waited) = self.firmware(begin, self.firmware_write);
        let from = command.sector.div_ceil(UNIT_SECTORS);
        let to = (command.sector + u64::from(command.sectors)) / UNIT_SECTORS;
        self.flash.unmap(from, to);
        let firmware = self.firmware_write + self.latency_write;
        let breakdown = Breakdown { queue: begin.since(now) + waited, firmware, ..Breakdown::default() };
        (firm + self.latency_write, breakdown)
    }
}

/// The units of a command.
fn units(command: &Command) -> (u64, u64) {
    let end = command.sector + u64::from(command.sectors);
    (command.sector / UNIT_SECTORS, end.div_ceil(UNIT_SECTORS))
}

impl Device for Ssd {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submitted {
        let Some(held) = self.held.admit(now) else { return Submitted::Busy };
        self.counters.count(command, held);
        if now.since(self.last_arrival.max(self.last_completion)) > self.t_idle_gc {
            let idle = self.last_arrival.max(self.last_completion);
            self.flash.collect_idle(idle + self.t_idle_gc, now, &mut self.counters);
        }
        self.last_arrival = now;
        self.flash.pass(now, &mut self.counters);
        let failed = command.beyond(self.facts.capacity_sectors);
        let served = match command.op {
            _ if failed => (now + self.t_err, Breakdown { firmware: self.t_err, ..Breakdown::default() }),
            Op::Read => self.read(now, command),
            Op::Write | Op::WriteZeroes => self.write(now, command),
            Op::Flush => self.flush(now),
            Op::Discard | Op::SecureErase => self.discard(now, command),
        };
        self.last_completion = self.last_completion.max(served.0);
        self.held.accept(command, failed, served)
    }

    fn next_event(&self) -> Option<Nanos> {
        self.held.next()
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        self.held.drain(now, out);
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

/// Write amplification, (host writes + moves) / host writes, in the steady state of uniform overwrites.
pub(crate) fn steady_write_amplification(p: &Params) -> f64 {
    let mut ftl = ftl::Ftl::new(ftl::Shape::new(p), ftl::UNMAPPED);
    precondition::fill(&mut ftl);
    precondition::overwrite_until_steady(&mut ftl)
}
