//! The contract between the driver above and any device below.

use dumbwaiter_block::{Nanos, Op, TenantId};

/// One command as the driver hands it to the device.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The driver's number, handed back at completion.
    pub tag: u32,
    /// What to do.
    pub op: Op,
    /// Must be on stable media at completion.
    pub fua: bool,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u32,
    /// Submission queue it arrives on.
    pub queue: u16,
    /// The tenant it is for.
    pub tenant: TenantId,
}

/// Answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// The device has it and will complete it.
    Accepted,
    /// Every slot is taken; try again after a completion.
    Busy,
}

/// Where the time of a command went. The parts sum to completion − submission exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Waiting inside the device.
    pub queue: Nanos,
    /// Arm movement.
    pub seek: Nanos,
    /// Waiting for the sector to come round.
    pub rotation: Nanos,
    /// Media transfer, cell read or program.
    pub media: Nanos,
    /// Flash channel.
    pub channel: Nanos,
    /// Host link.
    pub link: Nanos,
    /// Firmware and command overhead.
    pub firmware: Nanos,
    /// Waiting for garbage collection.
    pub gc_stall: Nanos,
}

impl Breakdown {
    /// All parts together.
    pub fn sum(&self) -> Nanos {
        let Breakdown { queue, seek, rotation, media, channel, link, firmware, gc_stall } = *self;
        queue + seek + rotation + media + channel + link + firmware + gc_stall
    }
}

/// A finished command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// [`Command::tag`].
    pub tag: u32,
    /// When it finished.
    pub at: Nanos,
    /// The device refused it (beyond the last sector).
    pub failed: bool,
    /// Where the time went.
    pub breakdown: Breakdown,
}

/// What the block layer must know of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Size in 512-byte sectors.
    pub capacity_sectors: u64,
    /// Commands it holds at once, all queues together; also the driver's tags.
    pub depth: u32,
    /// Hardware queues.
    pub queues: u16,
    /// Has it a moving arm?
    pub rotational: bool,
    /// Has it a volatile write cache (flushes mean something)?
    pub volatile_cache: bool,
    /// Does it understand FUA?
    pub fua: bool,
    /// Largest command in sectors.
    pub max_sectors: u32,
}

/// What a device counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Flush commands.
    pub flushes: u64,
    /// Discards and write-zeroes.
    pub discards: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Reads served from a cache or buffer.
    pub cache_hits: u64,
    /// Time the media (arm, or all dies together) was busy.
    pub media_busy: Nanos,
    /// Time the host link was busy.
    pub link_busy: Nanos,
    /// Garbage collections.
    pub gc_runs: u64,
    /// Pages moved by garbage collection.
    pub gc_moved_pages: u64,
    /// Most commands held at once.
    pub max_depth: u32,
}

/// A simulated block device.
pub trait Device: Send {
    /// What the block layer must know.
    fn facts(&self) -> Facts;
    /// Hands a command over at `now`; time never goes back between calls.
    fn submit(&mut self, now: Nanos, command: &Command) -> Submitted;
    /// When something next happens inside, if anything will.
    fn next_event(&self) -> Option<Nanos>;
    /// Lets time pass up to and including `now` and appends what finished, in order. Calling it at other
    /// times, or more often, changes nothing.
    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>);
    /// What it counted.
    fn counters(&self) -> Counters;
}
