//! Parameters of a flash SSD.

use serde::{Deserialize, Serialize};

use crate::keys::{CAPACITY_SECTORS_MAX, Expect, Key};

/// Parameters of a flash SSD; the built-in files name the source of each value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Size in 512-byte sectors.
    pub capacity_sectors: u64,
    /// `sata` (one queue, flush not queued) or `nvme`.
    pub interface: String,
    /// `half` or `full` duplex: whether reads and writes share the link.
    pub duplex: String,
    /// Depth of each hardware queue.
    pub ncq_depth: u32,
    /// Hardware queues.
    pub queues: u16,
    /// Largest command in sectors.
    pub max_sectors: u32,
    /// Flash channels.
    pub channels: u32,
    /// Dies per channel.
    pub dies_per_channel: u32,
    /// Planes per die.
    pub planes: u32,
    /// Flash page, bytes.
    pub page_bytes: u32,
    /// Pages per block.
    pub pages_per_block: u32,
    /// Cell read tR, µs.
    pub t_read_us: f64,
    /// Page program tP, µs.
    pub t_program_us: f64,
    /// Block erase tBERS, µs.
    pub t_erase_us: f64,
    /// Channel rate, MB/s.
    pub channel_mb_per_s: f64,
    /// Channel time per command, µs.
    pub channel_command_us: f64,
    /// Host link rate, MB/s.
    pub link_mb_per_s: f64,
    /// Host link time per command, µs.
    pub link_command_us: f64,
    /// Serial firmware time of a read, µs.
    pub firmware_read_us: f64,
    /// Serial firmware time of a write, µs.
    pub firmware_write_us: f64,
    /// Pipelined latency of a read, µs.
    pub latency_read_us: f64,
    /// Pipelined latency of a write, µs.
    pub latency_write_us: f64,
    /// `on` or `off`: volatile write buffer and read cache.
    pub cache: String,
    /// Write buffer, MiB.
    pub write_buffer_mib: f64,
    /// Read cache, MiB.
    pub read_cache_mib: f64,
    /// Prefetch of a sequential stream, KiB.
    pub prefetch_kib: u32,
    /// Idle time after which a partial program unit is written, µs.
    pub t_flushback_us: f64,
    /// Time of a flush after all data is programmed, ms.
    pub t_flush_ms: f64,
    /// Over-provisioning: physical / logical space − 1.
    pub over_provisioning: f64,
    /// Garbage collection starts below this fraction of the spare blocks (and always below 2 free blocks of a die).
    pub gc_low: f64,
    /// Garbage collection stops at this fraction of the spare blocks (and at least 3).
    pub gc_high: f64,
    /// Writes wait for garbage collection at this fraction of the spare blocks (and at least 1).
    pub gc_hard: f64,
    /// Idle time after which garbage collection continues, ms.
    pub t_idle_gc_ms: f64,
    /// Whether channels and link send data in the order of the commands, so that one that waits delays those behind it.
    pub in_order: bool,
    /// Whether reads precede programs that wait for the same die.
    pub read_first: bool,
    /// `none`, `erase` or `program+erase`: operations that a read may suspend.
    pub suspend: String,
    /// Time of a suspension, µs.
    pub t_suspend_us: f64,
    /// Cell read of the fastest and of the slowest third of the pages, µs; 0: as `t_read_us`.
    pub t_read_fast_us: f64,
    /// See `t_read_fast_us`.
    pub t_read_slow_us: f64,
    /// Cell read of a page of which more than 4 KiB is read, relative to one of 4 KiB.
    pub t_read_large: f64,
    /// Longest piece of a program that a read cannot interrupt, µs; 0: a read may suspend a program at any point.
    pub suspend_every_us: f64,
    /// Reads that a die serves before a program that waits; 0: all.
    pub reads_per_program: f64,
    /// Serial firmware time of each 4 KiB of a read but the first, as its data arrives from the flash, µs.
    pub firmware_further_us: f64,
    /// Of several drives of this model behind one host the slowest one's firmware times of reads, relative to the others'.
    pub slowest_drive: f64,
    /// Latency that a read of more than 4 KiB has in addition, µs.
    pub latency_large_read_us: f64,
    /// Rate at which the controller empties a write buffer of single 4 KiB, MB/s; consecutive ones take the time of one. 0: no limit.
    pub drain_mb_per_s: f64,
    /// Room that must be free in a write buffer that was full before it takes writes again, MiB.
    pub write_gap_mib: f64,
    /// Commands that the controller works on at once, those that wait for the write buffer included; 0: all.
    pub slots: f64,
    /// Latency of a command beyond the last sector, µs.
    pub t_err_us: f64,
    /// Logical space of the map, GiB; addresses fold onto it, and timing does not depend on it. At least what gives 4
    /// spare blocks on each die.
    pub ftl_gib: f64,
    /// `empty`, `fresh`, `filled` or `steady`.
    pub state: String,
    /// Size of the random overwrites that lead to `steady`, KiB.
    pub steady_kib: f64,
}

