//! Builds the generator of a job: resolves units and refuses contradictions.

use dumbwaiter_block::{Flags, Ioprio, Nanos, Op, SECTOR_BYTES};

use super::draws::Draws;
use super::fio_random::FioRandom;
use super::generator::{Generator, Grain, Limits, Mixer, OtherFile, Schedule};
use super::offsets::{Coverage, Law, Offsets, Place, Places, Sampler, Sizes, Stream};
use super::pauses::{Burst, RateLimit, ThinkTime};
use super::random::{Permutation, Random, Zipf};
use super::value::{Access, BlockSize, Distribution, Extent, Mix, READ, RateProcess, Sequencer, TRIM, WRITE};
use super::visited::Visited;
use super::{JobSpec, class_of};
use dumbwaiter_text::units::format_size;

/// The run, device and instance that a job is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildContext {
    /// Seed of the run.
    pub seed: u64,
    /// Size of the device in sectors of 512 bytes.
    pub capacity_sectors: u64,
    /// Where it begins in the sectors of all drives.
    pub first_sector: u64,
    /// Number of the job in the scenario, which selects its random stream.
    pub job: u32,
    /// Number of the instance within the job, from 0.
    pub instance: u32,
    /// Number of the replicate, from 0: the first one of a fio file's job does fio's own sequence of I/Os.
    pub replicate: u64,
}

/// Options that contradict each other or do not fit the device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct BuildError {
    /// The option.
    pub key: &'static str,
    /// The reason with its numbers, and the expected value.
    pub reason: String,
}

fn refuse<T>(key: &'static str, reason: impl Into<String>) -> Result<T, BuildError> {
    Err(BuildError { key, reason: reason.into() })
}

/// Largest block size: what block layers take in one call is far less.
const BLOCK_BYTES_MAX: u64 = 1 << 30;
/// Largest discard: block layers cut it up.
const DISCARD_BYTES_MAX: u64 = (1 << 32) * SECTOR_BYTES / 2;
/// What the page cache reads and writes.
const PAGE_BYTES: u64 = 4096;

