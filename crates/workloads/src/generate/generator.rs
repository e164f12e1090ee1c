//! The running generator: decides what the next I/O is and when it is due. It does not allocate after it is built.

use dumbwaiter_block::{Flags, Ioprio, Nanos, Op};

use super::random::{Permutation, Random, Zipf};
use super::value::{BurstProcess, Mix, READ, TRIM, WRITE};
use super::visited::Visited;
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
    pub(super) sectors: u64,
    pub(super) ios: u64,
    pub(super) passes: u64,
}

/// Pauses between I/Os.
#[derive(Debug, Default)]
pub(super) struct ThinkTime {
    pub(super) time: Nanos,
    pub(super) blocks: u32,
    pub(super) after: Option<Nanos>,
    pub(super) lost: bool,
    pub(super) issued: u32,
    pub(super) since: Nanos,
    pub(super) until: Option<Nanos>,
}

/// Bursts and the pauses between them.
#[derive(Debug)]
pub(super) struct Burst {
    on: Nanos,
    off: Nanos,
    process: BurstProcess,
    working: bool,
    until: Nanos,
}

impl Burst {
    pub(super) fn new(on: Nanos, off: Nanos, process: BurstProcess) -> Burst {
        Burst { on, off, process, working: false, until: Nanos::ZERO }
    }

    fn draw_length(&self, mean: Nanos, random: &mut Random) -> Nanos {
        match self.process {
            BurstProcess::Fixed => mean,
            BurstProcess::Exponential => Nanos(((mean.0 as f64 * random.exponential()) as u64).max(1)),
        }
    }

    /// Advances to `now`; returns whether this is a pause.
    fn in_pause(&mut self, now: Nanos, random: &mut Random) -> bool {
        while now >= self.until {
            self.working = !self.working;
            let draw_length = self.draw_length(if self.working { self.on } else { self.off }, random);
            self.until += draw_length;
        }
        !self.working
    }
}

/// Rate limit of a direction: when its next I/O is due.
#[derive(Debug, Default)]
pub(super) struct RateLimit {
    /// 0 for no limit.
    pub(super) ns_per_sector: f64,
    pub(super) ns_per_io: f64,
    pub(super) poisson: bool,
    /// In ns of run time, with the fraction, so that rounding does not accumulate.
    pub(super) due: f64,
}

/// Distribution of block sizes, in sectors.
#[derive(Debug)]
pub(super) enum Sizes {
    Fixed(u32),
    /// A multiple of `step`, uniform over `min..min + max` and at most `max`.
    Range {
        min: u32,
        max: u32,
        step: u32,
    },
    /// Cumulative fractions of 2^32, with the sizes.
    Split(Vec<(u32, u32)>),
    LogNormal {
        log_median: f64,
        sigma: f64,
        min: u32,
        max: u32,
    },
}

impl Sizes {
    #[inline]
    fn draw(&self, random: &mut Random) -> u32 {
        match self {
            Sizes::Fixed(n) => *n,
            Sizes::Range { min, max, step } => {
                let draw = u64::from(*min) + random.below(u64::from(*max));
                (draw / u64::from(*step) * u64::from(*step)).min(u64::from(*max)) as u32
            }
            Sizes::Split(bounds) => {
                let draw = (random.bits() >> 32) as u32;
                let found = bounds.iter().find(|(bound, _)| draw < *bound).or(bounds.last());
                found.expect("a split has parts").1
            }
            Sizes::LogNormal { log_median, sigma, min, max } => {
                let size = libm::exp(log_median + sigma * random.normal());
                let steps = (size / f64::from(*min) + 0.5).min(f64::from(max / min)) as u32;
                steps.max(1) * min
            }
        }
    }

    /// A size of at most `room` sectors, which holds the smallest.
    #[inline]
    fn draw_within(&self, room: u64, min: u32, random: &mut Random) -> u32 {
        for _ in 0..DRAWS {
            let sectors = self.draw(random);
            if u64::from(sectors) <= room {
                return sectors;
            }
        }
        min
    }
}

/// Draws of a size that fits before the end of the region; after them the smallest is taken.
const DRAWS: u32 = 64;

