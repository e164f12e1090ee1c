//! Ultra-low-latency SSD: unbuffered media channels, writes in place, and one cut-through host link.
//!
//! The 4 KiB chunks of a command go to consecutive channels. The link is one serial server that starts as soon as the
//! first chunk arrives: at depth 1 its time hides behind the media, at larger depths it limits the rate.

use dumbwaiter_block::{Nanos, Op};
use serde::{Deserialize, Serialize};

use crate::held::Held;
use crate::keys::{CAPACITY_SECTORS_MAX, Expect, Key};
use crate::kind::DeviceParams;
use crate::rng::{Stage, mix};
use crate::{Breakdown, Command, Completion, Counters, Device, Facts, Submitted};

/// Sectors of a chunk.
const CHUNK_SECTORS: u64 = 8;
/// Sectors of the largest command of the platform; larger commands are split.
const SPLIT_SECTORS: u32 = 256;
/// Shortest time from the arrival of the last chunk to the end of the transfer, nanoseconds.
const LAST_CHUNK_MIN: Nanos = Nanos(50);

/// Parameters of an ultra-low-latency SSD.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Size in 512-byte sectors.
    pub capacity_sectors: u64,
    /// Media channels.
    pub channels: u32,
    /// Latency from submission to the channel, µs.
    pub front_us: f64,
    /// Latency from the link to the completion, µs.
    pub back_us: f64,
    /// Media time of a 4 KiB read, µs.
    pub media_read_us: f64,
    /// Media time of a 4 KiB write, µs.
    pub media_write_us: f64,
    /// Width of the uniform distribution of the media time, relative to its mean.
    pub jitter: f64,
    /// Probability of a slow chunk.
    pub tail_probability: f64,
    /// Longest extra time of a slow chunk, µs.
    pub tail_us: f64,
    /// Link time per command, µs.
    pub link_command_us: f64,
    /// Link rate of reads, bytes per µs (= MB/s).
    pub link_read_mb_per_s: f64,
    /// Link rate of writes, bytes per µs (= MB/s).
    pub link_write_mb_per_s: f64,
    /// Latency of a command beyond the last sector, µs.
    pub t_err_us: f64,
    /// Hardware queues.
    pub queues: u16,
    /// Commands per hardware queue.
    pub queue_depth: u32,
}

/// Names and ranges of [`Params`].
pub const KEYS: &[Key] = &[
    Key { name: "capacity_sectors", expect: Expect::Int(8, CAPACITY_SECTORS_MAX), about: "size" },
    Key { name: "channels", expect: Expect::Int(1, 1024), about: "media channels" },
    Key { name: "front_us", expect: Expect::Num(0.0, 1e4), about: "from submission to the channel" },
    Key { name: "back_us", expect: Expect::Num(0.0, 1e4), about: "from the link to the completion" },
    Key { name: "media_read_us", expect: Expect::Num(0.0, 1e5), about: "media time of a 4 KiB read" },
    Key { name: "media_write_us", expect: Expect::Num(0.0, 1e5), about: "media time of a 4 KiB write" },
    Key { name: "jitter", expect: Expect::Num(0.0, 2.0), about: "relative width of the media time's spread" },
    Key { name: "tail_probability", expect: Expect::Num(0.0, 1.0), about: "share of slow chunks" },
    Key { name: "tail_us", expect: Expect::Num(0.0, 1e6), about: "largest extra time of a slow chunk" },
    Key { name: "link_command_us", expect: Expect::Num(0.0, 1e4), about: "link time per command" },
    Key { name: "link_read_mb_per_s", expect: Expect::Num(1.0, 1e6), about: "link rate of reads" },
    Key { name: "link_write_mb_per_s", expect: Expect::Num(1.0, 1e6), about: "link rate of writes" },
    Key { name: "t_err_us", expect: Expect::Num(0.0, 1e6), about: "completion beyond the last sector" },
    Key { name: "queues", expect: Expect::Int(1, 1024), about: "hardware queues" },
    Key { name: "queue_depth", expect: Expect::Int(1, 65_536), about: "commands per hardware queue" },
];

impl DeviceParams for Params {
    fn facts(&self) -> Facts {
        Facts {
            capacity_sectors: self.capacity_sectors,
            depth: u32::from(self.queues) * self.queue_depth,
            queues: self.queues,
            rotational: false,
            volatile_cache: false,
            fua: true,
            max_sectors: SPLIT_SECTORS,
        }
    }

    fn capacity_sectors(&mut self) -> &mut u64 {
        &mut self.capacity_sectors
    }

    fn build(&self, seed: u64) -> Box<dyn Device> {
        Box::new(Ull::new(self, seed))
    }

    fn nvme(&self) -> bool {
        true
    }
}

/// Constants of one direction, reads or writes.
#[derive(Clone, Copy, Debug)]
struct Direction {
    media_us: f64,
    us_per_byte: f64,
    link_4k: Nanos,
}

