//! How a target is opened, and how its completions are taken.

use dumbwaiter_block::Nanos;

use crate::ring::Ring;

/// How a target is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Open for writing too: writes, discards and zeroing destroy what is on the target.
    pub allow_writes: bool,
    /// With writes on a device: claim it (`O_EXCL`), so that the kernel refuses one that is mounted or part of another.
    pub exclusive: bool,
    /// Largest request that merging may make, bytes; the device's own limit if that is less.
    pub max_request_bytes: u32,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions { direct: true, allow_writes: false, exclusive: true, max_request_bytes: 512 * 1024 }
    }
}

/// How long a completion may wait for others, so that one wake-up serves all of them.
///
/// The disk sleeps until an eighth of what the device holds is done, but two at least, which on a steady device takes an
/// eighth of its service time. It does so only with interrupts, at a depth of 8 or more, and while no descriptor is watched.
/// Where the mean service time is 1 ms or longer, one completion is enough after half of it, or after this limit. On faster
/// devices no timer is set, for it costs more than the wake-up that it guards: if such a device stalls on more than seven
/// eighths of its requests, the others are reported late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Never wait longer than this on a slow device; 0 wakes up for every completion of any.
    pub longest: Nanos,
}

impl Default for Batching {
    fn default() -> Batching {
        Batching { longest: Nanos::from_us(500) }
    }
}

/// The part of what the device holds that is taken together: one over this.
const PART: u32 = 8;
/// With fewer requests than this in the device each completion is taken by itself.
const FEW: u32 = 8;
/// The part of the mean service time after which one completion is enough: one over this.
const PATIENCE: u64 = 2;
/// Devices slower than this get a timer.
const SLOW: Nanos = Nanos::from_ms(1);

/// How many completions to wait for, and after how many microseconds one is enough (0: never).
pub(crate) fn batch(ring: &Ring, in_device: u32, service: Nanos, batching: Batching) -> (u32, u32) {
    let several = (in_device / PART).max(2);
    if in_device < FEW || ring.polled() || service == Nanos::ZERO || batching.longest == Nanos::ZERO {
        (1, 0)
    } else if service < SLOW {
        (several, 0)
    } else if ring.has_min_wait() {
        (several, (Nanos(service.0 / PATIENCE).min(batching.longest).0 / 1_000).max(1) as u32)
    } else {
        (1, 0)
    }
}
