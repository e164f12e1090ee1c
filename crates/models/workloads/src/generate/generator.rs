//! The running generator: decides what the next I/O is and when it is due. It does not allocate after it is built.

use dumbwaiter_block::{Flags, Nanos, Op, SECTOR_BYTES};

use super::draws::Draws;
use super::offsets::{Coverage, Offsets, Place, Stream};
use super::pauses::{Burst, RateSleep, ThinkTime, Thinking};
use super::value::{Mix, READ, SubmitMode, TRIM, WRITE};
use crate::{Next, Want, Workload};

/// Start and end of the job.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    pub(super) delay: (Nanos, Nanos),
    pub(super) length: Option<Nanos>,
    pub(super) begun: bool,
    pub(super) start: Nanos,
    pub(super) end: Nanos,
}

/// Limits at which the job ends.
#[derive(Debug)]
pub(super) struct Limits {
    /// In grains.
    pub(super) length: u64,
    pub(super) ios: u64,
    pub(super) passes: u64,
}

/// Chooses between reads and writes. A direction is drawn for each I/O, except that after a change of direction the new
/// one goes on until it has at least its percentage of the I/Os issued in the old one (as fio does).
#[derive(Debug, Default)]
pub(super) struct Mixer {
    /// Of reads and of writes.
    percent: [u8; 2],
    issued: [u64; 2],
    dir: usize,
    /// I/Os that the current direction issues before the next draw.
    until: u64,
}

impl Mixer {
    pub(super) fn new(reads: u8) -> Mixer {
        Mixer { percent: [reads, 100 - reads], ..Mixer::default() }
    }

    #[inline]
    fn draw(&mut self, draws: &mut Draws) -> usize {
        if self.issued[self.dir] >= self.until {
            let dir = if draws.direction() < u64::from(self.percent[READ]) { READ } else { WRITE };
            if dir != self.dir {
                self.until = self.issued[self.dir] * u64::from(self.percent[dir]) / 100;
            }
            self.dir = dir;
        }
        self.dir
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    No,
    /// Waiting until all I/O before it has completed.
    Wanted,
    /// In flight.
    Under,
}

/// The unit of offsets and sizes, and how they become sectors.
#[derive(Debug)]
pub(super) struct Grain {
    /// Bytes of a unit: those of a sector, or 1.
    pub(super) bytes: u64,
    /// Where the unit is a byte: an I/O takes the whole pages of this many bytes that it touches.
    pub(super) page: u64,
    /// End of the region on the device.
    pub(super) end: u64,
}

impl Grain {
    /// First sector and sectors of an I/O.
    #[inline]
    fn span(&self, offset: u64, length: u32) -> (u64, u32) {
        if self.bytes == SECTOR_BYTES {
            return (offset, length);
        }
        let end = (offset + u64::from(length)).next_multiple_of(self.page).min(self.end);
        let start = offset / self.page * self.page;
        (start / SECTOR_BYTES, ((end - start) / SECTOR_BYTES) as u32)
    }
}

/// A file that waits for its turn.
#[derive(Debug)]
pub(super) struct OtherFile {
    pub(super) places: [Place; 3],
    pub(super) coverage: Coverage,
}

/// The generator of one instance of a job.
#[derive(Debug)]
pub(super) struct Generator {
    pub(super) draws: Draws,
    pub(super) mix: Mix,
    pub(super) mixer: Mixer,
    pub(super) streams: [Stream; 3],
    pub(super) coverage: Coverage,
    /// The files beside the one that `streams` and `coverage` are in, and which is next.
    pub(super) others: Vec<OtherFile>,
    pub(super) turn: usize,
    pub(super) grain: Grain,
    pub(super) depth: u32,
    /// Outstanding I/Os down to which a full queue drains before the next I/O.
    pub(super) refill_at: u32,
    pub(super) stop: Limits,
    pub(super) schedule: Schedule,
    pub(super) flush_every: u32,
    pub(super) flush_at_end: bool,
    pub(super) think: Option<ThinkTime>,
    pub(super) burst: Option<Burst>,
    pub(super) paced: bool,
    pub(super) submits: SubmitMode,
    pub(super) rate_sleep: Option<RateSleep>,
    pub(super) outstanding: u32,
    pub(super) draining: bool,
    pub(super) flush: Flush,
    /// Writes since the last flush.
    pub(super) unflushed: u32,
    pub(super) last_completion: Nanos,
    /// The block that was trimmed and is to be written: offset in the file and length, in grains.
    pub(super) trimmed: Option<(u64, u32)>,
    /// I/Os that still follow the last random offset (`rw=randread:8`).
    pub(super) run_left: u32,
    pub(super) done: bool,
}

impl Generator {
    /// A generator without I/O: the base for struct updates.
    pub(super) fn idle(draws: Draws) -> Generator {
        Generator {
            draws,
            mix: Mix::Read,
            mixer: Mixer::default(),
            streams: Default::default(),
            coverage: Coverage::Independent,
            others: Vec::new(),
            turn: 0,
            grain: Grain { bytes: SECTOR_BYTES, page: SECTOR_BYTES, end: 0 },
            depth: 1,
            refill_at: 0,
            stop: Limits { length: 0, ios: 0, passes: 0 },
            schedule: Schedule::default(),
            flush_every: 0,
            flush_at_end: false,
            think: None,
            burst: None,
            paced: false,
            submits: SubmitMode::Inline,
            rate_sleep: None,
            outstanding: 0,
            draining: false,
            flush: Flush::No,
            unflushed: 0,
            last_completion: Nanos::ZERO,
            trimmed: None,
            run_left: 0,
            done: false,
        }
    }

