//! Hard disk: one arm, one media operation at a time, after Ruemmler and Wilkes (1994).
//!
//! Choices that the sources leave open:
//! - Angles include the whole cost of track and band crossings, so that a sequential read never misses a revolution.
//! - `read_ahead_min_kib` counts from the start of the media read, the request included.
//! - Writes update buffered sectors in place and keep the read segments.
//! - An absorbed write that is not aligned to 4 KiB costs nothing extra at write-back.
//! - Discard and secure erase end after the command overhead; write-zeroes is a write without link time.

mod accept;
mod ahead;
mod buffer;
mod calls;
mod choice;
mod cleaning;
mod destage;
mod dirty;
mod dispatch;
mod geometry;
mod kind;
mod params;
mod positioning;
mod seek;
mod shingled;
mod write_cache;

use std::collections::VecDeque;

use dumbwaiter_block::Nanos;

use self::buffer::Buffer;
use self::destage::Destage;
use self::dirty::Dirty;
use self::geometry::{Geometry, Place};
pub use self::params::{KEYS, Params};
pub use self::positioning::Positioning;
use self::seek::{Candidates, Seek};
use self::shingled::Shingled;

use crate::kind::DeviceParams;
use crate::outbox::Outbox;
use crate::rng::Stage;
use crate::{Breakdown, Command, Completion, Counters, Facts};

/// 512-byte sectors of a physical sector.
const PHYSICAL_SECTORS: u64 = 8;

/// A command in the drive.
#[derive(Clone, Copy, Debug)]
struct Held {
    command: Command,
    arrival: Nanos,
    seq: u64,
}

/// A command that needs the arm.
#[derive(Clone, Copy, Debug)]
struct Queued {
    held: Held,
    place: Place,
    write: bool,
    /// First sector that the media must deliver; the ones before are buffered.
    from: u64,
}

/// State of the arm.
#[derive(Clone, Copy, Debug)]
enum Arm {
    Idle {
        since: Nanos,
    },
    /// Command overhead; at its end the drive chooses among the commands queued by then.
    Overhead {
        until: Nanos,
    },
    /// A media read of the request `lba..end`, from sector `from` on.
    Read {
        until: Nanos,
        lba: u64,
        from: u64,
        end: u64,
    },
    /// A write, or a write-back that frees `returns` sectors of cache.
    Write {
        until: Nanos,
        returns: u64,
    },
    /// Read-ahead into `segment` since `since`, from sector `from` on.
    Ahead {
        segment: usize,
        since: Nanos,
        from: u64,
        /// Sector up to which it reads even if commands wait.
        committed: u64,
        /// Sector at which it ends.
        end: u64,
        until: Nanos,
        /// A command waits: the end is fixed.
        ending: bool,
    },
    /// The flush completes.
    Flushed {
        until: Nanos,
    },
}

/// The flush in progress.
#[derive(Clone, Copy, Debug)]
struct Barrier {
    held: Held,
    began: Nanos,
}

/// A hard disk.
#[derive(Debug)]
pub struct Hdd {
    facts: Facts,
    geometry: Geometry,
    seek: Seek,
    buffer: Buffer,
    dirty: Dirty,
    t_cmd: Nanos,
    t_err: Nanos,
    t_age: Nanos,
    t_idle: Nanos,
    link_ns_per_byte: f64,
    lookahead: bool,
    ahead_min: u64,
    ahead_max: u64,
    cache_sectors: u64,
    /// Cache sectors whose write-back is in progress.
    returning: u64,
    /// Oldest extents that compete to be written back; 0 for all.
    max_dirty_extents: usize,
    write_back_window: usize,
    rpo_window: usize,
    phase0: u64,
    arm: Arm,
    here: Place,
    /// The sector after the last one that passed the head.
    next_lba: u64,
    /// Time at which that sector had passed.
    passed_at: Nanos,
    wrote_back_last: bool,
    destage: Destage,
    /// Whether dirty data is written back although reads wait.
    draining: bool,
    /// Sectors written back since the last read, and whether the last piece was a full one.
    visit: u64,
    full_piece: bool,
    age_weight: f32,
    /// Shares of reads that miss their sector: at any time, and after a write-back.
    late: [f64; 2],
    lateness: Stage,
    candidates: Candidates,
    queue: Vec<Queued>,
    /// Writes that wait for cache space.
    waiting: VecDeque<Held>,
    barrier: Option<Barrier>,
    shingled: Option<Shingled>,
    /// Commands that arrived after the flush.
    behind: VecDeque<Held>,
    link_free: Nanos,
    seq: u64,
    inside: u32,
    outbox: Outbox,
    counters: Counters,
}

