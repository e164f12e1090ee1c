//! Hard disk: one arm, one media operation at a time, after Ruemmler and Wilkes (1994).
//!
//! Choices that the sources leave open:
//! - Angles include the whole cost of track and band crossings, so that a sequential read never misses a revolution.
//! - `read_ahead_min_kib` counts from the start of the media read, the request included.
//! - Writes update buffered sectors in place and keep the read segments.
//! - An absorbed write that is not aligned to 4 KiB costs nothing extra at write-back.
//! - Discard and secure erase end after the command overhead; write-zeroes is a write without link time.

mod ahead;
mod buffer;
mod choice;
mod cleaning;
mod destage;
mod dirty;
mod geometry;
mod kind;
mod params;
mod positioning;
mod seek;
mod shingled;
mod write_cache;

use std::collections::VecDeque;

use dumbwaiter_block::{Nanos, Op};

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
use crate::{Breakdown, Command, Completion, Counters, Device, Facts, Submitted};

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

    // ---- time ----

    fn arm_event(&self) -> Option<Nanos> {
        match self.arm {
            Arm::Idle { since } if self.dirty.is_empty() => {
                self.shingled.as_ref().filter(|s| s.has_cached()).map(|s| since + s.t_idle)
            }
            Arm::Idle { since } => Some(since + self.t_idle),
            Arm::Overhead { until }
            | Arm::Read { until, .. }
            | Arm::Write { until, .. }
            | Arm::Ahead { until, .. }
            | Arm::Flushed { until } => Some(until),
        }
    }

    /// Processes the events of the arm up to and including `now`.
    fn run(&mut self, now: Nanos) {
        while let Some(at) = self.arm_event().filter(|at| *at <= now) {
            self.step(at);
        }
    }

    fn step(&mut self, now: Nanos) {
        match self.arm {
            Arm::Idle { .. } if self.dirty.is_empty() => self.clean_now(now),
            Arm::Idle { .. } => self.write_back(now),
            Arm::Overhead { .. } => self.serve(now),
            Arm::Read { lba, from, end, .. } => {
                let segment = self.buffer.fill(lba, from, end);
                if self.continuing(now).is_some() || !self.read_on(now, segment, from, end) {
                    self.dispatch(now);
                }
            }
            Arm::Write { returns, .. } => {
                self.returning -= returns;
                self.arm = Arm::Idle { since: now };
                self.admit_waiting(now);
                self.dispatch(now);
            }
            Arm::Ahead { segment, from, end, .. } => {
                self.buffer.extend(segment, end);
                if end > from {
                    self.here = self.geometry.place(end - 1);
                    self.next_lba = end;
                    self.passed_at = now;
                }
                self.dispatch(now);
            }
            Arm::Flushed { .. } => {
                if let Some(Barrier { held, began }) = self.barrier.take() {
                    let firmware = self.t_cmd.min(now.since(began));
                    let breakdown = Breakdown {
                        queue: began.since(held.arrival),
                        firmware,
                        media: now.since(began).since(firmware),
                        ..Breakdown::default()
                    };
                    self.finish(held, now, breakdown);
                }
                self.arm = Arm::Idle { since: now };
                while self.barrier.is_none() {
                    let Some(held) = self.behind.pop_front() else { break };
                    self.accept(held, now);
                }
                if matches!(self.arm, Arm::Idle { .. }) {
                    self.dispatch(now);
                }
            }
        }
    }

    fn finish(&mut self, held: Held, at: Nanos, breakdown: Breakdown) {
        self.outbox.push(held.seq, Completion { tag: held.command.tag, at, failed: false, breakdown });
    }

    // ---- commands ----

    fn accept(&mut self, held: Held, now: Nanos) {
        if self.barrier.is_some() {
            self.behind.push_back(held);
            return;
        }
        let Command { op, fua, sectors, .. } = held.command;
        match op {
            Op::Read if sectors > 0 => self.accept_read(held, now),
            Op::Write | Op::WriteZeroes if sectors > 0 => {
                if fua || u64::from(sectors) > self.cache_sectors {
                    self.enqueue(held, now, true, held.command.sector);
                } else if self.waiting.is_empty() && self.fits(&held.command) {
                    self.admit(held, now);
                    self.wake_arm(now);
                } else {
                    self.waiting.push_back(held);
                    self.wake_arm(now);
                }
            }
            Op::Flush => {
                self.barrier = Some(Barrier { held, began: now });
                self.wake_arm(now);
            }
            _ => self.over_link(held, now, 0),
        }
    }

    fn accept_read(&mut self, held: Held, now: Nanos) {
        let lba = held.command.sector;
        let end = lba + u64::from(held.command.sectors);
        if self.dirty.covers(lba, end) {
            self.counters.cache_hits += 1;
            return self.over_link(held, now, held.command.bytes());
        }
        let mut from = lba;
        self.rebase(now, lba);
        if let Arm::Ahead { segment, since, from: front, committed, end: ahead_end, ending, .. } = self.arm {
            let start = self.buffer.get(segment).start;
            let soon = || now + Nanos(self.geometry.revolution) >= since + self.span(front, lba);
            let joins = lba >= start && lba <= ahead_end.max(front);
            if joins && (end <= ahead_end || (!ending && (lba <= front || soon()))) {
                self.counters.cache_hits += 1;
                let ready = since + self.span(front, end);
                self.stream(held, now, ready);
                self.buffer.touch(segment, lba, end);
                if !ending {
                    let ahead = (end + self.ahead_max).min(self.facts.capacity_sectors).max(ahead_end);
                    let until = since + self.span(front, ahead);
                    let committed = committed.max(end);
                    self.arm = Arm::Ahead { segment, since, from: front, committed, end: ahead, until, ending };
                }
                return;
            }
            if joins {
                from = from.max(ahead_end);
            }
        }
        if let Some(segment) = self.buffer.holding(lba) {
            let buffered = self.buffer.get(segment).end;
            if end <= buffered {
                self.counters.cache_hits += 1;
                self.buffer.touch(segment, lba, end);
                self.over_link(held, now, held.command.bytes());
                self.resume(now, segment);
                return;
            }
            from = from.max(buffered);
        }
        self.enqueue(held, now, false, from.min(end - 1));
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

    fn enqueue(&mut self, held: Held, now: Nanos, write: bool, from: u64) {
        let place = self.geometry.place(from);
        self.queue.push(Queued { held, place, write, from });
        self.candidates.push(place, write, &self.seek);
        self.wake_arm(now);
    }

    // ---- arm ----

    fn has_arm_work(&self) -> bool {
        !self.queue.is_empty() || self.barrier.is_some() || (self.must_write_back() && !self.dirty.is_empty())
    }

    /// Wakes an idle arm, or ends a read-ahead early, if commands wait.
    fn wake_arm(&mut self, now: Nanos) {
        if !self.has_arm_work() {
            return;
        }
        match self.arm {
            Arm::Idle { .. } => self.dispatch(now),
            Arm::Ahead { segment, since, from, committed, end, ending: false, .. } => {
                let passed = now.since(since);
                let mut stop = from + self.geometry.passed(from, passed.0, end - from);
                // Reads the current sector to its end.
                if self.span(from, stop) < passed {
                    stop += 1;
                }
                let end = stop.max(committed).min(end);
                let until = (since + self.span(from, end)).max(now);
                self.arm = Arm::Ahead { segment, since, from, committed, end, until, ending: true };
            }
            _ => {}
        }
    }

    /// Chooses the next action of a free arm.
    fn dispatch(&mut self, now: Nanos) {
        self.arm = Arm::Idle { since: now };
        let serve = !self.queue.is_empty();
        self.decide_draining();
        let back = !self.dirty.is_empty()
            && if self.barrier.is_some() {
                !serve
            } else {
                self.is_visiting(now) || (self.draining && !(serve && self.wrote_back_last))
            };
        if back {
            self.write_back(now);
        } else if let Some(index) = self.continuing(now) {
            self.position(now, index, true);
        } else if serve {
            self.arm = Arm::Overhead { until: now + self.t_cmd };
        } else if let Some(Barrier { began, .. }) = self.barrier {
            self.arm = Arm::Flushed { until: now.max(began + self.t_cmd) };
        }
    }

    /// Rotational latency to a place, in ns, from `after` ns past now.
    fn rotation(&self, now: Nanos, after: u64, place: Place) -> u64 {
        let turn = self.geometry.revolution;
        let phase = (now.0 + self.phase0 + after) % turn;
        let wait = (place.angle + turn - phase) % turn;
        // The rounding of a duration must not cost a whole revolution.
        if wait + turn / 1_000_000 >= turn { 0 } else { wait }
    }

    /// The command overhead has ended: chooses a command for the arm.
    fn serve(&mut self, now: Nanos) {
        let index = self.choose(now);
        let Queued { held, write, .. } = self.queue[index];
        let Command { sector, sectors, .. } = held.command;
        let buffered = if write { None } else { self.buffer.holding(sector) };
        if buffered.is_some_and(|segment| self.buffer.get(segment).end >= sector + u64::from(sectors)) {
            // A read-ahead for another command has buffered it meanwhile.
            self.queue.remove(index);
            self.candidates.remove(index);
            self.counters.cache_hits += 1;
            self.over_link(held, now, held.command.bytes());
            self.dispatch(now);
        } else {
            self.position(now, index, false);
        }
    }

    /// Moves the arm for a queued command. One that `continues` the last transfer needs no overhead.
    fn position(&mut self, now: Nanos, index: usize, continues: bool) {
        let Queued { held, mut place, write, from } = self.queue.remove(index);
        self.candidates.remove(index);
        let end = held.command.sector + u64::from(held.command.sectors);
        // On a shingled drive a write may have to wait until a band was cleaned, and may go elsewhere.
        let (began, mut target) = (now, from);
        let mut now = now;
        if write {
            while self.shingled.as_ref().is_some_and(|s| s.full_for(from, end - from)) {
                now = self.clean(now).unwrap_or(now);
            }
            if let Some(shingled) = &mut self.shingled {
                target = shingled.place(from, end - from);
                place = self.geometry.place(target);
            }
        }
        let waited = began.since(held.arrival);
        let continues = continues && target == from && now == began;
        let (firmware, seek, rotation) = if continues {
            (Nanos::ZERO, self.geometry.step(from), 0)
        } else {
            let seek = self.seek.time(self.here, place, write);
            (self.t_cmd.min(waited), seek, self.rotation(now, seek, place) + self.lateness(held.seq, write))
        };
        let mut media = self.geometry.media(target, end - from);
        if write && (from % PHYSICAL_SECTORS != 0 || end % PHYSICAL_SECTORS != 0) {
            media += self.geometry.revolution;
        }
        let until = now + Nanos(seek + rotation + media);
        let breakdown = Breakdown {
            queue: waited.since(firmware),
            seek: Nanos(seek),
            rotation: Nanos(rotation),
            media: Nanos(media),
            firmware,
            gc_stall: now.since(began),
            ..Breakdown::default()
        };
        self.finish(held, until, breakdown);
        self.moved(now, until, target + (end - from));
        self.wrote_back_last = false;
        self.visit = 0;
        if write {
            self.dirty.remove(from, end, &self.geometry);
            self.arm = Arm::Write { until, returns: 0 };
        } else {
            self.arm = Arm::Read { until, lba: held.command.sector, from, end };
        }
    }

    /// Another revolution, of a read that misses its sector.
    fn lateness(&self, seq: u64, write: bool) -> u64 {
        let share = self.late[usize::from(self.wrote_back_last)];
        let late = !write && share > 0.0 && self.lateness.unit(seq) < share;
        if late { self.geometry.revolution } else { 0 }
    }

    fn moved(&mut self, now: Nanos, until: Nanos, end: u64) {
        self.here = self.geometry.place(end - 1);
        self.next_lba = end;
        self.passed_at = until;
        self.counters.media_busy += until.since(now);
    }
}

impl Device for Hdd {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submitted {
        self.run(now);
        self.inside -= self.outbox.settle(now);
        if self.inside == self.facts.depth {
            return Submitted::Busy;
        }
        self.inside += 1;
        self.counters.count(command, self.inside);
        let held = Held { command: *command, arrival: now, seq: self.seq };
        self.seq += 1;
        if command.beyond(self.facts.capacity_sectors) {
            let breakdown = Breakdown { firmware: self.t_err, ..Breakdown::default() };
            let completion = Completion { tag: command.tag, at: now + self.t_err, failed: true, breakdown };
            self.outbox.push(held.seq, completion);
        } else {
            self.accept(held, now);
        }
        Submitted::Accepted
    }

    fn next_event(&self) -> Option<Nanos> {
        let undecided = !self.queue.is_empty() || !self.waiting.is_empty() || self.barrier.is_some();
        let arm = if undecided { self.arm_event() } else { None };
        match (arm, self.outbox.next()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        self.run(now);
        self.inside -= self.outbox.drain(now, out);
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

/// The seek time that vendors specify: the mean over all pairs of cylinders, ms.
pub(crate) fn mean_seek_ms(p: &Params) -> f64 {
    Seek::new(p).mean(p.cylinders) / 1e6
}