impl JobSpec {
    /// Directions that it uses, as indices into [`super::PerDir::each`].
    fn used(&self) -> &'static [usize] {
        match self.rw.mix {
            Mix::Read => &[READ],
            Mix::Write => &[WRITE],
            Mix::Trim => &[TRIM],
            Mix::ReadWrite => &[READ, WRITE],
            Mix::TrimWrite => &[TRIM, WRITE],
        }
    }

    /// Sizes in bytes, and alignments, that a direction may have.
    fn sizes(&self, dir: usize) -> Vec<u64> {
        match self.bs.each()[dir] {
            BlockSize::Fixed(n) => vec![*n],
            BlockSize::Range(a, b) => vec![*a, *b],
            BlockSize::Split(parts) => parts.iter().map(|(n, _)| *n).collect(),
            BlockSize::LogNormal { min, max, .. } => vec![*min, *max],
        }
    }

    /// Bytes of the unit of all offsets and sizes in a region: a sector, or a byte where a size is not a multiple of it.
    fn grain(&self) -> u64 {
        let odd = |dir: &usize| {
            let aligned = self.blockalign.each()[*dir].unwrap_or(0);
            self.sizes(*dir).iter().chain([&aligned]).any(|n| !n.is_multiple_of(SECTOR_BYTES))
        };
        let step =
            self.rw.access == Access::Sequential && !self.rw.modifier.unsigned_abs().is_multiple_of(SECTOR_BYTES);
        if step || self.used().iter().any(odd) { 1 } else { SECTOR_BYTES }
    }

    /// Whether the kernel takes I/Os of any number of bytes: those through the page cache. Discards are rounded here.
    fn any_size(&self, dir: usize) -> bool {
        !self.direct || dir == TRIM
    }

    /// Where the last of `instances` of a job of fio ends, if that is beyond a device of `device` bytes: its I/O stays inside, and a
    /// start beyond the end is counted on from the beginning.
    pub fn cut_at(&self, device: u64, instances: u32) -> Option<u64> {
        self.fio_job?;
        let step = self.offset_increment.of(device).saturating_mul(u64::from(instances.saturating_sub(1)));
        let size = self.size.map_or(0, |size| size.of(device));
        let end = self.offset.of(device).saturating_add(step).saturating_add(size);
        Some(end).filter(|end| *end > device)
    }

    /// A note where the device does other I/Os than the job asks for.
    pub(crate) fn rounded_note(&self) -> Option<String> {
        let size = self.used().iter().flat_map(|dir| self.sizes(*dir)).find(|n| !n.is_multiple_of(SECTOR_BYTES))?;
        Some(match self.rw.mix {
            Mix::Trim => format!("bs={size} is no multiple of 512: a discard takes the whole sectors that it touches"),
            _ => format!(
                "bs={size} is no multiple of 512: the device reads and writes the 4 KiB pages that an I/O touches"
            ),
        })
    }

    /// Checks that need no device: contradictory options, and sizes that no block device accepts.
    ///
    /// # Errors
    /// The option and the reason.
    pub fn validate(&self) -> Result<(), BuildError> {
        for dir in self.used().iter().copied() {
            let whole = |n: u64| n > 0 && (self.any_size(dir) || n.is_multiple_of(SECTOR_BYTES));
            let (most, largest) = match dir {
                TRIM => (DISCARD_BYTES_MAX, "1 TiB, the largest discard"),
                _ => (BLOCK_BYTES_MAX, "1 GiB, the largest block size"),
            };
            for n in self.sizes(dir) {
                if !whole(n) {
                    let reason =
                        "a block device has 512-byte sectors, and direct I/O takes whole ones (buffered: direct=0)";
                    return refuse("bs", format!("{n} bytes is not a multiple of 512; {reason}"));
                }
                if n > most {
                    return refuse("bs", format!("{} is more than {largest}", format_size(n)));
                }
            }
            match self.blockalign.each()[dir] {
                Some(align) if !whole(*align) => {
                    return refuse("blockalign", format!("{align} bytes is not a multiple of 512"));
                }
                _ => {}
            }
            if self.rate.each()[dir].is_some() && self.rate_iops.each()[dir].is_some() {
                return refuse("rate_iops", "rate limits the same direction; give one of the two");
            }
        }
        // Through the page cache every byte is an address.
        let whole = self.direct && self.rw.mix != Mix::Trim;
        if whole
            && self.rw.access == Access::Sequential
            && !self.rw.modifier.unsigned_abs().is_multiple_of(SECTOR_BYTES)
        {
            return refuse("rw", format!("the offset modifier {} is not a multiple of 512 bytes", self.rw.modifier));
        }
        for (key, extent) in [("offset", Some(self.offset)), ("offset_increment", Some(self.offset_increment))] {
            if let Some(Extent::Bytes(n)) =
                extent.filter(|e| whole && matches!(e, Extent::Bytes(n) if !n.is_multiple_of(SECTOR_BYTES)))
            {
                return refuse(key, format!("{n} bytes is not a multiple of 512"));
            }
        }
        for (key, extent) in [("size", self.size), ("io_size", self.io_size)] {
            if matches!(extent, Some(Extent::Percent(0.0))) {
                return refuse(key, "0 leaves nothing to do; leave it out for the whole device");
            }
        }
        // Short bursts would be stepped through one by one in a long pause.
        let short = |t: Nanos| t > Nanos::ZERO && t < Nanos::from_us(100);
        if (self.burst_on == Nanos::ZERO) != (self.burst_off == Nanos::ZERO) {
            return refuse("burst_on", "bursts need both burst_on and burst_off");
        }
        if short(self.burst_on) || short(self.burst_off) {
            return refuse("burst_on", "bursts and rests are at least 100us long");
        }
        Ok(())
    }

    /// First byte and length of the region of an instance on a device of `device` bytes, in whole sectors.
    pub fn region(&self, device: u64, instance: u32) -> Result<(u64, u64), BuildError> {
        let step = self.used().iter().map(|dir| self.bs.each()[*dir].min()).min().unwrap_or(SECTOR_BYTES);
        let align = if self.offset_align > 0 { self.offset_align } else { step };
        let place = |extent: Extent| match extent {
            Extent::Bytes(n) => n,
            Extent::Percent(_) => extent.of(device).div_ceil(align).saturating_mul(align),
        };
        let start = place(self.offset).saturating_add(place(self.offset_increment).saturating_mul(u64::from(instance)));
        let sectors = |n: u64| n / SECTOR_BYTES * SECTOR_BYTES;
        let start = match self.fio_job {
            Some(_) if device > 0 => sectors(start % device),
            _ => sectors(start),
        };
        if start >= device {
            let of = if instance > 0 { format!(" of instance {instance}") } else { String::new() };
            return refuse("offset", format!("the start{of}, {start} bytes, is beyond the device of {device} bytes"));
        }
        let rest = device - start;
        let length = match self.size {
            None => rest,
            // fio keeps to the device.
            Some(Extent::Bytes(n)) if n > rest && self.fio_job.is_none() => {
                return refuse("size", format!("{start} + {n} bytes is beyond the device of {device} bytes"));
            }
            Some(extent) => extent.of(device).min(rest),
        };
        let length = sectors(length);
        if self.nrfiles > 1 && self.file_length(length) == 0 {
            let files = self.nrfiles;
            return refuse(
                "nrfiles",
                format!("the region of {length} bytes cannot hold {files} files of a block each"),
            );
        }
        let largest = self.used().iter().map(|dir| self.bs.each()[*dir].max()).max().unwrap_or(SECTOR_BYTES);
        if length < largest {
            return refuse(
                "size",
                format!("the region of {length} bytes cannot hold a block of {}", format_size(largest)),
            );
        }
        Ok((start, length))
    }

    /// Bytes of each of the files of a region of `length` bytes: whole blocks, or 0 where there is no room for one of each size.
    fn file_length(&self, length: u64) -> u64 {
        let sizes = || self.used().iter().map(|dir| self.bs.each()[*dir]);
        let (unit, largest) = (sizes().map(BlockSize::min).min(), sizes().map(BlockSize::max).max());
        let unit = unit.unwrap_or(SECTOR_BYTES).next_multiple_of(self.grain());
        match length / u64::from(self.nrfiles) {
            whole if self.nrfiles == 1 => whole,
            part if part < largest.unwrap_or(unit) => 0,
            part => part / unit * unit,
        }
    }
}

