//! A device of fixed latency and unlimited parallelism, to measure the cost of the host alone.

use std::collections::VecDeque;
use std::sync::Arc;

use dumbwaiter_block::{Nanos, Op, Request, ServiceOracle};
use serde::{Deserialize, Serialize};

use crate::held::Held;
use crate::keys::{CAPACITY_SECTORS_MAX, Expect, Key};
use crate::kind::DeviceParams;
use crate::{Breakdown, Command, Completion, Counters, Device, Facts, Submitted};

/// Parameters of a null device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Latency from submission to completion, nanoseconds.
    pub latency_ns: u64,
    /// Latency of a command beyond the last sector, nanoseconds.
    pub t_err_ns: u64,
    /// Queue depth.
    pub depth: u32,
    /// Commands that it works on at once, in the order of their arrival; 0: all that it holds.
    pub channels: u32,
    /// A loop device on a machine with one CPU: time for which preparing 4 KiB of a write keeps its worker from starting the next
    /// command, microseconds.
    pub page_cpu_us: f64,
    /// Has it a volatile write cache, which a flush empties: 0 or 1?
    pub write_cache: u32,
    /// Hardware queues.
    pub queues: u16,
    /// Size in 512-byte sectors.
    pub capacity_sectors: u64,
    /// Largest command in sectors.
    pub max_sectors: u32,
}

/// Names and ranges of [`Params`].
pub const KEYS: &[Key] = &[
    Key { name: "latency_ns", expect: Expect::Int(0, 60_000_000_000), about: "submission to completion" },
    Key { name: "t_err_ns", expect: Expect::Int(0, 60_000_000_000), about: "the same beyond the last sector" },
    Key { name: "depth", expect: Expect::Int(1, 1 << 20), about: "commands held at once" },
    Key { name: "channels", expect: Expect::Int(0, 1 << 20), about: "commands worked on at once; 0: all" },
    Key {
        name: "page_cpu_us",
        expect: Expect::Num(0.0, 1000.0),
        about: "of a loop device on one CPU: for so long preparing 4 KiB of a write keeps it from starting the next command",
    },
    Key { name: "write_cache", expect: Expect::Int(0, 1), about: "volatile write cache" },
    Key { name: "queues", expect: Expect::Int(1, 1024), about: "hardware queues" },
    Key { name: "capacity_sectors", expect: Expect::Int(1, CAPACITY_SECTORS_MAX), about: "size" },
    Key { name: "max_sectors", expect: Expect::Int(1, 1 << 20), about: "largest command" },
];

impl DeviceParams for Params {
    const OPTIONAL: &[(&str, f64)] = &[("page_cpu_us", 0.0)];

    fn facts(&self) -> Facts {
        Facts {
            capacity_sectors: self.capacity_sectors,
            depth: self.depth,
            queues: self.queues,
            rotational: false,
            volatile_cache: self.write_cache > 0,
            fua: true,
            max_sectors: self.max_sectors,
        }
    }

    fn capacity_sectors(&mut self) -> &mut u64 {
        &mut self.capacity_sectors
    }

    fn build(&self, _seed: u64) -> Box<dyn Device> {
        Box::new(Null::new(self))
    }

    fn oracle(&self, _seed: u64) -> Option<Arc<dyn ServiceOracle>> {
        Some(Arc::new(self.clone()))
    }
}

impl ServiceOracle for Params {
    fn service(&self, _now: Nanos, _position: u64, _request: &Request) -> Nanos {
        Nanos(self.latency_ns)
    }
}

/// A null device.
#[derive(Debug)]
pub struct Null {
    params: Params,
    held: Held,
    /// When each channel is free.
    free_at: std::collections::BinaryHeap<std::cmp::Reverse<Nanos>>,
    /// Commands of a loop device that have not begun.
    waiting: VecDeque<Waiting>,
    /// CPU time of preparing 4 KiB, and until when writes are prepared.
    page_cpu: Nanos,
    prepares: Nanos,
    counters: Counters,
}

/// After so long the scheduler of tasks gives the worker of a loop device the CPU.
const SLICE: Nanos = Nanos::from_us(3_000);

/// A command of a loop device that waits for a channel and for the device's worker.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: Nanos,
    command: Command,
    failed: bool,
}

impl Null {
    /// An idle device.
    pub fn new(params: &Params) -> Null {
        let params = params.clone();
        let channels = if params.channels < params.depth { params.channels } else { 0 };
        let free_at = (0..channels).map(|_| std::cmp::Reverse(Nanos::ZERO)).collect();
        let page_cpu = Nanos::from_us_f64(params.page_cpu_us);
        Null {
            held: Held::new(params.depth),
            free_at,
            params,
            waiting: VecDeque::new(),
            page_cpu,
            prepares: Nanos::ZERO,
            counters: Counters::default(),
        }
    }

    fn latency(&self, failed: bool) -> Nanos {
        Nanos(if failed { self.params.t_err_ns } else { self.params.latency_ns })
    }

    /// When the next command of a loop device begins, as far as is known now.
    fn next_start(&self) -> Option<Nanos> {
        let first = self.waiting.front()?;
        let could = self.free_at.peek()?.0.max(first.since);
        Some(could.max(self.prepares.min(could + SLICE)))
    }

    /// Begins what begins by `now`.
    fn start(&mut self, now: Nanos) {
        while let Some(at) = self.next_start().filter(|at| *at <= now) {
            let Some(Waiting { since, command, failed }) = self.waiting.pop_front() else { return };
            let latency = self.latency(failed);
            if let Some(mut free) = self.free_at.peek_mut() {
                free.0 = at + latency;
            }
            let breakdown = Breakdown { queue: at.since(since), firmware: latency, ..Breakdown::default() };
            self.held.accept(&command, failed, (at + latency, breakdown));
        }
    }
}

