//! A closed loop over one device without a host model: keeps a fixed number of commands outstanding.

use std::collections::VecDeque;

use dumbwaiter_block::{Nanos, Op, TenantId};

use crate::rng::Stage;
use crate::{Command, Completion, Counters, Device, Submitted};

/// The load of a closed loop.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Commands outstanding; commands that the device does not accept wait in a FIFO queue of the host.
    pub depth: u32,
    /// 512-byte sectors per command.
    pub sectors: u32,
    /// Fraction of reads, 0 to 1; the rest are writes.
    pub reads: f64,
    /// Sequential from `start`, else uniform over the span, aligned to the command's size.
    pub sequential: bool,
    /// First sector of the span.
    pub start: u64,
    /// Sectors of the span.
    pub span: u64,
    /// Commands completed before the measurement begins.
    pub warmup: u64,
    /// Commands measured.
    pub commands: u64,
    /// Seed of the addresses.
    pub seed: u64,
}

impl Job {
    /// Random 4 KiB reads over the first `span` sectors.
    pub fn reads_4k(depth: u32, span: u64, commands: u64) -> Job {
        let warmup = commands / 10 + u64::from(depth);
        Job { depth, sectors: 8, reads: 1.0, sequential: false, start: 0, span, warmup, commands, seed: 1 }
    }

    /// Random 4 KiB writes over the first `span` sectors.
    pub fn writes_4k(depth: u32, span: u64, commands: u64) -> Job {
        Job { reads: 0.0, ..Job::reads_4k(depth, span, commands) }
    }

    /// Sequential commands of `sectors`, reads or writes.
    pub fn sequential(depth: u32, sectors: u32, read: bool, span: u64, commands: u64) -> Job {
        let reads = if read { 1.0 } else { 0.0 };
        Job { sectors, reads, sequential: true, ..Job::reads_4k(depth, span, commands) }
    }
}

/// Figures of a closed loop.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Commands per second.
    pub iops: f64,
    /// 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Mean latency from the host's submission, µs.
    pub mean_us: f64,
    /// Median latency, µs.
    pub p50_us: f64,
    /// 99th percentile of the latency, µs.
    pub p99_us: f64,
    /// Relative difference between the depth and rate × mean latency (Little's law).
    pub little_error: f64,
    /// Commands whose breakdown does not sum to their latency; 0 unless the model is broken.
    pub unaccounted: u64,
    /// Counters of the device, warm-up included.
    pub counters: Counters,
}

/// Runs a job from virtual time 0 on a new device.
pub fn run(device: &mut dyn Device, job: &Job) -> Measurement {
    let (place, kind) = (Stage::new(job.seed, 1), Stage::new(job.seed, 2));
    let slots = (job.span / u64::from(job.sectors)).max(1);
    let ask = |n: u64, _tag: u32| {
        let slot = if job.sequential { n % slots } else { place.bits(n) % slots };
        let op = if kind.unit(n) < job.reads { Op::Read } else { Op::Write };
        (op, job.start + slot * u64::from(job.sectors), job.sectors)
    };
    run_with(device, job.depth, job.warmup, job.commands, ask)
}

/// Runs a closed loop of `depth` commands. `ask(n, tag)` gives operation, first sector and sectors of the n-th command,
/// which replaces the completed command with that tag.
pub fn run_with(
    device: &mut dyn Device,
    depth: u32,
    warmup: u64,
    commands: u64,
    mut ask: impl FnMut(u64, u32) -> (Op, u64, u32),
) -> Measurement {
    let mut next = 0u64;
    let mut make = |tag| {
        let (op, sector, sectors) = ask(next, tag);
        next += 1;
        Command { tag, op, fua: false, sector, sectors, queue: 0, tenant: TenantId(0) }
    };
    // Submission by the host and acceptance by the device.
    let mut asked = vec![Nanos::ZERO; depth as usize];
    let mut taken = vec![Nanos::ZERO; depth as usize];
    let mut bytes_of = vec![0u64; depth as usize];
    let mut host: VecDeque<Command> = (0..depth).map(&mut make).collect();
    let mut now = Nanos::ZERO;
    let mut done: Vec<Completion> = Vec::new();
    let mut latencies: Vec<Nanos> = Vec::with_capacity(commands as usize);
    let (mut completed, mut bytes, mut unaccounted) = (0, 0, 0);
    let mut began = Nanos::ZERO;
    'run: loop {
        while let Some(command) = host.front() {
            if device.submit(now, command) == Submitted::Busy {
                break;
            }
            taken[command.tag as usize] = now;
            bytes_of[command.tag as usize] = command.bytes();
            host.pop_front();
        }
        now = device.next_event().expect("commands are outstanding").max(now);
        device.advance(now, &mut done);
        for completion in done.drain(..) {
            let tag = completion.tag as usize;
            completed += 1;
            unaccounted += u64::from(completion.breakdown.sum() != completion.at.since(taken[tag]));
            if completed == warmup {
                began = completion.at;
            } else if completed > warmup {
                latencies.push(completion.at.since(asked[tag]));
                bytes += bytes_of[tag];
                if completed == warmup + commands {
                    break 'run;
                }
            }
            asked[tag] = completion.at;
            host.push_back(make(completion.tag));
        }
    }
    let seconds = now.since(began).as_secs_f64();
    let total: u128 = latencies.iter().map(|l| u128::from(l.0)).sum();
    let mean_us = total as f64 / latencies.len() as f64 / 1e3;
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize].as_us_f64();
    let iops = commands as f64 / seconds;
    Measurement {
        iops,
        mb_per_s: bytes as f64 / seconds / 1e6,
        mean_us,
        p50_us: at(0.5),
        p99_us: at(0.99),
        little_error: (iops * mean_us / 1e6 / f64::from(depth) - 1.0).abs(),
        unaccounted,
        counters: device.counters(),
    }
}