    fn begin(&mut self, now: Nanos) {
        let (from, to) = self.schedule.delay;
        let delay = from + Nanos(self.draws.own.below((to.0 - from.0).saturating_add(1)));
        self.schedule.begun = true;
        self.schedule.start = now + delay;
        self.schedule.end = self.schedule.length.map_or(Nanos::MAX, |length| self.schedule.start + length);
        let start = self.schedule.start;
        for stream in &mut self.streams {
            stream.pace.due = start.0 as f64;
        }
        if let Some(think) = &mut self.think {
            think.since = start;
        }
        if let Some(burst) = &mut self.burst {
            burst.until = start;
        }
    }

    /// All I/O is issued: flush if requested, then end.
    fn finish(&mut self) -> Next {
        if self.flush_at_end && self.unflushed > 0 && self.flush == Flush::No {
            self.flush = Flush::Wanted;
            return self.flush();
        }
        self.done = true;
        Next::Done
    }

    /// Issues only the flush until it has completed.
    fn flush(&mut self) -> Next {
        if self.outstanding > 0 {
            return Next::Blocked;
        }
        self.flush = Flush::Under;
        self.unflushed = 0;
        self.outstanding = 1;
        let flags = Flags::SYNC.with(Flags::PREFLUSH);
        Next::Issue(Want { op: Op::Flush, sector: 0, sectors: 0, flags, ioprio: None, stream: 0, task: 0 })
    }

    fn wait(&self, until: Nanos) -> Option<Next> {
        Some(Next::Wait(until.min(self.schedule.end)))
    }

    /// Think time, if it is due.
    fn pause(&mut self, now: Nanos) -> Option<Next> {
        let think = self.think.as_mut()?;
        think.check(now);
        if think.phase == Thinking::Draining {
            if self.outstanding > 0 {
                return Some(Next::Blocked);
            }
            think.phase = Thinking::Until(self.last_completion + think.time);
        }
        let Thinking::Until(until) = think.phase else { return None };
        if now < until {
            return self.wait(until);
        }
        think.phase = Thinking::No;
        if think.lost {
            self.drop_backlog(now);
        }
        None
    }

    /// Makes overdue I/O due now, instead of catching up.
    fn drop_backlog(&mut self, now: Nanos) {
        for stream in &mut self.streams {
            stream.pace.due = stream.pace.due.max(now.0 as f64);
        }
    }

    /// The pause between bursts, if it is due.
    fn rest(&mut self, now: Nanos) -> Option<Next> {
        let burst = self.burst.as_mut()?;
        let draw_length = burst.until;
        let in_pause = burst.in_pause(now, &mut self.draws.own);
        let until = burst.until;
        if until != draw_length && !in_pause {
            self.drop_backlog(now);
        }
        if in_pause { self.wait(until) } else { None }
    }

    /// The direction of the next I/O; under a rate, with the time when it is due.
    #[inline]
    fn direction(&mut self, now: Nanos) -> (usize, Nanos) {
        let dir = match self.mix {
            Mix::Read => READ,
            Mix::Write => WRITE,
            Mix::Trim => TRIM,
            Mix::TrimWrite if self.trimmed.is_some() => WRITE,
            Mix::TrimWrite => TRIM,
            Mix::ReadWrite => self.mixer.draw(&mut self.draws),
        };
        if !self.paced || self.streams[dir].ready(now) {
            return (dir, now);
        }
        let due = |dir: usize| self.streams[dir].pace.due;
        let other = dir ^ 1;
        let dir = if self.mix == Mix::ReadWrite && due(other) < due(dir) { other } else { dir };
        self.mixer.dir = dir;
        (dir, Nanos(due(dir).ceil() as u64).max(now))
    }

    /// The direction of the next I/O once it is due, or what to do until then.
    fn due(&mut self, now: Nanos) -> Result<usize, Next> {
        if let Some(sleep) = &mut self.rate_sleep {
            if self.outstanding > 0 {
                return Err(Next::Blocked);
            }
            let until = *sleep.until.get_or_insert(self.last_completion + sleep.length);
            let dir = sleep.dir;
            if now < until {
                return Err(Next::Wait(until.min(self.schedule.end)));
            }
            self.rate_sleep = None;
            return Ok(dir);
        }
        let (dir, due) = self.direction(now);
        if due == now {
            return Ok(dir);
        }
        if self.submits == SubmitMode::Offload || self.outstanding == 0 {
            return Err(Next::Wait(due.min(self.schedule.end)));
        }
        self.rate_sleep = Some(RateSleep { dir, length: due.since(now), until: None });
        Err(Next::Blocked)
    }

