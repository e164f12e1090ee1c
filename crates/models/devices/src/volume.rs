//! A cloud block volume: a fixed latency behind limits of I/Os and bytes per second, each with credits for bursts.
//!
//! Each limit is a token bucket: credits accrue at the baseline rate up to a maximum, and while there are any, I/O runs at the
//! burst rate. The volume starts with full buckets. A command larger than `io_kib` counts as several I/Os. Commands pass the
//! limits in the order of their arrival.

use dumbwaiter_block::{Nanos, Op};
use serde::{Deserialize, Serialize};

use crate::held::Held;
use crate::keys::{CAPACITY_SECTORS_MAX, Expect, Key, invalid};
use crate::kind::DeviceParams;
use crate::rng::Stage;
use crate::{Breakdown, Command, Completion, Counters, Device, Error, Facts, Submitted};

/// Parameters of a cloud block volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Size in 512-byte sectors.
    pub capacity_sectors: u64,
    /// Latency of a read within the limits, µs.
    pub latency_read_us: f64,
    /// Latency of a write within the limits, µs.
    pub latency_write_us: f64,
    /// Width of the uniform distribution of the latency, relative to its mean.
    pub jitter: f64,
    /// Spread of the latency: standard deviation of its logarithm; 0: uniform, of width `jitter`.
    pub latency_sigma: f64,
    /// Reads per second that are slow, however many there are: of blocks that no cache holds.
    pub slow_reads_per_s: f64,
    /// Largest share of slow reads.
    pub slow_share_max: f64,
    /// Median latency of a slow read, µs.
    pub slow_latency_us: f64,
    /// Standard deviation of its logarithm.
    pub slow_sigma: f64,
    /// Rate of one command's transfer, MB/s.
    pub link_mb_per_s: f64,
    /// Largest part of a command that counts as one I/O, KiB.
    pub io_kib: u32,
    /// Baseline, I/Os per second.
    pub iops: f64,
    /// Rate while there are I/O credits, I/Os per second.
    pub burst_iops: f64,
    /// Most I/O credits.
    pub burst_ios: f64,
    /// Baseline, MB/s.
    pub mb_per_s: f64,
    /// Rate while there are byte credits, MB/s.
    pub burst_mb_per_s: f64,
    /// Most byte credits, MB.
    pub burst_mb: f64,
    /// Latency of a command beyond the last sector, µs.
    pub t_err_us: f64,
    /// Hardware queues.
    pub queues: u16,
    /// Commands per hardware queue.
    pub queue_depth: u32,
    /// Largest command in sectors.
    pub max_sectors: u32,
}

/// Names and ranges of [`Params`].
pub const KEYS: &[Key] = &[
    Key { name: "capacity_sectors", expect: Expect::Int(8, CAPACITY_SECTORS_MAX), about: "size" },
    Key { name: "latency_read_us", expect: Expect::Num(0.0, 1e7), about: "read within the limits" },
    Key { name: "latency_write_us", expect: Expect::Num(0.0, 1e7), about: "write within the limits" },
    Key { name: "jitter", expect: Expect::Num(0.0, 2.0), about: "relative width of the latency's spread" },
    Key {
        name: "latency_sigma",
        expect: Expect::Num(0.0, 5.0),
        about: "deviation of the latency's logarithm, 0: by jitter",
    },
    Key { name: "slow_reads_per_s", expect: Expect::Num(0.0, 1e9), about: "reads that no cache holds" },
    Key { name: "slow_share_max", expect: Expect::Num(0.0, 1.0), about: "largest share of them" },
    Key { name: "slow_latency_us", expect: Expect::Num(0.0, 1e9), about: "their median latency" },
    Key { name: "slow_sigma", expect: Expect::Num(0.0, 5.0), about: "deviation of its logarithm" },
    Key { name: "link_mb_per_s", expect: Expect::Num(1.0, 1e6), about: "transfer of one command" },
    Key { name: "io_kib", expect: Expect::Int(1, 1 << 20), about: "largest part that counts as one I/O" },
    Key { name: "iops", expect: Expect::Num(1.0, 1e9), about: "baseline, I/Os per second" },
    Key { name: "burst_iops", expect: Expect::Num(1.0, 1e9), about: "rate while there are I/O credits" },
    Key { name: "burst_ios", expect: Expect::Num(0.0, 1e12), about: "most I/O credits" },
    Key { name: "mb_per_s", expect: Expect::Num(0.1, 1e6), about: "baseline, MB/s" },
    Key { name: "burst_mb_per_s", expect: Expect::Num(0.1, 1e6), about: "rate while there are byte credits" },
    Key { name: "burst_mb", expect: Expect::Num(0.0, 1e9), about: "most byte credits" },
    Key { name: "t_err_us", expect: Expect::Num(0.0, 1e7), about: "completion beyond the last sector" },
    Key { name: "queues", expect: Expect::Int(1, 1024), about: "hardware queues" },
    Key { name: "queue_depth", expect: Expect::Int(1, 65_536), about: "commands per hardware queue" },
    Key { name: "max_sectors", expect: Expect::Int(1, 65_536), about: "largest command" },
];

