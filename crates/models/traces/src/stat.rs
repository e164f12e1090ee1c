//! Statistics of a trace: mix, sizes, arrivals, locality, footprint, measured times. One pass in bounded memory.

use std::collections::{BTreeMap, BTreeSet};

use dumbwaiter_block::{Dir, Op, SECTOR_BYTES};
use serde::Serialize;

use super::error::Error;
use super::footprint::Footprint;
use super::histogram::Histogram;
use super::reader::TraceReader;
use super::record::{Known, Record, Skipped};
use super::replay::STOP_CHECK_RECORDS;

/// Largest distance between the end of a request and the start of a near one, in sectors (128 KiB).
const NEAR_SECTORS: u64 = 256;
/// Streams of `sequential_32_share`.
const STREAMS: usize = 32;
/// Most devices with streams of their own, and most distinct sizes that are counted.
const DISTINCT_MAX: usize = 1 << 16;
/// Most distinct tasks that are counted.
const REPLAY_TASKS_MAX: usize = 1 << 20;
/// Most points of the time series.
const POINTS_MAX: usize = 512;

/// Options of the statistics.
#[derive(Clone, Copy, Debug)]
pub struct StatOptions {
    /// Size of a footprint block, bytes; by default 4096.
    pub footprint_block: u64,
    /// Stop after this many records.
    pub limit: Option<u64>,
}

impl Default for StatOptions {
    fn default() -> StatOptions {
        StatOptions { footprint_block: 4096, limit: None }
    }
}

/// Statistics of a trace. Figures that the trace does not allow are `null` in JSON. Shares are 0 to 1.
#[derive(Clone, Debug, Serialize)]
pub struct TraceStat {
    /// Format it was read as.
    pub format: String,
    /// Number of requests.
    pub records: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of other requests: flushes, discards, …
    pub others: u64,
    /// Bytes of reads and writes.
    pub bytes: Option<u64>,
    /// Time from the first arrival to the last, s.
    pub duration_s: Option<f64>,
    /// Mean size of a read, bytes.
    pub mean_read_bytes: Option<f64>,
    /// Mean size of a write, bytes.
    pub mean_write_bytes: Option<f64>,
    /// Share of requests that start exactly at the end of the previous request on the device.
    pub sequential_share: Option<f64>,
    /// Bytes of distinct blocks (by default 4 KiB) that are read or written.
    pub footprint_bytes: Option<u64>,
    /// Bytes of distinct blocks that are read.
    pub read_footprint_bytes: Option<u64>,
    /// Bytes of distinct blocks that are written.
    pub write_footprint_bytes: Option<u64>,
    /// Share of records that are reads.
    pub read_share: f64,
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Bytes written.
    pub write_bytes: Option<u64>,
    /// Median and 95th percentile of the size of reads, bytes.
    pub read_size: Option<Quantiles>,
    /// Median and 95th percentile of the size of writes, bytes.
    pub write_size: Option<Quantiles>,
    /// The commonest sizes, at most eight.
    pub commonest_sizes: Vec<SizeShare>,
    /// Mean requests per second.
    pub mean_iops: Option<f64>,
    /// Most requests in a bin of 1 s from the first arrival on.
    pub peak_iops_1s: Option<u64>,
    /// Index of dispersion: variance / mean of the counts in bins of 1 s (1 for Poisson arrivals).
    pub idc: Option<f64>,
    /// Share of the bins of 1 s that contain a request.
    pub busy_share: Option<f64>,
    /// Times between arrivals.
    pub inter_arrival: Option<InterArrival>,
    /// Share of requests that start within 128 KiB of the end of the previous request on the device.
    pub near_share: Option<f64>,
    /// Share of requests that start at the end of one of the last 32 requests on the device.
    pub sequential_32_share: Option<f64>,
    /// Share of reads that start at the end of the previous read on the device.
    pub read_read_sequential_share: Option<f64>,
    /// Share of writes that start at the end of the previous write on the device.
    pub write_write_sequential_share: Option<f64>,
    /// Share of block writes to blocks written earlier in the trace.
    pub rewrite_share: Option<f64>,
    /// The first byte after the highest request.
    pub highest_byte: u64,
    /// Share of starts at a multiple of 4 KiB.
    pub aligned_share: f64,
    /// Distinct devices; `null` if the trace names none.
    pub devices: Option<u64>,
    /// Distinct tasks; `null` if the trace names none.
    pub tasks: Option<u64>,
    /// Share of the address space sampled for footprint and rewrites; below 1 they are estimates.
    pub footprint_sampled: f64,
    /// Measured times, if the trace has them.
    pub latency: Vec<Measured>,
    /// Requests over time, for plotting.
    pub over_time: Option<OverTime>,
    /// Fields that the trace lacks: `time`, `size`.
    pub missing: Vec<String>,
    /// Choices and assumptions.
    pub notes: Vec<String>,
    /// Records skipped, by reason.
    pub skipped: Vec<Skipped>,
    /// Records changed, by reason.
    pub changed: Vec<Skipped>,
}