    /// Offset in the file and length of the next I/O, in grains; `None` after the last pass.
    #[inline]
    fn block(&mut self, dir: usize) -> Option<(u64, u32)> {
        if let Some(block) = self.trimmed.take() {
            return Some(block);
        }
        let stream = &mut self.streams[dir];
        let (offset, random) = match stream.offsets {
            Offsets::Sequential { step } => {
                let (offset, wrapped) = stream.sequential(step);
                if wrapped && self.stop.passes != u64::MAX {
                    self.stop.passes -= 1;
                    if self.stop.passes == 0 {
                        return None;
                    }
                }
                (offset, false)
            }
            Offsets::Random { run, same } => {
                match stream.continued((run, same), &mut self.run_left, dir, &mut self.draws) {
                    Some(offset) => (offset, false),
                    None => (self.coverage.draw(stream, &mut self.draws), true),
                }
            }
        };
        let mut sectors = stream.sizes.draw_within(stream.length - offset, stream.min, dir, &mut self.draws);
        if random {
            sectors = self.coverage.visit(stream, offset, sectors);
        }
        stream.place.last = offset;
        stream.place.position = Some(offset + u64::from(sectors));
        if self.mix == Mix::TrimWrite {
            self.trimmed = Some((offset, sectors));
        }
        Some((offset, sectors))
    }

    /// Goes on to the next file.
    fn next_file(&mut self) {
        let other = &mut self.others[self.turn];
        for (stream, place) in self.streams.iter_mut().zip(&mut other.places) {
            std::mem::swap(&mut stream.place, place);
        }
        std::mem::swap(&mut self.coverage, &mut other.coverage);
        self.turn = (self.turn + 1) % self.others.len();
    }

    /// Accounts for an I/O about to be issued.
    #[inline]
    fn book(&mut self, dir: usize, sectors: u32) {
        self.outstanding += 1;
        self.draining = self.outstanding >= self.depth;
        // A trim followed by its write counts as one I/O.
        if !(self.mix == Mix::TrimWrite && dir == TRIM) {
            self.stop.length = self.stop.length.saturating_sub(u64::from(sectors));
            self.stop.ios = self.stop.ios.saturating_sub(1);
        }
        if let Some(think) = &mut self.think {
            think.issued += 1;
            think.unchecked = true;
        }
        if dir != TRIM {
            self.mixer.issued[dir] += 1;
        }
        if dir == WRITE {
            self.unflushed = self.unflushed.saturating_add(1);
            if self.flush_every > 0 && self.unflushed >= self.flush_every {
                self.flush = Flush::Wanted;
            }
        }
        if self.paced {
            let pace = &mut self.streams[dir].pace;
            pace.due += match pace.poisson {
                true if pace.ns_per_io > 0.0 => pace.ns_per_io * self.draws.own.exponential(),
                true => 0.0,
                false => pace.ns_per_unit * f64::from(sectors),
            };
        }
    }
}

impl Workload for Generator {
    #[inline]
    fn next(&mut self, now: Nanos) -> Next {
        if self.done {
            return Next::Done;
        }
        if !self.schedule.begun {
            self.begin(now);
        }
        if now < self.schedule.start {
            return Next::Wait(self.schedule.start);
        }
        match self.flush {
            Flush::No => {}
            Flush::Wanted => return self.flush(),
            Flush::Under if self.outstanding > 0 => return Next::Blocked,
            Flush::Under => self.flush = Flush::No,
        }
        let over = self.stop.length == 0 || self.stop.ios == 0 || now >= self.schedule.end;
        if over && (self.trimmed.is_none() || now >= self.schedule.end) {
            return self.finish();
        }
        if self.outstanding >= self.depth || (self.draining && self.outstanding > self.refill_at) {
            return Next::Blocked;
        }
        if self.think.is_some()
            && let Some(next) = self.pause(now)
        {
            return next;
        }
        if self.burst.is_some()
            && let Some(next) = self.rest(now)
        {
            return next;
        }
        let dir = match self.due(now) {
            Ok(dir) => dir,
            Err(until) => return until,
        };
        let Some((offset, sectors)) = self.block(dir) else {
            self.stop.ios = 0;
            return self.finish();
        };
        self.book(dir, sectors);
        let stream = &self.streams[dir];
        let ioprio = match stream.always_preferred {
            true => Some(stream.priority),
            false if stream.preferred == 0 => None,
            false => (self.draws.priority() < stream.preferred).then_some(stream.priority),
        };
        let (sector, sectors) = self.grain.span(stream.place.start + offset, sectors);
        let want = Want { op: stream.op, sector, sectors, flags: stream.flags, ioprio, stream: 0, task: 0 };
        if !self.others.is_empty() && self.trimmed.is_none() {
            self.next_file();
        }
        Next::Issue(want)
    }

    #[inline]
    fn completed(&mut self, now: Nanos, _task: u16, _lat: Nanos) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.last_completion = now;
        if let Some(think) = &mut self.think {
            think.completed += u64::from(self.flush != Flush::Under);
        }
    }
}
