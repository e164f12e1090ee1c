//! Parameters of a hard disk.

use serde::{Deserialize, Serialize};

use crate::keys::{CAPACITY_SECTORS_MAX, Expect, Key};

/// Parameters of a hard disk; the built-in files name the source of each value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Revolutions per minute.
    pub rpm: f64,
    /// Size in 512-byte sectors.
    pub capacity_sectors: u64,
    /// Recorded surfaces, one head each.
    pub surfaces: u32,
    /// Cylinders.
    pub cylinders: u32,
    /// Zones of equal cylinders.
    pub zones: u32,
    /// Sectors per track at the outer edge.
    pub sectors_per_track_outer: u32,
    /// Sectors per track at the inner edge.
    pub sectors_per_track_inner: u32,
    /// Tracks of one surface before the next surface follows.
    pub band_tracks: u32,
    /// Track switch during a sequential transfer, ms.
    pub t_skew_ms: f64,
    /// Head switch in place, ms.
    pub t_head_ms: f64,
    /// Seek by one cylinder, ms.
    pub t_track_ms: f64,
    /// Constant of the seek curve, ms.
    pub seek_a_ms: f64,
    /// Factor of the square root of the distance, ms.
    pub seek_b_ms: f64,
    /// Distance at which the curve becomes a line, cylinders.
    pub seek_d0_cylinders: u32,
    /// Extra settling time of a seek before a write, ms.
    pub t_settle_write_ms: f64,
    /// Command overhead, ms.
    pub t_cmd_ms: f64,
    /// Latency of a command beyond the last sector, ms.
    pub t_err_ms: f64,
    /// Rate of the host link, MB/s.
    pub link_mb_per_s: f64,
    /// Whether the drive reads ahead.
    pub lookahead: bool,
    /// Read buffer, MiB.
    pub buffer_mib: f64,
    /// Equal segments of the read buffer.
    pub segments: u32,
    /// Least that a sequential stream reads per positioning even if commands wait, the request included, KiB.
    pub read_ahead_min_kib: u32,
    /// Read-ahead of an undisturbed stream, KiB.
    pub read_ahead_max_kib: u32,
    /// `on` or `off`: write-back cache.
    pub cache: String,
    /// Write-back cache, MiB.
    pub write_cache_mib: f64,
    /// Separate dirty ranges that the drive keeps track of, whatever its buffer holds.
    #[serde(default = "max_dirty_extents")]
    pub max_dirty_extents: u32,
    /// Oldest extents that compete to be written back, at most 32; 0 for all.
    pub write_back_window: u32,
    /// Idle time of the arm before it starts to write back, ms.
    pub t_idle_destage_ms: f64,
    /// Dirty data from which the drive writes back even if reads wait, MiB; 0: three quarters of the cache.
    pub destage_high_mib: f64,
    /// How much it then writes back before reads go first again, MiB.
    pub destage_span_mib: f64,
    /// Most of a sequential run that is written in one visit while reads wait, MiB.
    pub destage_visit_mib: f64,
    /// Tracks that are written without a look at the queue.
    pub destage_tracks: f64,
    /// Time between two such pieces of a visit, ms.
    pub destage_gap_ms: f64,
    /// Advantage in positioning time of a command for each ms of its age, ms.
    pub age_weight: f64,
    /// Share of reads that miss their sector and wait for another revolution.
    pub late_share: f64,
    /// The same of reads after a write-back, in addition.
    pub late_after_write_share: f64,
    /// Queue depth (NCQ).
    pub ncq_depth: u32,
    /// Oldest commands that compete by positioning time (RPO).
    pub rpo_window: u32,
    /// Age above which the oldest command is served next, ms.
    pub t_age_ms: f64,
    /// Largest command in sectors.
    pub max_sectors: u32,
    /// Persistent cache of a drive-managed shingled drive, GiB; 0 for conventional recording.
    #[serde(default)]
    pub smr_cache_gib: f64,
    /// Band of a shingled drive, MiB.
    #[serde(default)]
    pub smr_band_mib: f64,
    /// Idle time of a shingled drive before it cleans a band, ms.
    #[serde(default)]
    pub smr_idle_ms: f64,
}

/// For files that do not say it: fitted to the flushes of a 1 TB drive.
fn max_dirty_extents() -> u32 {
    256
}