impl DeviceParams for Params {
    /// Those of a volume without a cache that reads may miss.
    const OPTIONAL: &[(&str, f64)] = &[
        ("latency_sigma", 0.0),
        ("slow_reads_per_s", 0.0),
        ("slow_share_max", 1.0),
        ("slow_latency_us", 0.0),
        ("slow_sigma", 0.0),
    ];

    fn checked(self, origin: &str) -> Result<Params, Error> {
        for (name, burst, base) in
            [("burst_iops", self.burst_iops, self.iops), ("burst_mb_per_s", self.burst_mb_per_s, self.mb_per_s)]
        {
            if burst < base {
                return Err(invalid(origin, name, burst, format!("at least the baseline, {base}")));
            }
        }
        Ok(self)
    }

    fn facts(&self) -> Facts {
        Facts {
            capacity_sectors: self.capacity_sectors,
            depth: u32::from(self.queues) * self.queue_depth,
            queues: self.queues,
            rotational: false,
            volatile_cache: false,
            fua: true,
            max_sectors: self.max_sectors,
        }
    }

    fn capacity_sectors(&mut self) -> &mut u64 {
        &mut self.capacity_sectors
    }

    fn build(&self, seed: u64) -> Box<dyn Device> {
        Box::new(Volume::new(self, seed))
    }
}

/// Credits that accrue at a rate up to a maximum. Kept as the time at which it is full again, in picoseconds.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    ps_per_unit: u64,
    /// Time that a full bucket covers.
    holds_ps: u128,
    full_at_ps: u128,
}

impl Bucket {
    fn new(per_second: f64, units: f64) -> Bucket {
        let ps_per_unit = (1e12 / per_second + 0.5).max(1.0) as u64;
        Bucket { ps_per_unit, holds_ps: (units * ps_per_unit as f64) as u128, full_at_ps: 0 }
    }

    /// When the next units may pass: when the bucket is not empty.
    fn opens_at(&self) -> Nanos {
        Nanos(self.full_at_ps.saturating_sub(self.holds_ps).div_ceil(1_000) as u64)
    }

    fn take(&mut self, now: Nanos, units: u64) {
        let now_ps = u128::from(now.0) * 1_000;
        self.full_at_ps = self.full_at_ps.max(now_ps) + u128::from(units) * u128::from(self.ps_per_unit);
    }
}

/// A limit with credits, and the rate above which even credits do not help.
#[derive(Clone, Copy, Debug)]
struct Limit {
    credits: Bucket,
    peak: Bucket,
}

impl Limit {
    fn new(baseline: f64, burst: f64, credits: f64) -> Limit {
        Limit { credits: Bucket::new(baseline, credits), peak: Bucket::new(burst, 0.0) }
    }

    fn opens_at(&self) -> Nanos {
        self.credits.opens_at().max(self.peak.opens_at())
    }

    fn take(&mut self, now: Nanos, units: u64) {
        self.credits.take(now, units);
        self.peak.take(now, units);
    }
}

/// A standard normal number for command `seq`.
fn normal(draw: Stage, seq: u64) -> f64 {
    let (a, b) = (draw.unit(2 * seq), draw.unit(2 * seq + 1));
    libm::sqrt(-2.0 * libm::log(1.0 - a)) * libm::cos(std::f64::consts::TAU * b)
}

/// Reads that no cache holds: as many per second, whatever the rate of all reads.
#[derive(Clone, Copy, Debug)]
struct Slow {
    mean_gap_ns: f64,
    share_max: f64,
    latency_us: f64,
    sigma: f64,
    /// The next read from here on is one.
    next: Nanos,
    gaps: Stage,
    shares: Stage,
    spread: Stage,
}

impl Slow {
    fn new(p: &Params, seed: u64) -> Slow {
        Slow {
            mean_gap_ns: if p.slow_reads_per_s > 0.0 { 1e9 / p.slow_reads_per_s } else { 0.0 },
            share_max: p.slow_share_max,
            latency_us: p.slow_latency_us,
            sigma: p.slow_sigma,
            next: Nanos::ZERO,
            gaps: Stage::new(seed, 3),
            shares: Stage::new(seed, 4),
            spread: Stage::new(seed, 5),
        }
    }

