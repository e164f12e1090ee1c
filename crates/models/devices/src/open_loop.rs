//! Reads that arrive at random beside writes at a given rate, without a host model: what an application sees of a drive that others
//! use too.

use std::collections::VecDeque;

use dumbwaiter_block::{Nanos, Op, TenantId};

use crate::rng::Stage;
use crate::{Command, Completion, Device, Submitted};

/// The load: Poisson reads of 512 bytes anywhere, and a writer in order from sector 0.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Reads per second.
    pub reads_per_s: f64,
    /// Rate that the writer wants, MB/s; 0: no writer. It catches up at its depth.
    pub write_mb_per_s: f64,
    /// Sectors of a write.
    pub write_sectors: u32,
    /// Whether the writes go anywhere.
    pub random_writes: bool,
    /// Most writes outstanding.
    pub write_depth: u32,
    /// Before the measurement, and with it.
    pub warmup: Nanos,
    /// End of the run.
    pub end: Nanos,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Mixed {
    /// Quantiles of the reads' latency, µs.
    pub p50_us: f64,
    /// See `p50_us`.
    pub p95_us: f64,
    /// See `p50_us`.
    pub p99_us: f64,
    /// MB/s written.
    pub write_mb_per_s: f64,
}

struct Run<'a> {
    device: &'a mut dyn Device,
    mix: Mix,
    capacity: u64,
    gap: Stage,
    place: Stage,
    asked: Vec<(Nanos, Op)>,
    free: Vec<u32>,
    /// Commands that the drive has no room for, with the time at which they were asked.
    host: VecDeque<(Nanos, Command)>,
    next_read: f64,
    next_write: f64,
    reads: u64,
    writes: u64,
    writing: u32,
    latencies: Vec<Nanos>,
    written: u64,
}

impl Run<'_> {
    fn command(&mut self, op: Op, sector: u64, sectors: u32) -> Command {
        let tag = self.free.pop().unwrap_or(self.asked.len() as u32);
        if tag as usize == self.asked.len() {
            self.asked.push((Nanos::ZERO, op));
        }
        Command { tag, op, fua: false, sector, sectors, queue: 0, tenant: TenantId(0) }
    }

    /// What is due at `now` goes to the host's queue, and from there to the drive.
    fn submit(&mut self, now: Nanos) {
        while self.next_read as u64 <= now.0 {
            self.reads += 1;
            let sector = self.place.bits(2 * self.reads) % self.capacity;
            let command = self.command(Op::Read, sector, 1);
            self.host.push_back((now, command));
            self.next_read += self.gap_ns();
        }
        while self.mix.write_mb_per_s > 0.0 && self.writing < self.mix.write_depth && self.next_write as u64 <= now.0 {
            let n = u64::from(self.mix.write_sectors);
            let slots = self.capacity / n;
            let slot = if self.mix.random_writes { self.place.bits(2 * self.writes + 1) } else { self.writes } % slots;
            self.writes += 1;
            self.writing += 1;
            let command = self.command(Op::Write, slot * n, self.mix.write_sectors);
            self.host.push_back((now, command));
            self.next_write += n as f64 * 512e3 / self.mix.write_mb_per_s;
        }
        while let Some((asked, command)) = self.host.front() {
            if self.device.submit(now, command) == Submitted::Busy {
                break;
            }
            self.asked[command.tag as usize] = (*asked, command.op);
            self.host.pop_front();
        }
    }

    fn gap_ns(&self) -> f64 {
        -libm::log(1.0 - self.gap.unit(self.reads)) * 1e9 / self.mix.reads_per_s
    }

    /// The next time at which something happens.
    fn next(&self) -> u64 {
        let writes = self.mix.write_mb_per_s > 0.0 && self.writing < self.mix.write_depth;
        let write = if writes { self.next_write as u64 } else { u64::MAX };
        let device = self.device.next_event().map_or(u64::MAX, |at| at.0);
        device.min(write).min(self.next_read as u64)
    }
}

/// Runs a mix from virtual time 0 on a new device.
pub fn run(device: &mut dyn Device, mix: &Mix) -> Mixed {
    let capacity = device.facts().capacity_sectors;
    let (gap, place) = (Stage::new(1, 1), Stage::new(1, 2));
    let mut run = Run {
        device,
        mix: *mix,
        capacity,
        gap,
        place,
        asked: Vec::new(),
        free: Vec::new(),
        host: VecDeque::new(),
        next_read: 0.0,
        next_write: 0.0,
        reads: 0,
        writes: 0,
        writing: 0,
        latencies: Vec::new(),
        written: 0,
    };
    run.next_read = run.gap_ns();
    let mut done: Vec<Completion> = Vec::new();
    let mut now = Nanos::ZERO;
    while now < mix.end {
        now = now.max(Nanos(run.next()));
        run.device.advance(now, &mut done);
        for completion in done.drain(..) {
            run.free.push(completion.tag);
            let (asked, op) = run.asked[completion.tag as usize];
            let counts = completion.at >= mix.warmup;
            match op {
                Op::Read if counts => run.latencies.push(completion.at.since(asked)),
                Op::Read => {}
                _ => {
                    run.writing -= 1;
                    run.written += if counts { u64::from(mix.write_sectors) * 512 } else { 0 };
                }
            }
        }
        run.submit(now);
    }
    run.latencies.sort_unstable();
    let last = run.latencies.len().saturating_sub(1);
    let at = |share: f64| run.latencies.get((last as f64 * share) as usize).map_or(f64::NAN, |l| l.as_us_f64());
    let seconds = mix.end.since(mix.warmup).as_secs_f64();
    Mixed { p50_us: at(0.5), p95_us: at(0.95), p99_us: at(0.99), write_mb_per_s: run.written as f64 / seconds / 1e6 }
}
