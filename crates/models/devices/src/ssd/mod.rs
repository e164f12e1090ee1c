//! Flash SSD: channels × dies behind firmware and a host link, with page mapping, garbage collection and a write
//! buffer.
//!
//! A command goes through queues, each served when its turn comes: firmware, dies, channels, link. Nothing is reserved for the
//! future, so what is asked later may go first: a read before programs that wait for its die. On a die, reads precede programs that
//! have not begun, within bounds, and may suspend one; garbage collection is a debt of each die.
//!
//! Choices that the sources leave open:
//! - Thresholds of garbage collection are fractions of the spare blocks, not of all blocks: 8 % of all blocks cannot be
//!   free with 6.9 % spare.
//! - Garbage collection moves data within the die (copy-back), with all planes at once.
//! - A partial 4 KiB unit costs what a whole one costs. Write-zeroes is a write without link time; discard and
//!   secure erase unmap whole units.

mod arbitration;
mod buffer;
mod calls;
mod channel;
mod collection;
mod commands;
mod die;
mod events;
mod flash;
mod ftl;
mod kind;
mod params;
mod precondition;
mod steps;
mod streams;
mod task;
mod transfers;
mod work;
mod writes;

use std::collections::VecDeque;

use dumbwaiter_block::Nanos;

use self::arbitration::Unfetched;
use self::events::Events;
use self::flash::Flash;
use self::ftl::UNIT;
pub use self::params::{KEYS, Params};
use self::streams::Streams;
use self::task::{Barrier, Task};
use crate::kind::DeviceParams;
use crate::outbox::Outbox;
use crate::{Command, Counters, Facts};

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
    /// Serial time of each unit of a read but the first, and latency that a read of more than one has in addition.
    further_unit_ns: f64,
    latency_large: Nanos,
    firmware_free: Nanos,
    link_free: [Nanos; 2],
    /// Latest completion so far.
    last_completion: Nanos,
    last_arrival: Nanos,
    flash: Flash,
    streams: Streams,
    events: Events,
    /// Commands in the drive, and fetches of streams.
    tasks: Vec<Task>,
    free_tasks: Vec<u32>,
    /// Commands whose completion is not known yet.
    unresolved: u32,
    /// Commands that the controller works on at once, how many it does, and those that wait.
    slots: u32,
    active: u32,
    unfetched: Unfetched,
    /// Of a drive that sends in order: the tasks from number `first_send` on, and whether each may use the link.
    in_order: bool,
    sends: VecDeque<(u32, bool)>,
    first_send: u64,
    /// Flushes with the program before which all must have ended, in order of arrival.
    flushes: VecDeque<(u32, u64)>,
    /// The flush that is not queued, and the commands behind it.
    barrier: Option<Barrier>,
    behind: VecDeque<u32>,
    seq: u64,
    inside: u32,
    outbox: Outbox,
    counters: Counters,
}

impl Ssd {
    /// A device in its initial state. The model has no random numbers, so the seed has no effect.
    pub fn new(p: &Params, _seed: u64) -> Ssd {
        let us = Nanos::from_us_f64;
        let cached = p.cache == "on";
        let read_cache = if cached { (p.read_cache_mib * 1_048_576.0) as u64 / UNIT } else { 0 };
        let capacity_units = p.capacity_sectors / UNIT_SECTORS;
        let flash = Flash::new(p);
        // What was never written needs no cells.
        let sends = flash.least_transfer();
        let reads = if p.state == "empty" { Nanos::ZERO } else { flash.least_read() + sends };
        let events = Events::new([reads, sends]);
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
            further_unit_ns: p.firmware_further_us * 1e3,
            latency_large: us(p.latency_large_read_us),
            firmware_free: Nanos::ZERO,
            link_free: [Nanos::ZERO; 2],
            last_completion: Nanos::ZERO,
            last_arrival: Nanos::ZERO,
            flash,
            streams: Streams::new(read_cache, u64::from(p.prefetch_kib) / 4, capacity_units),
            events,
            tasks: Vec::new(),
            free_tasks: Vec::new(),
            unresolved: 0,
            slots: if p.slots > 0.0 { p.slots as u32 } else { u32::MAX },
            active: 0,
            unfetched: Unfetched::default(),
            in_order: p.in_order,
            sends: VecDeque::new(),
            first_send: 0,
            flushes: VecDeque::new(),
            barrier: None,
            behind: VecDeque::new(),
            seq: 0,
            inside: 0,
            outbox: Outbox::default(),
            counters: Counters::default(),
        }
    }
}

/// The units of a command.
fn units(command: &Command) -> (u64, u64) {
    let end = command.sector + u64::from(command.sectors);
    (command.sector / UNIT_SECTORS, end.div_ceil(UNIT_SECTORS))
}

/// Write amplification, (host writes + moves) / host writes, in the steady state of uniform overwrites.
pub(crate) fn steady_write_amplification(p: &Params) -> f64 {
    let mut ftl = ftl::Ftl::new(ftl::Shape::new(p), ftl::UNMAPPED);
    precondition::fill(&mut ftl);
    precondition::overwrite_until_steady(&mut ftl, precondition::units_at_once(p))
}