/// Distribution of random offsets: numbers of aligned blocks in the region.
#[derive(Debug, Default)]
pub(super) enum Sampler {
    #[default]
    Uniform,
    Zipf {
        zipf: Zipf,
        blocks: u64,
        centre: Option<f64>,
        scatter: Option<Permutation>,
    },
    Pareto {
        power: f64,
        blocks: u64,
        centre: Option<f64>,
        scatter: Option<Permutation>,
    },
    Normal {
        mean: f64,
        deviation: f64,
        blocks: u64,
    },
    /// Cumulative fraction, first block, number of blocks.
    Zones(Vec<(f64, u64, u64)>),
}

impl Sampler {
    /// Draws a block number; `fitting` is the number of places that hold a whole block.
    #[inline]
    fn draw(&self, fitting: u64, random: &mut Random) -> u64 {
        let sampler = match self {
            Sampler::Uniform => return random.below(fitting),
            Sampler::Zipf { zipf, blocks, centre, scatter } => ranked(zipf.draw(random), *blocks, *centre, scatter),
            Sampler::Pareto { power, blocks, centre, scatter } => {
                let rank = (*blocks as f64 * libm::exp(power * libm::log(1.0 - random.unit()))) as u64;
                ranked(rank.min(blocks - 1), *blocks, *centre, scatter)
            }
            Sampler::Normal { mean, deviation, blocks } => {
                let mut tries = (0..64).map(|_| mean + deviation * random.normal());
                let inside = tries.find(|x| *x >= 0.0 && *x < *blocks as f64);
                // A centre at the edge with almost no deviation never falls inside.
                inside.map_or(blocks - 1, |x| x as u64)
            }
            Sampler::Zones(bounds) => {
                let draw = random.unit();
                let zone = bounds.partition_point(|(bound, ..)| *bound <= draw).min(bounds.len() - 1);
                bounds[zone].1 + random.below(bounds[zone].2)
            }
        };
        sampler.min(fitting - 1)
    }
}

/// The block with this rank of popularity.
fn ranked(rank: u64, blocks: u64, centre: Option<f64>, scatter: &Option<Permutation>) -> u64 {
    match (scatter, centre) {
        (Some(scatter), _) => scatter.apply(rank),
        (None, centre) => ((centre.unwrap_or(0.0) * blocks as f64) as u64).wrapping_add(rank) % blocks,
    }
}

/// Order of offsets.
#[derive(Debug)]
pub(super) enum Offsets {
    /// Sectors added between one I/O's end and the next one's start.
    Sequential { step: i64 },
    /// I/Os per random offset, and whether they repeat the offset.
    Random { run: u32, same: bool },
}

/// State of one direction.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) op: Op,
    pub(super) flags: Flags,
    pub(super) sizes: Sizes,
    /// The smallest size.
    pub(super) min: u32,
    /// Alignment of random offsets.
    pub(super) unit: u32,
    /// Places that hold a block of the smallest size.
    pub(super) fitting: u64,
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) sampler: Sampler,
    pub(super) offsets: Offsets,
    pub(super) random_share: u32,
    pub(super) always_random: bool,
    pub(super) pace: RateLimit,
    pub(super) preferred: u32,
    pub(super) always_preferred: bool,
    pub(super) priority: Ioprio,
    /// End of the last I/O, relative to the region; `None` before the first.
    pub(super) position: Option<u64>,
    pub(super) last: u64,
    pub(super) run_left: u32,
}

impl Default for Stream {
    fn default() -> Self {
        Stream {
            op: Op::Read,
            flags: Flags::NONE,
            sizes: Sizes::Fixed(8),
            min: 8,
            unit: 8,
            fitting: 1,
            start: 0,
            length: 8,
            sampler: Sampler::Uniform,
            offsets: Offsets::Sequential { step: 0 },
            random_share: 0,
            always_random: true,
            pace: RateLimit::default(),
            preferred: 0,
            always_preferred: false,
            priority: Ioprio::default(),
            position: None,
            last: 0,
            run_left: 0,
        }
    }
}

impl Stream {
    /// Offset of the next sequential I/O in the region, and whether it begins a new pass.
    fn sequential(&self, step: i64) -> (u64, bool) {
        let room = self.length - u64::from(self.min);
        // A backward pass begins at the end of the region.
        let first = if step < 0 { self.length.checked_add_signed(step) } else { Some(0) };
        let first = first.unwrap_or(0).min(room);
        let next = match self.position {
            None => return (first, false),
            Some(position) => position.checked_add_signed(step),
        };
        match next.filter(|next| *next <= room) {
            Some(next) => (next, false),
            None => (first, true),
        }
    }