impl Device for Null {
    fn facts(&self) -> Facts {
        self.params.facts()
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submitted {
        let Some(held) = self.held.admit(now) else { return Submitted::Busy };
        self.counters.count(command, held);
        let failed = command.beyond(self.params.capacity_sectors);
        if self.page_cpu > Nanos::ZERO && !self.free_at.is_empty() {
            self.start(now);
            if command.op == Op::Write {
                let cpu = Nanos(command.bytes().div_ceil(4096) * self.page_cpu.0);
                self.prepares = self.prepares.max(now) + cpu;
            }
            self.waiting.push_back(Waiting { since: now, command: *command, failed });
            self.start(now);
            return Submitted::Accepted;
        }
        let latency = self.latency(failed);
        let mut starts = now;
        if let Some(mut free) = self.free_at.peek_mut() {
            starts = now.max(free.0);
            free.0 = starts + latency;
        }
        let breakdown = Breakdown { queue: starts.since(now), firmware: latency, ..Breakdown::default() };
        self.held.accept(command, failed, (starts + latency, breakdown))
    }

    fn next_event(&self) -> Option<Nanos> {
        match (self.held.next(), self.next_start()) {
            (Some(done), Some(start)) => Some(done.min(start)),
            (done, start) => done.or(start),
        }
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        self.start(now);
        self.held.drain(now, out);
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl Command {
    /// Length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.sectors) * 512
    }

    /// Whether it reaches beyond the last sector. A flush has no sectors.
    pub(crate) fn beyond(&self, capacity_sectors: u64) -> bool {
        self.op != Op::Flush
            && self.sector.checked_add(u64::from(self.sectors)).is_none_or(|end| end > capacity_sectors)
    }
}

impl Counters {
    /// Counts since `earlier`; `max_depth` is that of the whole time.
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            flushes: self.flushes - earlier.flushes,
            discards: self.discards - earlier.discards,
            read_bytes: self.read_bytes - earlier.read_bytes,
            write_bytes: self.write_bytes - earlier.write_bytes,
            cache_hits: self.cache_hits - earlier.cache_hits,
            media_busy: self.media_busy.since(earlier.media_busy),
            link_busy: self.link_busy.since(earlier.link_busy),
            gc_runs: self.gc_runs - earlier.gc_runs,
            gc_moved_pages: self.gc_moved_pages - earlier.gc_moved_pages,
            max_depth: self.max_depth,
        }
    }

    /// Counts of this device and another together; `max_depth` is that of the one that held more.
    #[must_use]
    pub fn plus(&self, other: &Counters) -> Counters {
        Counters {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            flushes: self.flushes + other.flushes,
            discards: self.discards + other.discards,
            read_bytes: self.read_bytes + other.read_bytes,
            write_bytes: self.write_bytes + other.write_bytes,
            cache_hits: self.cache_hits + other.cache_hits,
            media_busy: self.media_busy + other.media_busy,
            link_busy: self.link_busy + other.link_busy,
            gc_runs: self.gc_runs + other.gc_runs,
            gc_moved_pages: self.gc_moved_pages + other.gc_moved_pages,
            max_depth: self.max_depth.max(other.max_depth),
        }
    }

    /// Counts an accepted command; `held` commands are in the device with it.
    pub(crate) fn count(&mut self, command: &Command, held: u32) {
        match command.op {
            Op::Read => {
                self.reads += 1;
                self.read_bytes += command.bytes();
            }
            Op::Write => {
                self.writes += 1;
                self.write_bytes += command.bytes();
            }
            Op::Flush => self.flushes += 1,
            Op::Discard | Op::SecureErase | Op::WriteZeroes => self.discards += 1,
        }
        self.max_depth = self.max_depth.max(held);
    }
}

#[cfg(test)]
mod tests {
    use dumbwaiter_block::TenantId;

    use super::*;

    fn write(tag: u32, sectors: u32) -> Command {
        Command { tag, op: Op::Write, fua: false, sector: 0, sectors, queue: 0, tenant: TenantId(0) }
    }

    #[test]
    fn writes_that_are_prepared_keep_a_loop_device_from_its_next_command() {
        let text = "base = \"null:0us\"\nlatency_ns = 1000000\ndepth = 128\nchannels = 1\npage_cpu_us = 10";
        let mut device = crate::parse(text, "loop", "").unwrap().build(0);
        let mut done = Vec::new();
        // Each takes 0.16 ms of CPU; the first begins after all ten.
        (0..10).for_each(|tag| assert_eq!(device.submit(Nanos::ZERO, &write(tag, 128)), Submitted::Accepted));
        while let Some(at) = device.next_event() {
            device.advance(at, &mut done);
        }
        let ends: Vec<u64> = done.iter().map(|c| c.at.0 / 100_000).collect();
        assert_eq!(ends, (0..10).map(|i| 26 + 10 * i).collect::<Vec<_>>());
        // With a hundred it gets the CPU after 3 ms.
        let from = Nanos::from_secs(1);
        done.clear();
        (0..100).for_each(|tag| assert_eq!(device.submit(from, &write(tag, 128)), Submitted::Accepted));
        while let Some(at) = device.next_event() {
            device.advance(at, &mut done);
        }
        let ends: Vec<u64> = done.iter().map(|c| c.at.since(from).0 / 1_000_000).collect();
        assert_eq!(ends[..5], [4, 8, 12, 16, 17]);
    }
}