/// Percentiles of sizes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quantiles {
    /// Median, bytes.
    pub p50_bytes: f64,
    /// 95th percentile, bytes.
    pub p95_bytes: f64,
}

/// A request size with its share.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SizeShare {
    /// Size in bytes.
    pub bytes: u64,
    /// Share of reads and writes with this size.
    pub share: f64,
}

/// Times between arrivals, µs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct InterArrival {
    /// Mean, µs.
    pub mean_us: f64,
    /// Coefficient of variation: standard deviation / mean.
    pub cv: f64,
    /// 10th percentile, µs.
    pub p10_us: f64,
    /// Median, µs.
    pub p50_us: f64,
    /// 90th percentile, µs.
    pub p90_us: f64,
    /// 99th percentile, µs.
    pub p99_us: f64,
    /// Longest, µs.
    pub max_us: f64,
    /// Share of arrivals at the same time as the previous one.
    pub zero_share: f64,
}

/// A measured time of one operation, µs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measured {
    /// `wait` (arrival to device), `device` (device to completion) or `latency` (arrival to completion).
    pub what: &'static str,
    /// `read` or `write`.
    pub op: &'static str,
    /// Requests with this measurement.
    pub count: u64,
    /// Mean, µs.
    pub mean_us: f64,
    /// Median, µs.
    pub p50_us: f64,
    /// 99th percentile, µs.
    pub p99_us: f64,
}

/// Counts in equal intervals from the first arrival on, at most 512.
#[derive(Clone, Debug, Serialize)]
pub struct OverTime {
    /// Length of an interval, s.
    pub interval_s: f64,
    /// Reads in each interval.
    pub reads: Vec<u64>,
    /// Writes in each interval.
    pub writes: Vec<u64>,
    /// Bytes read and written in each interval.
    pub bytes: Vec<u64>,
}

/// Ends of recent requests of one device.
struct Ends {
    last: Option<u64>,
    /// Ends of the last read and the last write.
    by_dir: [Option<u64>; 2],
    ring: [u64; STREAMS],
    at: usize,
}

/// Computes the statistics record by record.
pub struct StatBuilder {
    records: u64,
    by_op: [Histogram; 2],
    sums: [u64; 2],
    sizes: BTreeMap<u32, u64>,
    gaps: Histogram,
    gap_square: f64,
    zero_gaps: u64,
    last: u64,
    second: Bins,
    ends: Vec<Ends>,
    devices: BTreeMap<u32, usize>,
    last_device: (u32, usize),
    sequential: u64,
    near: u64,
    of_streams: u64,
    same_dir: [u64; 2],
    /// Requests with a predecessor on their device, and with one of the same direction.
    followers: u64,
    dir_followers: [u64; 2],
    placed: u64,
    aligned: u64,
    highest: u64,
    tasks: BTreeSet<u32>,
    last_task: Option<u32>,
    footprint: Footprint,
    /// wait, device, latency × read, write
    measured: [[Histogram; 2]; 3],
    time_series: TimeSeries,
}

/// Counts of the bins of 1 s, closed one by one as time advances.
#[derive(Default)]
struct Bins {
    bin: u64,
    count: u64,
    most: u64,
    busy: u64,
    squares: f64,
}

impl Bins {
    fn add(&mut self, bin: u64) {
        if bin != self.bin {
            self.close();
            self.bin = bin;
        }
        self.count += 1;
    }

