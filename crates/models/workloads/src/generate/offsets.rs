//! Where the I/Os of a job go: block sizes, distributions of offsets, and how offsets cover the region.

use dumbwaiter_block::{Flags, Ioprio, Nanos, Op};

use super::draws::Draws;
use super::pauses::RateLimit;
use super::random::{Permutation, Random, Zipf};
use super::visited::Visited;

/// Distribution of block sizes, in grains.
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
    fn draw(&self, room: u64, dir: usize, draws: &mut Draws) -> u32 {
        match self {
            Sizes::Fixed(n) => *n,
            Sizes::Range { min, max, step } => {
                let draw = u64::from(*min) + draws.size_below(dir, u64::from(*max));
                (draw / u64::from(*step) * u64::from(*step)).min(u64::from(*max)) as u32
            }
            Sizes::Split(bounds) => {
                let draw = draws.size_bits(dir);
                // fio takes the next part that fits.
                let any = !draws.are_fios();
                let fits = |sectors: u32| any || u64::from(sectors) <= room;
                let found = bounds.iter().find(|(bound, n)| draw < *bound && fits(*n)).or(bounds.last());
                found.expect("a split has parts").1
            }
            Sizes::LogNormal { log_median, sigma, min, max } => {
                let size = libm::exp(log_median + sigma * draws.own.normal());
                let steps = (size / f64::from(*min) + 0.5).min(f64::from(max / min)) as u32;
                steps.max(1) * min
            }
        }
    }

    /// A size of at most `room` grains, which holds the smallest.
    #[inline]
    pub(super) fn draw_within(&self, room: u64, min: u32, dir: usize, draws: &mut Draws) -> u32 {
        let most = if draws.are_fios() { FIO_DRAWS } else { DRAWS };
        for _ in 0..most {
            let sectors = self.draw(room, dir, draws);
            if u64::from(sectors) <= room {
                return sectors;
            }
        }
        min
    }
}

/// Draws of a size that fits before the end of the region; after them the smallest is taken.
const DRAWS: u32 = 64;
/// The same for fio's numbers: fio draws until a size fits.
const FIO_DRAWS: u32 = 1 << 16;

/// Distribution of random offsets: numbers of aligned blocks in the region.
#[derive(Debug, Default)]
pub(super) enum Sampler {
    #[default]
    Uniform,
    /// Few blocks are hot.
    Hot { law: Law, places: Places },
    /// Cumulative fraction, first block, number of blocks.
    Zones(Vec<(f64, u64, u64)>),
}

impl Sampler {
    /// Draws a block number; `fitting` is the number of places that hold a whole block.
    #[inline]
    fn draw(&self, fitting: u64, draws: &mut Draws) -> u64 {
        let random = &mut draws.own;
        let sampler = match self {
            Sampler::Uniform => return draws.block(fitting),
            Sampler::Hot { law, places } => places.of(law.draw(places.blocks, random)),
            Sampler::Zones(bounds) => {
                let draw = random.unit();
                let zone = bounds.partition_point(|(bound, ..)| *bound <= draw).min(bounds.len() - 1);
                bounds[zone].1 + random.below(bounds[zone].2)
            }
        };
        sampler.min(fitting - 1)
    }
}

/// How often the blocks of a region are accessed, by rank.
#[derive(Debug)]
pub(super) enum Law {
    Zipf(Zipf),
    /// With this exponent of a uniform draw.
    Pareto(f64),
    /// The middle rank is the hottest. As measured of fio 3.33 (and unlike its name): the mean of twelve uniform draws, whose
    /// deviation is 8.3 % of the region, and a uniform one of this width in blocks.
    Normal(f64),
}

impl Law {
    #[inline]
    fn draw(&self, blocks: u64, random: &mut Random) -> u64 {
        let all = blocks as f64;
        match self {
            Law::Zipf(zipf) => zipf.draw(random),
            Law::Pareto(power) => ((all * libm::exp(power * libm::log(1.0 - random.unit()))) as u64).min(blocks - 1),
            Law::Normal(width) => {
                let mean = (0..12).map(|_| random.unit()).sum::<f64>() / 12.0;
                let at = (mean * all + (random.unit() - 0.5) * width) as i64;
                at.rem_euclid(blocks as i64) as u64
            }
        }
    }
}

/// Where the blocks of each rank lie: scattered over the region, as in fio.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) blocks: u64,
    scatter: Permutation,
    /// Added to each place, so that the hottest lies at the centre.
    shift: u64,
}