/// An ultra-low-latency SSD.
#[derive(Debug)]
pub struct Ull {
    facts: Facts,
    front: Nanos,
    back: Nanos,
    t_err: Nanos,
    jitter: f64,
    tail_probability: f64,
    tail_us: f64,
    link_command_us: f64,
    ways: [Direction; 2],
    media_draw: Stage,
    tail_draw: Stage,
    channel_free: Vec<Nanos>,
    channels: u64,
    link_free: Nanos,
    chunk_seq: u64,
    held: Held,
    counters: Counters,
}

impl Ull {
    /// An idle device.
    pub fn new(params: &Params, seed: u64) -> Ull {
        let direction = |media_us, rate: f64| Direction {
            media_us,
            us_per_byte: 1.0 / rate,
            link_4k: Nanos::from_us_f64(params.link_command_us + 4096.0 / rate),
        };
        Ull {
            facts: params.facts(),
            front: Nanos::from_us_f64(params.front_us),
            back: Nanos::from_us_f64(params.back_us),
            t_err: Nanos::from_us_f64(params.t_err_us),
            jitter: params.jitter,
            tail_probability: params.tail_probability,
            tail_us: params.tail_us,
            link_command_us: params.link_command_us,
            ways: [
                direction(params.media_read_us, params.link_read_mb_per_s),
                direction(params.media_write_us, params.link_write_mb_per_s),
            ],
            media_draw: Stage::new(seed, 1),
            tail_draw: Stage::new(seed, 2),
            channel_free: vec![Nanos::ZERO; params.channels as usize],
            channels: u64::from(params.channels),
            link_free: Nanos::ZERO,
            chunk_seq: 0,
            held: Held::new(params.facts().depth),
            counters: Counters::default(),
        }
    }

    /// Transfers at most [`SPLIT_SECTORS`] sectors that arrived at `now`; returns the completion time and the breakdown.
    fn transfer(
        &mut self,
        now: Nanos,
        sector: u64,
        sectors: u32,
        direction: Direction,
        linked: bool,
    ) -> (Nanos, Breakdown) {
        let ready = now + self.front;
        let chunks = u64::from(sectors).div_ceil(CHUNK_SECTORS).max(1);
        let mut channel = mix(sector / CHUNK_SECTORS) % self.channels;
        let (mut first, mut last, mut last_start) = (Nanos::MAX, Nanos::ZERO, Nanos::ZERO);
        for _ in 0..chunks {
            let bits = self.media_draw.unit(self.chunk_seq);
            let mut us = direction.media_us * (1.0 + self.jitter * (bits - 0.5));
            let tail = self.tail_draw.unit(self.chunk_seq);
            if tail < self.tail_probability {
                // A draw below the probability, divided by it, is again uniform.
                us += self.tail_us * (tail / self.tail_probability);
            }
            self.chunk_seq += 1;
            let free = &mut self.channel_free[channel as usize];
            let start = ready.max(*free);
            let media = Nanos::from_us_f64(us);
            let done = start + media;
            *free = done;
            self.counters.media_busy += media;
            first = first.min(done);
            if done > last {
                (last, last_start) = (done, start);
            }
            channel += 1;
            if channel == self.channels {
                channel = 0;
            }
        }
        let (mut end, mut link_wait) = (last + LAST_CHUNK_MIN, Nanos::ZERO);
        if linked {
            let bytes = (u64::from(sectors) * 512).max(4096);
            let duration = if bytes == 4096 {
                direction.link_4k
            } else {
                Nanos::from_us_f64(self.link_command_us + bytes as f64 * direction.us_per_byte)
            };
            let wanted = first.since(direction.link_4k);
            let start = wanted.max(self.link_free);
            end = end.max(start + duration);
            link_wait = start.since(wanted).min(end.since(last));
            self.link_free = start + duration;
            self.counters.link_busy += duration;
        }
        let breakdown = Breakdown {
            queue: last_start.since(ready) + link_wait,
            media: last.since(last_start),
            link: end.since(last).since(link_wait),
            firmware: self.front + self.back,
            ..Breakdown::default()
        };
        (end + self.back, breakdown)
    }
}

impl Device for Ull {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submitted {
        let Some(held) = self.held.admit(now) else { return Submitted::Busy };
        self.counters.count(command, held);
        let failed = command.beyond(self.facts.capacity_sectors);
        let fixed = |latency| (now + latency, Breakdown { firmware: latency, ..Breakdown::default() });
        let direction = match command.op {
            _ if failed => None,
            Op::Read => Some((self.ways[0], true)),
            Op::Write => Some((self.ways[1], true)),
            Op::WriteZeroes => Some((self.ways[1], false)),
            // There is no volatile cache to flush and no mapping to discard.
            Op::Flush | Op::Discard | Op::SecureErase => None,
        };
        let served = match direction {
            None => fixed(if failed { self.t_err } else { self.front + self.back }),
            Some((direction, linked)) => {
                let mut latest = (Nanos::ZERO, Breakdown::default());
                let (mut sector, mut left) = (command.sector, command.sectors);
                loop {
                    let piece = left.min(SPLIT_SECTORS);
                    let done = self.transfer(now, sector, piece, direction, linked);
                    if done.0 > latest.0 {
                        latest = done;
                    }
                    left -= piece;
                    sector += u64::from(piece);
                    if left == 0 {
                        break latest;
                    }
                }
            }
        };
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