pub(super) fn generator(spec: &JobSpec, context: BuildContext) -> Result<Generator, BuildError> {
    spec.validate()?;
    let device = context.capacity_sectors.saturating_mul(SECTOR_BYTES);
    let (start, region) = spec.region(device, context.instance)?;
    let start = start.saturating_add(context.first_sector.saturating_mul(SECTOR_BYTES));
    let grain = spec.grain();
    let (start, end, length) = (start / grain, (start + region) / grain, spec.file_length(region) / grain);
    let mut random =
        Random::new(&[context.seed, spec.randseed.unwrap_or(0), u64::from(context.job), u64::from(context.instance)]);

    // An unused direction may have sizes that no device accepts.
    let fio = fio_random(spec, context, length);
    // fio seeds again for each pass, unless the job goes on until it is stopped.
    let repeats = spec.randrepeat && !spec.until_stopped();
    let mut streams = [READ, WRITE, TRIM].map(|dir| match spec.used().contains(&dir) {
        true => stream(spec, dir, start, length, fio.is_some()),
        false => Stream::default(),
    });
    let coverage = coverage(spec, &streams, length, fio.is_some(), &mut random);
    // Files that are drives begin where these do.
    let pages = region / u64::from(spec.nrfiles) / PAGE_BYTES * PAGE_BYTES;
    let apart = length.max(pages / grain);
    let others = (1..u64::from(spec.nrfiles)).map(|file| OtherFile {
        places: [READ, WRITE, TRIM].map(|_| Place { start: start + file * apart, ..Place::default() }),
        coverage: self::coverage(spec, &streams, length, fio.is_some(), &mut random),
    });
    let others = others.collect();
    // Hot blocks are scattered, differently for each direction and instance.
    for dir in [READ, WRITE, TRIM].into_iter().filter(|dir| spec.used().contains(dir)) {
        let unit = streams[dir].unit;
        streams[dir].sampler = sampler(spec, dir, unit, length, &mut random);
    }

    let depth = spec.depth();
    let low = spec.iodepth_low.unwrap_or(depth).min(depth - 1);
    let batch = depth.saturating_sub(spec.iodepth_batch_complete_min.max(1));
    let mix = match spec.rw.mix {
        Mix::ReadWrite if spec.rwmixread == 100 => Mix::Read,
        Mix::ReadWrite if spec.rwmixread == 0 => Mix::Write,
        mix => mix,
    };
    Ok(Generator {
        mix,
        mixer: Mixer::new(spec.rwmixread),
        streams,
        coverage,
        others,
        grain: Grain { bytes: grain, page: if spec.rw.mix == Mix::Trim { SECTOR_BYTES } else { PAGE_BYTES }, end },
        depth,
        refill_at: low.min(batch),
        stop: limits(spec, device, length * u64::from(spec.nrfiles)),
        schedule: Schedule {
            delay: spec.startdelay,
            length: spec.runtime.map(|runtime| spec.ramp_time + runtime),
            ..Schedule::default()
        },
        flush_every: [spec.fsync, spec.fdatasync].into_iter().filter(|n| *n > 0).min().unwrap_or(0),
        flush_at_end: spec.end_fsync,
        think: (spec.thinktime > Nanos::ZERO).then(|| ThinkTime {
            time: spec.thinktime,
            blocks: spec.thinktime_blocks.into(),
            counted: spec.thinktime_blocks_type,
            after: spec.thinktime_iotime,
            lost: spec.rate_ignore_thinktime,
            ..ThinkTime::default()
        }),
        burst: (spec.burst_on > Nanos::ZERO).then(|| Burst::new(spec.burst_on, spec.burst_off, spec.burst_process)),
        paced: spec.used().iter().any(|dir| spec.rate.each()[*dir].is_some() || spec.rate_iops.each()[*dir].is_some()),
        submits: spec.io_submit_mode,
        ..Generator::idle(Draws::new(random, fio, repeats))
    })
}