    fn close(&mut self) {
        self.most = self.most.max(self.count);
        self.busy += u64::from(self.count > 0);
        self.squares += self.count as f64 * self.count as f64;
        self.count = 0;
    }
}

/// Counts over time in at most [`POINTS_MAX`] intervals, whose length doubles as time advances.
struct TimeSeries {
    interval: u64,
    points: Vec<[u64; 3]>,
}

impl TimeSeries {
    fn add(&mut self, time: u64, dir: Dir, bytes: u64) {
        while time / self.interval >= POINTS_MAX as u64 {
            let half = self.points.len().div_ceil(2);
            for i in 0..half {
                let b = self.points.get(2 * i + 1).copied().unwrap_or_default();
                let a = self.points[2 * i];
                self.points[i] = [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
            }
            self.points.truncate(half);
            self.interval *= 2;
        }
        let at = (time / self.interval) as usize;
        if self.points.len() <= at {
            self.points.resize(at + 1, [0; 3]);
        }
        self.points[at][dir as usize] += 1;
        self.points[at][2] += bytes;
    }
}

impl StatBuilder {
    /// An empty builder.
    pub fn new(options: &StatOptions) -> StatBuilder {
        StatBuilder {
            records: 0,
            by_op: Default::default(),
            sums: [0; 2],
            sizes: BTreeMap::new(),
            gaps: Histogram::default(),
            gap_square: 0.0,
            zero_gaps: 0,
            last: 0,
            second: Bins::default(),
            ends: Vec::new(),
            devices: BTreeMap::new(),
            last_device: (0, usize::MAX),
            sequential: 0,
            near: 0,
            of_streams: 0,
            same_dir: [0; 2],
            followers: 0,
            dir_followers: [0; 2],
            placed: 0,
            aligned: 0,
            highest: 0,
            tasks: BTreeSet::new(),
            last_task: None,
            footprint: Footprint::new(options.footprint_block),
            measured: Default::default(),
            time_series: TimeSeries { interval: 1_000_000, points: Vec::new() },
        }
    }

    /// Adds a record.
    pub fn add(&mut self, r: &Record) {
        let time = r.time.0;
        if self.records > 0 {
            let gap = time.saturating_sub(self.last);
            self.gaps.add(gap);
            self.gap_square += gap as f64 * gap as f64;
            self.zero_gaps += u64::from(gap == 0);
        }
        self.last = time;
        self.records += 1;
        self.second.add(time / 1_000_000_000);
        if self.last_task != Some(r.task) && self.tasks.len() < REPLAY_TASKS_MAX {
            self.tasks.insert(r.task);
            self.last_task = Some(r.task);
        }
        if r.op != Op::Flush {
            self.place(r);
        }
        let dir = match r.op {
            Op::Read => 0,
            Op::Write => 1,
            _ => return,
        };
        self.by_op[dir].add(u64::from(r.sectors));
        self.sums[dir] = self.sums[dir].saturating_add(r.bytes());
        if self.sizes.len() < DISTINCT_MAX || self.sizes.contains_key(&r.sectors) {
            *self.sizes.entry(r.sectors).or_default() += 1;
        }
        self.footprint.touch(r.device, r.sector, r.sectors, dir == 1);
        self.time_series.add(time, Dir::BOTH[dir], r.bytes());
        let device = r.latency.zip(r.wait).and_then(|(l, w)| l.0.checked_sub(w.0));
        for (what, ns) in [r.wait.map(|n| n.0), device, r.latency.map(|n| n.0)].into_iter().enumerate() {
            if let Some(ns) = ns {
                self.measured[what][dir].add(ns);
            }
        }
    }