impl Places {
    /// Scatters `blocks`, with the one of rank `hottest` at `centre` (0 to 1) if that is given.
    pub(super) fn new(blocks: u64, hottest: u64, centre: Option<f64>, random: &mut Random) -> Places {
        let scatter = Permutation::new(blocks, random);
        let at = |centre: f64| ((centre * blocks as f64) as u64).min(blocks - 1);
        let shift = centre.map_or(0, |centre| at(centre) + blocks - scatter.apply(hottest));
        Places { blocks, scatter, shift: shift % blocks }
    }

    #[inline]
    fn of(&self, rank: u64) -> u64 {
        (self.scatter.apply(rank) + self.shift) % self.blocks
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

/// State of one direction. Sizes and offsets are in grains (see [`Grain`](super::generator::Grain)): sectors, if not bytes.
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
    pub(super) place: Place,
    pub(super) length: u64,
    pub(super) sampler: Sampler,
    pub(super) offsets: Offsets,
    pub(super) random_share: u32,
    pub(super) always_random: bool,
    pub(super) pace: RateLimit,
    pub(super) preferred: u32,
    pub(super) always_preferred: bool,
    pub(super) priority: Ioprio,
}

/// Where a direction is in a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// Start of the file on the device.
    pub(super) start: u64,
    /// End of the last I/O, relative to the file; `None` before the first.
    pub(super) position: Option<u64>,
    pub(super) last: u64,
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
            place: Place::default(),
            length: 8,
            sampler: Sampler::Uniform,
            offsets: Offsets::Sequential { step: 0 },
            random_share: 0,
            always_random: true,
            pace: RateLimit::default(),
            preferred: 0,
            always_preferred: false,
            priority: Ioprio::default(),
        }
    }
}

impl Stream {
    /// Offset of the next sequential I/O in the region, and whether it begins a new pass.
    pub(super) fn sequential(&self, step: i64) -> (u64, bool) {
        let room = self.length - u64::from(self.min);
        // A backward pass begins at the end of the region.
        let first = if step < 0 { self.length.checked_add_signed(step) } else { Some(0) };
        let first = first.unwrap_or(0).min(room);
        let next = match self.place.position {
            None => return (first, false),
            Some(position) => position.checked_add_signed(step),
        };
        match next.filter(|next| *next <= room) {
            Some(next) => (next, false),
            None => (first, true),
        }
    }

    /// Offset of the next I/O of a random pattern if it continues sequentially or repeats the direction's last. A run of
    /// `run` I/Os, of which `run_left` are left, counts both directions, as in fio.
    #[inline]
    pub(super) fn continued(
        &self,
        (run, same): (u32, bool),
        run_left: &mut u32,
        dir: usize,
        draws: &mut Draws,
    ) -> Option<u64> {
        if *run_left > 0 {
            *run_left -= 1;
            let next = if same { self.place.last } else { self.place.position.unwrap_or(0) };
            if next + u64::from(self.min) <= self.length {
                return Some(next);
            }
        } else if !self.always_random && draws.order(dir) >= self.random_share {
            return Some(self.sequential(0).0);
        }
        *run_left = run - 1;
        None
    }

    pub(super) fn ready(&self, now: Nanos) -> bool {
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
    pub(super) fn draw(&mut self, stream: &Stream, draws: &mut Draws) -> u64 {
        let block = match self {
            Coverage::Independent => stream.sampler.draw(stream.fitting, draws),
            Coverage::Permuted(order, visited) => {
                if *visited == order.len() {
                    *visited = 0;
                    order.rekey(&mut draws.own);
                }
                *visited += 1;
                order.apply(*visited - 1)
            }
            Coverage::Mapped(map) => {
                let draw = stream.sampler.draw(stream.fitting, draws);
                let inside = |block: &u64| *block < stream.fitting;
                match map.next_free(draw).filter(inside).or_else(|| map.next_free(0).filter(inside)) {
                    Some(block) => block,
                    None => {
                        map.clear();
                        draws.pass();
                        if draws.are_fios() { stream.sampler.draw(stream.fitting, draws) } else { draw }
                    }
                }
            }
        };
        block * u64::from(stream.unit)
    }

    /// Marks what an I/O at a random offset visits; returns its length in sectors, which may be shorter.
    #[inline]
    pub(super) fn visit(&mut self, stream: &Stream, offset: u64, sectors: u32) -> u32 {
        let Coverage::Mapped(map) = self else { return sectors };
        let blocks = map.visit(offset / u64::from(stream.unit), u64::from(sectors.div_ceil(stream.unit)));
        sectors.min(blocks as u32 * stream.unit)
    }
}