/// The angle under the heads at time 0.
fn phase_at_start(seed: u64, geometry: &Geometry) -> u64 {
    Stage::new(seed, 1).bits(0) % geometry.revolution
}

impl Hdd {
    /// A drive with empty caches and its arm at the outer edge.
    pub fn new(p: &Params, seed: u64) -> Hdd {
        let geometry = Geometry::new(p);
        let ms = |ms: f64| Nanos::from_us_f64(ms * 1e3);
        let segment = (p.buffer_mib * 2048.0) as u64 / u64::from(p.segments);
        Hdd {
            facts: p.facts(),
            seek: Seek::new(p),
            buffer: Buffer::new(p.segments, segment),
            dirty: Dirty::new(p.write_back_window == 0),
            t_cmd: ms(p.t_cmd_ms),
            t_err: ms(p.t_err_ms),
            t_age: ms(p.t_age_ms),
            t_idle: ms(p.t_idle_destage_ms),
            link_ns_per_byte: 1e3 / p.link_mb_per_s,
            lookahead: p.lookahead && segment > 0,
            ahead_min: u64::from(p.read_ahead_min_kib) * 2,
            ahead_max: (u64::from(p.read_ahead_max_kib) * 2).min(segment),
            cache_sectors: p.write_cache_sectors(),
            returning: 0,
            max_dirty_extents: p.max_dirty_extents as usize,
            write_back_window: p.write_back_window as usize,
            rpo_window: p.rpo_window as usize,
            phase0: phase_at_start(seed, &geometry),
            arm: Arm::Idle { since: Nanos::ZERO },
            here: geometry.place(0),
            next_lba: 0,
            passed_at: Nanos::ZERO,
            wrote_back_last: false,
            destage: Destage::new(p),
            draining: false,
            visit: 0,
            full_piece: false,
            age_weight: p.age_weight as f32,
            late: [p.late_share, p.late_share + p.late_after_write_share],
            lateness: Stage::new(seed, 2),
            candidates: Candidates::new(),
            queue: Vec::with_capacity(p.ncq_depth as usize),
            waiting: VecDeque::new(),
            barrier: None,
            shingled: Shingled::new(p),
            behind: VecDeque::new(),
            link_free: Nanos::ZERO,
            seq: 0,
            inside: 0,
            outbox: Outbox::default(),
            counters: Counters::default(),
            geometry,
        }
    }

    fn finish(&mut self, held: Held, at: Nanos, breakdown: Breakdown) {
        self.outbox.push(held.seq, Completion { tag: held.command.tag, at, failed: false, breakdown });
    }

    /// Completes a command that needs only the interface, which is one serial server.
    fn over_link(&mut self, held: Held, now: Nanos, bytes: u64) {
        let start = now.max(self.link_free);
        let link = Nanos((bytes as f64 * self.link_ns_per_byte + 0.5) as u64);
        let at = start + self.t_cmd + link;
        self.link_free = at;
        self.counters.link_busy += link;
        let queue = start.since(held.arrival);
        self.finish(held, at, Breakdown { queue, firmware: self.t_cmd, link, ..Breakdown::default() });
    }

    /// Rotational latency to a place, in ns, from `after` ns past now.
    fn rotation(&self, now: Nanos, after: u64, place: Place) -> u64 {
        let turn = self.geometry.revolution;
        let phase = (now.0 + self.phase0 + after) % turn;
        let wait = (place.angle + turn - phase) % turn;
        // The rounding of a duration must not cost a whole revolution.
        if wait + turn / 1_000_000 >= turn { 0 } else { wait }
    }

    fn moved(&mut self, now: Nanos, until: Nanos, end: u64) {
        self.here = self.geometry.place(end - 1);
        self.next_lba = end;
        self.passed_at = until;
        self.counters.media_busy += until.since(now);
    }
}

/// The seek time that vendors specify: the mean over all pairs of cylinders, ms.
pub(crate) fn mean_seek_ms(p: &Params) -> f64 {
    Seek::new(p).mean(p.cylinders) / 1e6
}