    /// Counts the position of a record.
    fn place(&mut self, r: &Record) {
        self.placed += 1;
        self.aligned += u64::from(r.sector.is_multiple_of(8));
        self.highest = self.highest.max(r.end());
        if self.last_device.1 == usize::MAX || self.last_device.0 != r.device {
            let next = self.ends.len();
            let at = match self.devices.get(&r.device) {
                Some(at) => *at,
                None if next >= DISTINCT_MAX => next - 1,
                None => {
                    self.devices.insert(r.device, next);
                    self.ends.push(Ends { last: None, by_dir: [None; 2], ring: [u64::MAX; STREAMS], at: 0 });
                    next
                }
            };
            self.last_device = (r.device, at);
        }
        let ends = &mut self.ends[self.last_device.1];
        self.followers += u64::from(ends.last.is_some());
        self.sequential += u64::from(ends.last == Some(r.sector));
        self.near += u64::from(ends.last.is_some_and(|e| e.abs_diff(r.sector) <= NEAR_SECTORS));
        self.of_streams += u64::from(ends.ring.contains(&r.sector));
        if let Op::Read | Op::Write = r.op {
            let dir = r.op.dir() as usize;
            self.dir_followers[dir] += u64::from(ends.by_dir[dir].is_some());
            self.same_dir[dir] += u64::from(ends.by_dir[dir] == Some(r.sector));
            ends.by_dir[dir] = Some(r.end());
        }
        ends.last = Some(r.end());
        ends.ring[ends.at % STREAMS] = r.end();
        ends.at = (ends.at + 1) % STREAMS;
    }

    /// The `most` commonest sizes of reads and writes.
    fn commonest_sizes(&self, most: usize) -> Vec<SizeShare> {
        let total = (self.by_op[0].count() + self.by_op[1].count()) as f64;
        let mut common: Vec<(u32, u64)> = self.sizes.iter().map(|(s, c)| (*s, *c)).collect();
        common.sort_by_key(|(size, count)| (std::cmp::Reverse(*count), *size));
        common.truncate(most);
        let share = |(sectors, count): (u32, u64)| SizeShare {
            bytes: u64::from(sectors) * SECTOR_BYTES,
            share: count as f64 / total,
        };
        common.into_iter().map(share).collect()
    }

    /// Measured times by phase and operation.
    fn measured(&self) -> Vec<Measured> {
        let mut latency = Vec::new();
        for (what, both) in ["wait", "device", "latency"].into_iter().zip(&self.measured) {
            for (op, h) in ["read", "write"].into_iter().zip(both) {
                let us = |x: Option<f64>| x.unwrap_or(0.0) / 1000.0;
                if h.count() > 0 {
                    let (mean_us, p50_us, p99_us) = (us(h.mean()), us(h.quantile(0.5)), us(h.quantile(0.99)));
                    latency.push(Measured { what, op, count: h.count(), mean_us, p50_us, p99_us });
                }
            }
        }
        latency
    }

    /// Times between arrivals; `None` with fewer than two.
    fn inter_arrival(&self) -> Option<InterArrival> {
        self.gaps.mean().map(|mean| {
            let q = |q| self.gaps.quantile(q).unwrap_or(0.0) / 1000.0;
            let gaps = self.gaps.count() as f64;
            let variance = (self.gap_square / gaps - mean * mean).max(0.0);
            InterArrival {
                mean_us: mean / 1000.0,
                cv: if mean > 0.0 { variance.sqrt() / mean } else { 0.0 },
                p10_us: q(0.1),
                p50_us: q(0.5),
                p90_us: q(0.9),
                p99_us: q(0.99),
                max_us: self.gaps.max() as f64 / 1000.0,
                zero_share: self.zero_gaps as f64 / gaps,
            }
        })
    }

    fn over_time(&self) -> OverTime {
        OverTime {
            interval_s: self.time_series.interval as f64 / 1e9,
            reads: self.time_series.points.iter().map(|p| p[0]).collect(),
            writes: self.time_series.points.iter().map(|p| p[1]).collect(),
            bytes: self.time_series.points.iter().map(|p| p[2]).collect(),
        }
    }