/// Names and ranges of [`Params`].
pub const KEYS: &[Key] = &[
    Key { name: "capacity_sectors", expect: Expect::Int(8, CAPACITY_SECTORS_MAX), about: "size" },
    Key {
        name: "interface",
        expect: Expect::OneOf(&["sata", "nvme", "usb", "mmc"]),
        about: "nvme: a flush is queued as others are; usb, mmc: as sata, under another name in Linux",
    },
    Key { name: "duplex", expect: Expect::OneOf(&["half", "full"]), about: "half: reads and writes share the link" },
    Key { name: "ncq_depth", expect: Expect::Int(1, 65_536), about: "commands held per queue; SATA: at most 32" },
    Key { name: "queues", expect: Expect::Int(1, 1024), about: "hardware queues" },
    Key { name: "max_sectors", expect: Expect::Int(1, 65_536), about: "largest command" },
    Key { name: "channels", expect: Expect::Int(1, 256), about: "flash channels" },
    Key { name: "dies_per_channel", expect: Expect::Int(1, 64), about: "dies per channel" },
    Key { name: "planes", expect: Expect::Int(1, 16), about: "planes per die" },
    Key { name: "page_bytes", expect: Expect::Int(4096, 65_536), about: "flash page, a multiple of 4096" },
    Key { name: "pages_per_block", expect: Expect::Int(4, 16_384), about: "pages per block" },
    Key { name: "t_read_us", expect: Expect::Num(0.0, 1e5), about: "cell read" },
    Key { name: "t_program_us", expect: Expect::Num(0.0, 1e6), about: "page program" },
    Key { name: "t_erase_us", expect: Expect::Num(0.0, 1e6), about: "block erase" },
    Key { name: "channel_mb_per_s", expect: Expect::Num(1.0, 1e5), about: "channel rate" },
    Key { name: "channel_command_us", expect: Expect::Num(0.0, 1e4), about: "channel time per command" },
    Key { name: "link_mb_per_s", expect: Expect::Num(1.0, 1e6), about: "host link rate" },
    Key { name: "link_command_us", expect: Expect::Num(0.0, 1e4), about: "link time per command" },
    Key { name: "firmware_read_us", expect: Expect::Num(0.0, 1e5), about: "serial, per read" },
    Key { name: "firmware_write_us", expect: Expect::Num(0.0, 1e5), about: "serial, per write" },
    Key { name: "latency_read_us", expect: Expect::Num(0.0, 1e5), about: "pipelined, per read" },
    Key { name: "latency_write_us", expect: Expect::Num(0.0, 1e5), about: "pipelined, per write" },
    Key { name: "cache", expect: Expect::OneOf(&["on", "off"]), about: "write buffer and read cache" },
    Key { name: "write_buffer_mib", expect: Expect::Num(0.0, 65_536.0), about: "write buffer" },
    Key { name: "read_cache_mib", expect: Expect::Num(0.0, 65_536.0), about: "read cache" },
    Key { name: "prefetch_kib", expect: Expect::Int(0, 1 << 20), about: "read ahead of a sequential stream" },
    Key { name: "t_flushback_us", expect: Expect::Num(0.0, 1e9), about: "idle time before a partial program" },
    Key { name: "t_flush_ms", expect: Expect::Num(0.0, 60_000.0), about: "flush, once all is programmed" },
    Key { name: "over_provisioning", expect: Expect::Num(0.01, 128.0), about: "physical / logical - 1" },
    Key { name: "gc_low", expect: Expect::Num(0.0, 0.9), about: "collection starts, share of spare blocks" },
    Key { name: "gc_high", expect: Expect::Num(0.0, 0.9), about: "collection stops, share of spare blocks" },
    Key { name: "gc_hard", expect: Expect::Num(0.0, 0.9), about: "writes wait, share of spare blocks" },
    Key { name: "t_idle_gc_ms", expect: Expect::Num(0.0, 1e6), about: "idle time after which collection continues" },
    Key { name: "in_order", expect: Expect::Bool, about: "channels and link send in the order of the commands" },
    Key { name: "read_first", expect: Expect::Bool, about: "reads precede programs that wait for the die" },
    Key {
        name: "suspend",
        expect: Expect::OneOf(&["none", "erase", "program+erase"]),
        about: "operations that a read may suspend",
    },
    Key { name: "t_suspend_us", expect: Expect::Num(0.0, 1e5), about: "time of one suspension" },
    Key {
        name: "t_read_fast_us",
        expect: Expect::Num(0.0, 1e5),
        about: "cell read of the fastest third of pages, 0 = t_read_us",
    },
    Key {
        name: "t_read_slow_us",
        expect: Expect::Num(0.0, 1e5),
        about: "cell read of the slowest third of pages, 0 = t_read_us",
    },
    Key {
        name: "t_read_large",
        expect: Expect::Num(1.0, 10.0),
        about: "cell read of more than 4 KiB of a page / of 4 KiB",
    },
    Key {
        name: "suspend_every_us",
        expect: Expect::Num(0.0, 1e6),
        about: "piece of a program that no read interrupts, 0 = none",
    },
    Key {
        name: "reads_per_program",
        expect: Expect::Num(0.0, 1e6),
        about: "reads of a die before a program that waits, 0 = all",
    },
    Key {
        name: "firmware_further_us",
        expect: Expect::Num(0.0, 1e4),
        about: "serial, per 4 KiB of a read but the first",
    },
    Key {
        name: "slowest_drive",
        expect: Expect::Num(1.0, 10.0),
        about: "firmware times of reads, of the slowest of several drives / of the others",
    },
    Key {
        name: "latency_large_read_us",
        expect: Expect::Num(0.0, 1e5),
        about: "pipelined, per read of more than 4 KiB",
    },
    Key {
        name: "drain_mb_per_s",
        expect: Expect::Num(0.0, 1e6),
        about: "rate at which single 4 KiB leave the write buffer, 0 = no limit",
    },
    Key {
        name: "write_gap_mib",
        expect: Expect::Num(0.0, 65_536.0),
        about: "free room at which a full write buffer takes writes again",
    },
    Key {
        name: "slots",
        expect: Expect::Num(0.0, 1e6),
        about: "commands that the controller works on at once, 0 = all",
    },
    Key { name: "t_err_us", expect: Expect::Num(0.0, 1e6), about: "a command beyond the last sector" },
    Key { name: "ftl_gib", expect: Expect::Num(0.001, 4096.0), about: "logical space that the mapping covers" },
    Key {
        name: "state",
        expect: Expect::OneOf(&["empty", "fresh", "filled", "steady"]),
        about: "initial contents of the flash",
    },
    Key {
        name: "steady_kib",
        expect: Expect::Num(4.0, 1024.0),
        about: "random overwrites that lead to the state steady",
    },
];

impl Params {
    /// Size of the write buffer, bytes; 0 if disabled.
    pub(crate) fn write_buffer_bytes(&self) -> u64 {
        if self.cache == "on" { (self.write_buffer_mib * 1_048_576.0) as u64 } else { 0 }
    }
}
