//! Random reads with a ring and nothing else, with their CPU time. What the engine costs is compared with it.

use dumbwaiter_block::Nanos;

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
    let read = dumbwaiter_path::bare::read_at_random(target.disk(), depth, bytes, time, seed)?;
    let usage = Usage::now().since(&before);
    let ios = read.ios as f64;
    Ok(Bare {
        iops: ios / read.time.as_secs_f64(),
        us_cpu_per_io: (usage.usr + usage.sys).as_us_f64() / ios,
        mean_us: read.time.as_us_f64() * f64::from(depth) / ios,
    })
}
