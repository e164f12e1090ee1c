//! Questions to a running disk and its answers: control socket, metrics and the live page use the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::order::Order;
use crate::settings::TargetSettings;
use crate::shares::Shortfall;
use crate::ublk::Description;

/// What accounts are kept of: reads, writes, bytes read, written and promised, and seconds in which a promise was not kept.
pub(crate) type Sums = [u64; 6];

/// A question to a disk.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    /// Is the thread alive?
    Ping,
    /// An order of the control socket.
    Order(Order),
    /// Can the exports be those of these settings?
    CheckReload(Box<TargetSettings>),
    /// Make them so.
    Reload(Box<TargetSettings>),
    /// The settings as they are now.
    Settings,
    /// What the accounts need: little, as they ask every second.
    Accounts,
    /// Which block devices of this machine its exports have.
    Devices,
}

/// An answer of a disk.
pub(crate) enum Answer {
    Done,
    Stats(Box<DiskStats>),
    Explanation(Explanation),
    /// By target and export.
    Accounts(Vec<(String, String, Sums)>),
    /// The settings of a disk, before a change where one is made.
    Settings(Box<TargetSettings>),
    Histogram(HistogramStats),
    Devices(Vec<Description>),
}

/// Counts of a disk and its tenants, since the start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskStats {
    /// The served file, device or model.
    pub target: String,
    /// Bytes of it.
    pub bytes: u64,
    /// Bytes of a block: offsets and lengths are multiples of it.
    pub block_bytes: u32,
    /// The scheduler.
    pub scheduler: String,
    /// Exchanges of the scheduler.
    pub switches: u64,
    /// Requests that the device may hold.
    pub device_depth: u32,
    /// Requests in the device.
    pub in_device: u64,
    /// Requests that wait in the scheduler.
    pub queued: u64,
    /// The most I/Os that it has served in one second: what reservations may take.
    #[serde(default)]
    pub shown_iops: u64,
    /// Part of the last 10 s in which the scheduler held tenants back that were ahead, for one that ran empty: what shares cost at most.
    #[serde(default)]
    pub held_back: f64,
    /// Proportionality variation of the tenants that always asked for more over the last 10 s; `null` with fewer than two.
    pub pv: Option<f64>,
    /// Bytes of buffers in use.
    pub buffer_bytes: u64,
    /// Bytes of buffers that are kept for further requests.
    #[serde(default)]
    pub free_buffer_bytes: u64,
    /// A flush failed; every later one fails too, until a restart.
    pub flush_failed: bool,
    /// I/Os submitted to the block layer, and completed.
    pub submitted: u64,
    /// Completed I/Os.
    pub completed: u64,
    /// Seconds since the start.
    pub up_s: f64,
    /// System calls that waited in the ring.
    pub waits: u64,
    /// Its tenants.
    pub exports: Vec<ExportStats>,
}

/// Limits of a tenant; each is `null` where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// I/Os per second.
    pub iops: Option<u64>,
    /// Bytes per second.
    pub bytes: Option<u64>,
    /// I/Os that pass at once after a pause; `null`: those of 10 ms.
    pub burst_iops: Option<u64>,
    /// Bytes that pass at once after a pause; `null`: those of 10 ms.
    pub burst_bytes: Option<u64>,
}

/// Counts of a tenant, since the start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportStats {
    /// Its name.
    pub name: String,
    /// First byte on the target.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Refuses writes.
    pub readonly: bool,
    /// Its block device on this machine, `/dev/ublkbN`.
    #[serde(default)]
    pub ublk: Option<u32>,
    /// Its weight.
    pub weight: u32,
    /// The weight that the scheduler has: more than its own where a reservation needs that.
    pub effective_weight: u32,
    /// Its limits.
    #[serde(default)]
    pub limit: Limit,
    /// Limit of I/Os per second.
    pub limit_iops: Option<u64>,
    /// Limit of bytes per second.
    pub limit_bytes: Option<u64>,
    /// Reserved I/Os per second.
    #[serde(default)]
    pub reservation: Option<u64>,
    /// The same.
    pub reservation_iops: Option<u64>,
    /// Its reservation may be more than the drive has shown.
    #[serde(default)]
    pub over_commit: bool,
    /// Connections.
    pub connections: u32,
    /// It takes no new clients, and goes with its last one.
    #[serde(default)]
    pub draining: bool,
    /// The same.
    pub leaving: bool,
    /// Requests under way.
    pub outstanding: u32,
    /// How long the oldest of them has waited, ms.
    pub oldest_ms: f64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Trims and zeroings.
    pub trims: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Requests that the disk failed.
    pub errors: u64,
    /// Requests refused before they reached the disk.
    pub refused: u64,
    /// Connections that broke the protocol.
    pub violations: u64,
    /// Connections made.
    pub connects: u64,
    /// Time that requests waited for a limit, s, summed over requests.
    pub throttled_s: f64,
    /// I/Os per second over the last 10 s.
    pub iops: f64,
    /// Bytes per second over the last 10 s.
    pub bytes_per_s: f64,
    /// Part that its weight promises it beside those that asked for something in the last 10 s, 0 to 1.
    #[serde(default)]
    pub promised_share: f64,
    /// Part of all bytes over the last 10 s, 0 to 1.
    #[serde(default)]
    pub received_share: f64,
    /// Why it received less than promised.
    #[serde(default)]
    pub shortfall: Shortfall,
    /// The same as `received_share`.
    pub share: f64,
    /// What is promised, if it always asked for more; else 0.
    pub due: f64,
    /// Seconds in which it received less than promised though it asked for more and its own limit did not hold it back.
    #[serde(default)]
    pub short_s: u64,
    /// Bytes that its weight promised it while it asked for more, and those that it received while it did not: what it would have
    /// received, had each promise been kept.
    #[serde(default)]
    pub promised_bytes: u64,
    /// Median latency over the last 5 to 10 s, ms.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the latency over the last 5 to 10 s, ms.
    pub p99_ms: Option<f64>,
    /// Cumulative counts of latencies, for metrics: upper bound in seconds and count.
    pub latency_buckets: Vec<(f64, u64)>,
    /// Sum of all latencies, s.
    pub latency_sum_s: f64,
    /// Latencies counted.
    pub latency_count: u64,
}

/// A tenant's latencies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HistogramStats {
    /// Its name.
    pub export: String,
    /// Latencies counted.
    pub count: u64,
    /// Buckets that hold something: first value behind it in µs, and count.
    pub buckets: Vec<(f64, u64)>,
}

/// Why a disk's scheduler and depth are what they are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// The scheduler, as it was chosen.
    pub scheduler: String,
    /// Exchanges of the scheduler, by orders and by itself.
    pub switches: u64,
    /// Of these, the ones by orders or a configuration that was read again.
    pub ordered: u64,
    /// The answer in words.
    pub why: String,
    /// The scheduler's knowledge and expectations, in its own words; empty if it decides nothing of the kind.
    pub state: String,
    /// The scheduler's own counters.
    pub counters: BTreeMap<String, u64>,
    /// Requests that the device may hold.
    pub device_depth: u32,
    /// Where the depth comes from, in words.
    pub depth_why: String,
}