    /// The latency of command `seq`, if it is a slow read, µs.
    fn latency_us(&mut self, now: Nanos, seq: u64) -> Option<f64> {
        if self.mean_gap_ns == 0.0 || now < self.next {
            return None;
        }
        let gap = -libm::log(1.0 - self.gaps.unit(seq)) * self.mean_gap_ns;
        self.next = now + Nanos(gap as u64);
        let slow = self.shares.unit(seq) < self.share_max;
        slow.then(|| self.latency_us * libm::exp(self.sigma * normal(self.spread, seq)))
    }
}

/// A cloud block volume.
#[derive(Debug)]
pub struct Volume {
    facts: Facts,
    latency_us: [f64; 2],
    jitter: f64,
    sigma: f64,
    slow: Slow,
    ns_per_byte: f64,
    io_bytes: u64,
    ios: Limit,
    bytes: Limit,
    t_err: Nanos,
    draw: Stage,
    held: Held,
    counters: Counters,
}

impl Volume {
    /// An idle volume with all its credits.
    pub fn new(p: &Params, seed: u64) -> Volume {
        Volume {
            facts: p.facts(),
            latency_us: [p.latency_read_us, p.latency_write_us],
            jitter: p.jitter,
            sigma: p.latency_sigma,
            slow: Slow::new(p, seed),
            ns_per_byte: 1e3 / p.link_mb_per_s,
            io_bytes: u64::from(p.io_kib) * 1024,
            ios: Limit::new(p.iops, p.burst_iops, p.burst_ios),
            bytes: Limit::new(p.mb_per_s * 1e6, p.burst_mb_per_s * 1e6, p.burst_mb * 1e6),
            t_err: Nanos::from_us_f64(p.t_err_us),
            draw: Stage::new(seed, 1),
            held: Held::new(p.facts().depth),
            counters: Counters::default(),
        }
    }

    /// Completion time and breakdown of a read or write.
    fn transfer(&mut self, now: Nanos, bytes: u64, latency_us: f64, read: bool) -> (Nanos, Breakdown) {
        let start = now.max(self.ios.opens_at()).max(self.bytes.opens_at());
        self.ios.take(start, bytes.div_ceil(self.io_bytes).max(1));
        self.bytes.take(start, bytes);
        let seq = self.held.seq();
        let slow = if read { self.slow.latency_us(now, seq) } else { None };
        let spread = || match self.sigma {
            0.0 => 1.0 + self.jitter * (self.draw.unit(seq) - 0.5),
            sigma => libm::exp(sigma * normal(self.draw, seq)),
        };
        let firmware = Nanos::from_us_f64(slow.unwrap_or_else(|| latency_us * spread()));
        let link = Nanos((bytes as f64 * self.ns_per_byte + 0.5) as u64);
        self.counters.link_busy += link;
        let queue = start.since(now);
        (start + firmware + link, Breakdown { queue, firmware, link, ..Breakdown::default() })
    }
}

impl Device for Volume {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submitted {
        let Some(held) = self.held.admit(now) else { return Submitted::Busy };
        self.counters.count(command, held);
        let fixed = |latency| (now + latency, Breakdown { firmware: latency, ..Breakdown::default() });
        let failed = command.beyond(self.facts.capacity_sectors);
        let served = match command.op {
            _ if failed => fixed(self.t_err),
            Op::Read => self.transfer(now, command.bytes(), self.latency_us[0], true),
            Op::Write => self.transfer(now, command.bytes(), self.latency_us[1], false),
            // No volatile cache to flush; the host's view of a discard is one small I/O.
            Op::Flush | Op::Discard | Op::SecureErase | Op::WriteZeroes => {
                self.transfer(now, 0, self.latency_us[1], false)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_credits_and_then_its_rate() {
        let mut limit = Limit::new(100.0, 1_000.0, 50.0);
        let mut at = Nanos::ZERO;
        let mut passed = Vec::new();
        for _ in 0..200 {
            at = at.max(limit.opens_at());
            limit.take(at, 1);
            passed.push(at);
        }
        // 50 credits and those that accrue meanwhile, 1 ms apart; then 10 ms apart.
        let gap = |i: usize| passed[i + 1].since(passed[i]);
        assert_eq!(gap(10), Nanos::from_ms(1));
        assert_eq!(gap(49), Nanos::from_ms(1));
        assert_eq!(gap(150), Nanos::from_ms(10));
    }
}