/// fio's generators for a job of a fio file. For more blocks than 32 bits can number, fio uses another generator and we use
/// ours.
fn fio_random(spec: &JobSpec, context: BuildContext, length: u64) -> Option<FioRandom> {
    let grain = spec.grain();
    let unit = spec.used().iter().map(|dir| units(spec.bs.each()[*dir].min(), grain).max(1)).min().unwrap_or(1);
    let number = spec.fio_job.filter(|_| length / u64::from(unit) <= u64::from(u32::MAX))?;
    FioRandom::new(spec, number.saturating_add(context.instance), context.replicate)
}

/// Limits of an instance on a device of `device` bytes and a region of `length` grains.
fn limits(spec: &JobSpec, device: u64, length: u64) -> Limits {
    let grain = spec.grain();
    let until_stopped = spec.until_stopped();
    let loops = u64::from(spec.loops.unwrap_or(1));
    let one_pass_over_holes = spec.rw.access == Access::Sequential && spec.rw.modifier != 0 && spec.io_size.is_none();
    let bytes = match spec.io_size {
        Some(extent) => extent.of(device),
        None => (length * grain).saturating_mul(loops),
    };
    Limits {
        length: if until_stopped || one_pass_over_holes { u64::MAX } else { bytes.div_ceil(grain) },
        ios: if until_stopped { u64::MAX } else { spec.number_ios.unwrap_or(u64::MAX) },
        passes: if until_stopped || !one_pass_over_holes { u64::MAX } else { loops * u64::from(spec.nrfiles) },
    }
}