/// Names and ranges of [`Params`].
pub const KEYS: &[Key] = &[
    Key { name: "rpm", expect: Expect::Num(1000.0, 30_000.0), about: "revolutions per minute" },
    Key { name: "capacity_sectors", expect: Expect::Int(1, CAPACITY_SECTORS_MAX), about: "size" },
    Key { name: "surfaces", expect: Expect::Int(1, 64), about: "recorded surfaces" },
    Key { name: "cylinders", expect: Expect::Int(2, 8_000_000), about: "cylinders" },
    Key { name: "zones", expect: Expect::Int(1, 1000), about: "zones of equal cylinders" },
    Key { name: "sectors_per_track_outer", expect: Expect::Int(1, 1_000_000), about: "at the outer edge" },
    Key { name: "sectors_per_track_inner", expect: Expect::Int(1, 1_000_000), about: "at the inner edge" },
    Key { name: "band_tracks", expect: Expect::Int(1, 1_000_000), about: "tracks of one surface before the next" },
    Key { name: "t_skew_ms", expect: Expect::Num(0.0, 100.0), about: "one track to the next while reading on" },
    Key { name: "t_head_ms", expect: Expect::Num(0.0, 100.0), about: "head switch in place" },
    Key { name: "t_track_ms", expect: Expect::Num(0.0, 100.0), about: "seek by one cylinder" },
    Key { name: "seek_a_ms", expect: Expect::Num(0.0, 100.0), about: "constant of the seek curve" },
    Key { name: "seek_b_ms", expect: Expect::Num(0.0, 10.0), about: "factor of the root of the distance" },
    Key {
        name: "seek_d0_cylinders",
        expect: Expect::Int(1, 8_000_000),
        about: "distance from which the curve is linear",
    },
    Key { name: "t_settle_write_ms", expect: Expect::Num(0.0, 100.0), about: "extra seek time of a write" },
    Key { name: "t_cmd_ms", expect: Expect::Num(0.0, 100.0), about: "command overhead" },
    Key { name: "t_err_ms", expect: Expect::Num(0.0, 60_000.0), about: "a command beyond the last sector" },
    Key { name: "link_mb_per_s", expect: Expect::Num(1.0, 100_000.0), about: "host link" },
    Key { name: "lookahead", expect: Expect::Bool, about: "read on after a read" },
    Key { name: "buffer_mib", expect: Expect::Num(0.0, 4096.0), about: "read buffer" },
    Key { name: "segments", expect: Expect::Int(1, 1024), about: "segments of the read buffer" },
    Key {
        name: "read_ahead_min_kib",
        expect: Expect::Int(0, 1 << 20),
        about: "least read of a stream per positioning",
    },
    Key { name: "read_ahead_max_kib", expect: Expect::Int(0, 1 << 20), about: "how far ahead a stream is read" },
    Key { name: "cache", expect: Expect::OneOf(&["on", "off"]), about: "write-back cache" },
    Key { name: "write_cache_mib", expect: Expect::Num(0.0, 4096.0), about: "size of the write-back cache" },
    Key {
        name: "max_dirty_extents",
        expect: Expect::Int(1, 1 << 20),
        about: "separate dirty ranges; at most so many, writes wait",
    },
    Key { name: "write_back_window", expect: Expect::Int(0, 32), about: "oldest extents that compete, 0 = all" },
    Key { name: "t_idle_destage_ms", expect: Expect::Num(0.0, 60_000.0), about: "idle time before writing back" },
    Key {
        name: "destage_high_mib",
        expect: Expect::Num(0.0, 4096.0),
        about: "dirty data that is written back although reads wait, 0 = three quarters of the cache",
    },
    Key {
        name: "destage_span_mib",
        expect: Expect::Num(0.0, 4096.0),
        about: "how much is then written back before reads go first again",
    },
    Key {
        name: "destage_visit_mib",
        expect: Expect::Num(0.0, 4096.0),
        about: "most of a run that is written in one visit while reads wait",
    },
    Key { name: "destage_tracks", expect: Expect::Num(1.0, 1000.0), about: "tracks written in one piece" },
    Key { name: "destage_gap_ms", expect: Expect::Num(0.0, 100.0), about: "between two pieces of a visit" },
    Key {
        name: "age_weight",
        expect: Expect::Num(0.0, 10.0),
        about: "advantage in positioning time per time of waiting",
    },
    Key {
        name: "late_share",
        expect: Expect::Num(0.0, 1.0),
        about: "reads that miss their sector and wait for a revolution",
    },
    Key {
        name: "late_after_write_share",
        expect: Expect::Num(0.0, 1.0),
        about: "the same in addition after a write-back",
    },
    Key { name: "ncq_depth", expect: Expect::Int(1, 32), about: "commands held at once" },
    Key { name: "rpo_window", expect: Expect::Int(1, 32), about: "oldest commands that compete by positioning" },
    Key { name: "t_age_ms", expect: Expect::Num(0.0, 3_600_000.0), about: "an older command goes next" },
    Key { name: "max_sectors", expect: Expect::Int(1, 65_536), about: "largest command" },
    Key {
        name: "smr_cache_gib",
        expect: Expect::Num(0.0, 1024.0),
        about: "persistent cache of a shingled drive; 0 or left out: not shingled",
    },
    Key { name: "smr_band_mib", expect: Expect::Num(0.0, 4096.0), about: "band of a shingled drive" },
    Key { name: "smr_idle_ms", expect: Expect::Num(0.0, 3_600_000.0), about: "idle time before a band is cleaned" },
];

impl Params {
    /// Persistent cache of a shingled drive, sectors; 0 for another.
    pub(crate) fn smr_cache_sectors(&self) -> u64 {
        (self.smr_cache_gib * 2_097_152.0) as u64
    }

    pub(crate) fn write_cache_sectors(&self) -> u64 {
        if self.cache == "on" { (self.write_cache_mib * 2048.0) as u64 } else { 0 }
    }
}