    /// Offset of the next I/O of a random pattern if it continues sequentially or repeats the last.
    #[inline]
    fn continued(&mut self, run: u32, same: bool, random: &mut Random) -> Option<u64> {
        if self.run_left > 0 {
            self.run_left -= 1;
            let next = if same { self.last } else { self.position.unwrap_or(0) };
            if next + u64::from(self.min) <= self.length {
                return Some(next);
            }
        } else if !self.always_random && (random.bits() >> 32) as u32 >= self.random_share {
            return Some(self.sequential(0).0);
        }
        self.run_left = run - 1;
        None
    }

    fn ready(&self, now: Nanos) -> bool {
        self.pace.due <= now.0 as f64
    }
}

/// How random offsets cover the region.
#[derive(Debug)]
pub(super) enum Coverage {
    /// Draws are independent.
    Independent,
    /// Blocks of one size in a random order, each once, and the number visited.
    Permuted(Permutation, u64),
    /// Blocks of several sizes: a draw that hits a visited block moves on to the next free one, and the I/O ends where the
    /// free blocks end. Directions share the map, each in blocks of its own smallest size (as fio does).
    Mapped(Visited),
}

impl Coverage {
    /// A random offset in the region of a direction.
    #[inline]
    fn draw(&mut self, stream: &Stream, random: &mut Random) -> u64 {
        let block = match self {
            Coverage::Independent => stream.sampler.draw(stream.fitting, random),
            Coverage::Permuted(order, visited) => {
                if *visited == order.len() {
                    *visited = 0;
                    order.rekey(random);
                }
                *visited += 1;
                order.apply(*visited - 1)
            }
            Coverage::Mapped(map) => {
                let draw = stream.sampler.draw(stream.fitting, random);
                let inside = |block: &u64| *block < stream.fitting;
                match map.next_free(draw).filter(inside).or_else(|| map.next_free(0).filter(inside)) {
                    Some(block) => block,
                    None => {
                        map.clear();
                        draw
                    }
                }
            }
        };
        block * u64::from(stream.unit)
    }