/// How random offsets of a job cover its region of `length` grains.
///
/// Blocks of one size need no map: a permutation visits each once. A region of more than [`Visited::MAX_BLOCKS`] has none
/// either and draws independently: no run visits enough of it to meet a block twice.
fn coverage(spec: &JobSpec, streams: &[Stream; 3], length: u64, follows_fio: bool, random: &mut Random) -> Coverage {
    let used = spec.used();
    let uniform = |dir: &usize| {
        spec.blockalign.each()[*dir].is_none() && *spec.random_distribution.each()[*dir] == Distribution::Uniform
    };
    if spec.rw.access != Access::Random || spec.norandommap || !used.iter().all(uniform) {
        return Coverage::Independent;
    }
    let unit = used.iter().map(|dir| streams[*dir].unit).min().unwrap_or(1);
    let blocks = length / u64::from(unit);
    let one_size = |dir: &usize| matches!(streams[*dir].sizes, Sizes::Fixed(n) if n == unit);
    let every_draw = |dir: &usize| streams[*dir].always_random && spec.rw.modifier <= 1;
    if !follows_fio && used.iter().all(|dir| one_size(dir) && every_draw(dir)) {
        Coverage::Permuted(Permutation::new(blocks, random), 0)
    } else if blocks <= Visited::MAX_BLOCKS {
        Coverage::Mapped(Visited::new(blocks))
    } else {
        Coverage::Independent
    }
}

/// Bytes in grains.
fn units(bytes: u64, grain: u64) -> u32 {
    u32::try_from(bytes / grain).unwrap_or(u32::MAX)
}

/// A percentage as a fraction of 2^32.
fn threshold(percent: u8) -> u32 {
    (u64::from(percent) << 32).div_ceil(100).min(u64::from(u32::MAX)) as u32
}

/// The generator state of one direction.
fn stream(spec: &JobSpec, dir: usize, start: u64, length: u64, follows_fio: bool) -> Stream {
    let (bs, grain) = (spec.bs.each()[dir], spec.grain());
    let sectors = |bytes: u64| units(bytes, grain);
    let min = sectors(bs.min()).max(1);
    let unit = spec.blockalign.each()[dir].map_or(min, sectors).max(1);
    let sizes = sizes(spec, dir, follows_fio);
    let op = [Op::Read, Op::Write, Op::Discard][dir];
    let flags = flags(spec, op);
    // rate_iops counts in units of the smallest block, as in fio.
    let per_second = match (spec.rate.each()[dir], spec.rate_iops.each()[dir]) {
        (Some(bytes), _) => *bytes as f64 / grain as f64,
        (None, Some(iops)) => *iops as f64 * f64::from(sectors(bs.min())),
        (None, None) => f64::INFINITY,
    };
    Stream {
        op,
        flags,
        fitting: match follows_fio && unit > min {
            // fio leaves out a last block that is not whole.
            true => (length / u64::from(unit)).max(1),
            false => length.saturating_sub(u64::from(min)) / u64::from(unit) + 1,
        },
        sizes,
        min,
        unit,
        place: Place { start, ..Place::default() },
        length,
        sampler: Sampler::Uniform,
        offsets: match (spec.rw.access, spec.rw_sequencer) {
            (Access::Sequential, _) => Offsets::Sequential { step: spec.rw.modifier / grain as i64 },
            (Access::Random, Sequencer::Identical) => {
                Offsets::Random { run: spec.rw.modifier.max(1) as u32, same: true }
            }
            (Access::Random, Sequencer::Sequential) => {
                Offsets::Random { run: spec.rw.modifier.max(1) as u32, same: false }
            }
        },
        random_share: threshold(*spec.percentage_random.each()[dir]),
        always_random: *spec.percentage_random.each()[dir] == 100,
        pace: RateLimit {
            ns_per_unit: 1e9 / per_second,
            ns_per_io: 1e9 * f64::from(sectors(bs.min())) / per_second,
            poisson: spec.rate_process == RateProcess::Poisson,
            due: 0.0,
        },
        preferred: threshold(*spec.cmdprio_percentage.each()[dir]),
        always_preferred: *spec.cmdprio_percentage.each()[dir] == 100,
        priority: Ioprio::new(class_of(*spec.cmdprio_class.each()[dir]), *spec.cmdprio.each()[dir]),
    }
}

