//! The interface between the driver and a simulated device.

use dumbwaiter_block::{Nanos, Op, TenantId};

/// A command from the driver.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The driver's tag, returned with the completion.
    pub tag: u32,
    /// The operation.
    pub op: Op,
    /// Force unit access: the data is on stable media at completion.
    pub fua: bool,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u32,
    /// Hardware queue it arrives on.
    pub queue: u16,
    /// The tenant it belongs to.
    pub tenant: TenantId,
}

/// Answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// The device accepted it and will complete it.
    Accepted,
    /// The queue is full; try again after a completion.
    Busy,
}

/// Breakdown of the latency of a command. The parts sum to completion − submission exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Queueing in the device.
    pub queue: Nanos,
    /// Seek.
    pub seek: Nanos,
    /// Rotational latency.
    pub rotation: Nanos,
    /// Media transfer, cell read or program.
    pub media: Nanos,
    /// Flash channel.
    pub channel: Nanos,
    /// Host link.
    pub link: Nanos,
    /// Firmware and command overhead.
    pub firmware: Nanos,
    /// Delay by garbage collection.
    pub gc_stall: Nanos,
}

impl Breakdown {
    /// Sum of all parts.
    pub fn sum(&self) -> Nanos {
        let Breakdown { queue, seek, rotation, media, channel, link, firmware, gc_stall } = *self;
        queue + seek + rotation + media + channel + link + firmware + gc_stall
    }
}

/// A completed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// [`Command::tag`].
    pub tag: u32,
    /// Time of completion.
    pub at: Nanos,
    /// The command failed (beyond the last sector).
    pub failed: bool,
    /// Breakdown of its latency.
    pub breakdown: Breakdown,
}

/// Properties of a device that the block layer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Size in 512-byte sectors.
    pub capacity_sectors: u64,
    /// Queue depth over all hardware queues; also the number of driver tags.
    pub depth: u32,
    /// Hardware queues.
    pub queues: u16,
    /// Whether it is a rotational device.
    pub rotational: bool,
    /// Whether it has a volatile write cache, which flushes empty.
    pub volatile_cache: bool,
    /// Whether it supports FUA.
    pub fua: bool,
    /// Largest command in sectors.
    pub max_sectors: u32,
}

/// Counters of a device since its start.
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
    /// Largest number of commands held at once.
    pub max_depth: u32,
}

/// A simulated block device.
pub trait Device: Send {
    /// Properties for the block layer.
    fn facts(&self) -> Facts;
    /// Submits a command at `now`; times do not decrease between calls.
    fn submit(&mut self, now: Nanos, command: &Command) -> Submitted;
    /// Submits a command in a class: 0 high, 1 medium, 2 low. A device without classes ignores it.
    fn submit_in_class(&mut self, now: Nanos, command: &Command, class: u8) -> Submitted {
        let _ = class;
        self.submit(now, command)
    }
    /// Sets the weights of its classes, high, medium and low; `None`: there is one class. A device without classes ignores it.
    fn set_class_weights(&mut self, weights: Option<[u32; 3]>) {
        let _ = weights;
    }
    /// Time of the next internal event, if there is one.
    fn next_event(&self) -> Option<Nanos>;
    /// Advances the device up to and including `now` and appends the completions, in order of time. The cadence of
    /// calls does not change the result.
    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>);
    /// Counters since the start.
    fn counters(&self) -> Counters;
}