    /// Marks what an I/O at a random offset visits; returns its length in sectors, which may be shorter.
    #[inline]
    fn visit(&mut self, stream: &Stream, offset: u64, sectors: u32) -> u32 {
        let Coverage::Mapped(map) = self else { return sectors };
        let blocks = map.visit(offset / u64::from(stream.unit), u64::from(sectors.div_ceil(stream.unit)));
        sectors.min(blocks as u32 * stream.unit)
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

/// The generator of one instance of a job.
#[derive(Debug)]
pub(super) struct Generator {
    pub(super) random: Random,
    pub(super) mix: Mix,
    pub(super) reads: u32,
    pub(super) streams: [Stream; 3],
    pub(super) coverage: Coverage,
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
    pub(super) outstanding: u32,
    pub(super) draining: bool,
    pub(super) flush: Flush,
    /// Writes since the last flush.
    pub(super) unflushed: u32,
    pub(super) last_completion: Nanos,
    /// The block that was trimmed and is to be written: offset in the region and sectors.
    pub(super) trimmed: Option<(u64, u32)>,
    pub(super) done: bool,
}

impl Generator {
    /// A generator without I/O: the base for struct updates.
    pub(super) fn idle(random: Random) -> Generator {
        Generator {
            random,
            mix: Mix::Read,
            reads: 0,
            streams: Default::default(),
            coverage: Coverage::Independent,
            depth: 1,
            refill_at: 0,
            stop: Limits { sectors: 0, ios: 0, passes: 0 },
            schedule: Schedule::default(),
            flush_every: 0,
            flush_at_end: false,
            think: None,
            burst: None,
            paced: false,
            outstanding: 0,
            draining: false,
            flush: Flush::No,
            unflushed: 0,
            last_completion: Nanos::ZERO,
            trimmed: None,
            done: false,
        }
    }

    fn begin(&mut self, now: Nanos) {
        let (from, to) = self.schedule.delay;
        let delay = from + Nanos(self.random.below((to.0 - from.0).saturating_add(1)));
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

    /// ThinkTime time between I/Os, if it is due.
    fn pause(&mut self, now: Nanos) -> Option<Next> {
        let think = self.think.as_mut()?;
        if think.until.is_none() {
            let timed = think.after.is_some_and(|after| now.since(think.since) >= after && think.issued > 0);
            if think.issued < think.blocks && !timed {
                return None;
            }
            if self.outstanding > 0 {
                return Some(Next::Blocked);
            }
            think.until = Some(self.last_completion + think.time);
        }
        let until = think.until.filter(|until| now < *until);
        if until.is_none() {
            think.until = None;
            think.issued = 0;
            think.since = now;
            if think.lost {
                self.drop_backlog(now);
            }
        }
        self.wait(until?)
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
        let in_pause = burst.in_pause(now, &mut self.random);
        let until = burst.until;
        if until != draw_length && !in_pause {
            self.drop_backlog(now);
        }
        if in_pause { self.wait(until) } else { None }
    }

    /// The direction of the next I/O, or the time when one is due.
    #[inline]
    fn direction(&mut self, now: Nanos) -> Result<usize, f64> {
        let single = match self.mix {
            Mix::Read => READ,
            Mix::Write => WRITE,
            Mix::Trim => TRIM,
            Mix::TrimWrite if self.trimmed.is_some() => WRITE,
            Mix::TrimWrite => TRIM,
            Mix::ReadWrite => {
                let (read, write) = match self.paced {
                    true => (self.streams[READ].ready(now), self.streams[WRITE].ready(now)),
                    false => (true, true),
                };
                return match (read, write) {
                    (true, true) => Ok(if ((self.random.bits() >> 32) as u32) < self.reads { READ } else { WRITE }),
                    (true, false) => Ok(READ),
                    (false, true) => Ok(WRITE),
                    (false, false) => Err(self.streams[READ].pace.due.min(self.streams[WRITE].pace.due)),
                };
            }
        };
        match !self.paced || self.streams[single].ready(now) {
            true => Ok(single),
            false => Err(self.streams[single].pace.due),
        }
    }

    /// Offset in the region and sectors of the next I/O; `None` after the last pass.
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
            Offsets::Random { run, same } => match stream.continued(run, same, &mut self.random) {
                Some(offset) => (offset, false),
                None => (self.coverage.draw(stream, &mut self.random), true),
            },
        };
        let mut sectors = stream.sizes.draw_within(stream.length - offset, stream.min, &mut self.random);
        if random {
            sectors = self.coverage.visit(stream, offset, sectors);
        }
        stream.last = offset;
        stream.position = Some(offset + u64::from(sectors));
        if self.mix == Mix::TrimWrite {
            self.trimmed = Some((offset, sectors));
        }
        Some((offset, sectors))
    }

    /// Accounts for an I/O about to be issued.
    #[inline]
    fn book(&mut self, dir: usize, sectors: u32) {
        self.outstanding += 1;
        self.draining = self.outstanding >= self.depth;
        // A trim followed by its write counts as one I/O.
        if !(self.mix == Mix::TrimWrite && dir == TRIM) {
            self.stop.sectors = self.stop.sectors.saturating_sub(u64::from(sectors));
            self.stop.ios = self.stop.ios.saturating_sub(1);
        }
        if let Some(think) = &mut self.think {
            think.issued += 1;
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
                true if pace.ns_per_io > 0.0 => pace.ns_per_io * self.random.exponential(),
                true => 0.0,
                false => pace.ns_per_sector * f64::from(sectors),
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
        let over = self.stop.sectors == 0 || self.stop.ios == 0 || now >= self.schedule.end;
        if over && (self.trimmed.is_none() || now >= self.schedule.end) {
            return self.finish();
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
        if self.outstanding >= self.depth || (self.draining && self.outstanding > self.refill_at) {
            return Next::Blocked;
        }
        let dir = match self.direction(now) {
            Ok(dir) => dir,
            Err(due) => return Next::Wait(Nanos(due.ceil() as u64).min(self.schedule.end)),
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
            false => (((self.random.bits() >> 32) as u32) < stream.preferred).then_some(stream.priority),
        };
        let sector = stream.start + offset;
        Next::Issue(Want { op: stream.op, sector, sectors, flags: stream.flags, ioprio, stream: 0, task: 0 })
    }

    #[inline]
    fn completed(&mut self, now: Nanos, _task: u16, _lat: Nanos) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.last_completion = now;
    }
}