/// Distribution of the random offsets of a direction, in blocks of `unit` grains of a region of `length` grains.
fn sampler(spec: &JobSpec, dir: usize, unit: u32, length: u64, random: &mut Random) -> Sampler {
    let (blocks, grain) = ((length / u64::from(unit)).max(1), spec.grain());
    let mut hot = |law, hottest, centre| Sampler::Hot { law, places: Places::new(blocks, hottest, centre, random) };
    match spec.random_distribution.each()[dir] {
        Distribution::Uniform => Sampler::Uniform,
        Distribution::Zipf(theta, centre) => hot(Law::Zipf(Zipf::new(blocks, *theta)), 0, *centre),
        Distribution::Pareto(h, centre) => hot(Law::Pareto(libm::log(*h) / libm::log(1.0 - h)), 0, *centre),
        Distribution::Normal(deviation, centre) => {
            hot(Law::Normal(deviation / 100.0 * blocks as f64), blocks / 2, *centre)
        }
        Distribution::Zoned(zones) => {
            let (mut access, mut at) = (0.0, 0u64);
            let bounds = zones.iter().map(|zone| {
                access += zone.access;
                let length = (zone.length.of(length * grain) / grain / u64::from(unit)).max(1);
                let from = at.min(blocks - 1);
                at = at.saturating_add(length);
                (access / 100.0, from, at.min(blocks) - from)
            });
            Sampler::Zones(bounds.collect())
        }
    }
}

/// Distribution of the block sizes of a direction.
fn sizes(spec: &JobSpec, dir: usize, follows_fio: bool) -> Sizes {
    let (bs, grain) = (spec.bs.each()[dir], spec.grain());
    let sectors = |bytes: u64| units(bytes, grain);
    if bs.min() == bs.max() {
        return Sizes::Fixed(sectors(bs.min()));
    }
    match bs {
        BlockSize::Fixed(n) => Sizes::Fixed(sectors(*n)),
        BlockSize::Range(min, max) => {
            let step = if spec.bs_unaligned { 1 } else { sectors(*min) };
            Sizes::Range { min: sectors(*min), max: sectors(*max), step }
        }
        BlockSize::Split(parts) if follows_fio => fio_split(parts, bs.min(), spec.bs_unaligned, grain),
        BlockSize::Split(parts) => {
            let mut sum = 0.0;
            let bound = |(n, percent): &(u64, f64)| {
                sum += percent;
                ((sum / 100.0 * 4_294_967_296.0).min(4_294_967_295.0) as u32, sectors(*n))
            };
            Sizes::Split(parts.iter().map(bound).collect())
        }
        BlockSize::LogNormal { median, sigma, min, max } => Sizes::LogNormal {
            log_median: libm::log(*median as f64 / grain as f64),
            sigma: *sigma,
            min: sectors(*min).max(1),
            max: sectors(*max),
        },
    }
}

/// fio's rule for a split: of the parts in the order of their whole percentages, a draw selects the first whose sum reaches
/// it. Sizes are multiples of the smallest unless they are unaligned.
fn fio_split(parts: &[(u64, f64)], min: u64, unaligned: bool, grain: u64) -> Sizes {
    /// Values of a draw in one percent.
    const PERCENT: u64 = u32::MAX as u64 / 100 + 1;
    let mut parts: Vec<(u64, u64)> = parts.iter().map(|(size, percent)| (*percent as u64, *size)).collect();
    parts.retain(|(percent, _)| *percent > 0);
    parts.sort_by_key(|(percent, _)| *percent);
    let mut sum = 0;
    let bound = |(percent, size): (u64, u64)| {
        sum += percent;
        let size = if unaligned { size } else { size / min * min };
        ((sum * PERCENT).min(u32::MAX.into()) as u32, units(size, grain))
    };
    Sizes::Split(parts.into_iter().map(bound).collect())
}

/// Request flags of a direction.
fn flags(spec: &JobSpec, op: Op) -> Flags {
    let waits = Flags::SYNC;
    let flags = match op {
        Op::Read => Flags::NONE,
        Op::Discard => waits,
        _ if spec.direct && spec.sync => waits.with(Flags::IDLE).with(Flags::FUA),
        _ if spec.direct => waits.with(Flags::IDLE),
        _ if spec.sync => waits.with(Flags::FUA),
        _ => Flags::BACKGROUND,
    };
    if spec.hipri && spec.direct { flags.with(Flags::POLLED) } else { flags }
}