    /// The statistics; `reader` contributes format, notes and counts.
    pub fn finish(mut self, reader: &TraceReader) -> TraceStat {
        self.second.close();
        let Known { times, sizes, devices, tasks } = reader.known();
        let n = self.records as f64;
        let [reads, writes] = [self.by_op[0].count(), self.by_op[1].count()];
        let share = |count: u64, of: u64| (of > 0).then(|| count as f64 / of as f64);
        let when = |known: bool| move |x: Option<f64>| x.filter(|_| known);
        let size = |h: &Histogram| {
            let (p50, p95) = h.quantile(0.5).zip(h.quantile(0.95)).filter(|_| sizes)?;
            Some(Quantiles { p50_bytes: p50 * SECTOR_BYTES as f64, p95_bytes: p95 * SECTOR_BYTES as f64 })
        };
        let mean = |h: &Histogram| when(sizes)(h.mean().map(|m| m * SECTOR_BYTES as f64));
        let duration = self.last as f64 / 1e9;
        let bins = (self.second.bin + 1) as f64;
        let per_bin = n / bins;
        let [touched, read, written] = self.footprint.bytes();
        let mut notes = reader.notes().to_vec();
        if self.footprint.sampled() < 1.0 {
            let share = self.footprint.sampled();
            notes.push(format!("footprint and rewrites are estimated from {share} of the address space"));
        }
        TraceStat {
            format: reader.format().name().into(),
            records: self.records,
            reads,
            writes,
            others: self.records - reads - writes,
            bytes: sizes.then(|| self.sums[0].saturating_add(self.sums[1])),
            duration_s: times.then_some(duration),
            mean_read_bytes: mean(&self.by_op[0]),
            mean_write_bytes: mean(&self.by_op[1]),
            sequential_share: when(sizes)(share(self.sequential, self.followers)),
            footprint_bytes: sizes.then_some(touched),
            read_footprint_bytes: sizes.then_some(read),
            write_footprint_bytes: sizes.then_some(written),
            read_share: share(reads, self.records).unwrap_or(0.0),
            read_bytes: sizes.then_some(self.sums[0]),
            write_bytes: sizes.then_some(self.sums[1]),
            read_size: size(&self.by_op[0]),
            write_size: size(&self.by_op[1]),
            commonest_sizes: if sizes { self.commonest_sizes(8) } else { Vec::new() },
            mean_iops: (times && duration > 0.0).then(|| n / duration),
            peak_iops_1s: times.then_some(self.second.most),
            idc: times.then(|| (self.second.squares / bins - per_bin * per_bin) / per_bin),
            busy_share: times.then(|| self.second.busy as f64 / bins),
            inter_arrival: self.inter_arrival().filter(|_| times),
            near_share: when(sizes)(share(self.near, self.followers)),
            sequential_32_share: when(sizes)(share(self.of_streams, self.placed)),
            read_read_sequential_share: when(sizes)(share(self.same_dir[0], self.dir_followers[0])),
            write_write_sequential_share: when(sizes)(share(self.same_dir[1], self.dir_followers[1])),
            rewrite_share: when(sizes)(self.footprint.rewritten()),
            highest_byte: self.highest.saturating_mul(SECTOR_BYTES),
            aligned_share: share(self.aligned, self.placed).unwrap_or(0.0),
            devices: devices.then_some(self.devices.len() as u64),
            tasks: tasks.then_some(self.tasks.len() as u64),
            footprint_sampled: self.footprint.sampled(),
            latency: self.measured(),
            over_time: times.then(|| self.over_time()),
            missing: reader.missing().into_iter().map(String::from).collect(),
            notes,
            skipped: reader.skipped(),
            changed: reader.changed(),
        }
    }
}

impl TraceStat {
    /// Reads a trace to its end (or to the limit) and computes its statistics.
    ///
    /// # Errors
    /// A read error of the trace.
    pub fn of(reader: &mut TraceReader, options: &StatOptions) -> Result<TraceStat, Error> {
        TraceStat::unless(reader, options, &|| false)
    }

    /// The same, given up once `stopped` answers yes.
    ///
    /// # Errors
    /// As [`TraceStat::of`], and [`Error::Interrupted`].
    pub fn unless(
        reader: &mut TraceReader,
        options: &StatOptions,
        stopped: &dyn Fn() -> bool,
    ) -> Result<TraceStat, Error> {
        let mut builder = StatBuilder::new(options);
        while options.limit.is_none_or(|l| builder.records < l) {
            if builder.records.is_multiple_of(STOP_CHECK_RECORDS) && stopped() {
                return Err(Error::Interrupted);
            }
            let Some(record) = reader.next_record()? else { break };
            builder.add(&record);
        }
        Ok(builder.finish(reader))
    }
}
