//! Random reads with a ring and nothing else, with their CPU time. What the engine costs is compared with it.

use dumbwaiter_block::{Nanos, Op, SECTOR_BYTES};
use dumbwaiter_path::Batching;
use dumbwaiter_path::closed_loop::{Access, Limits, closed_loop};

use crate::drive::usage::Usage;
use crate::drive::{Error, Target};

/// The limit that a ring sets.
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
    let before = Usage::now();
    let sectors = bytes / SECTOR_BYTES as u32;
    let places = (target.disk().facts().bytes / u64::from(bytes)).max(1);
    let mut state = seed | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let place = ((u128::from(state) * u128::from(places)) >> 64) as u64;
        Access { op: Op::Read, sector: place * u64::from(sectors), sectors }
    };
    let batching = Some(Batching::default());
    let limits = Limits { depth, max_sectors: sectors, time, ios: u64::MAX, least_ios: 0, batching };
    let (mut ios, mut end) = (0u64, Nanos::ZERO);
    let ended = closed_loop(target.disk(), limits, None, next, |io| (ios, end) = (ios + 1, io.completed))?;
    if let Some((_, source)) = ended.failed {
        return Err(dumbwaiter_path::Error::Ring { what: "the bare loop", source }.into());
    }
    let usage = Usage::now().since(&before);
    let ios = ios as f64;
    Ok(Bare {
        iops: ios / end.as_secs_f64(),
        us_cpu_per_io: (usage.usr + usage.sys).as_us_f64() / ios,
        mean_us: end.as_us_f64() * f64::from(depth) / ios,
    })
}
