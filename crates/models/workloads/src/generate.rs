//! Workload generators, described by fio options.
//!
//! A [`JobSpec`] describes a job; [`JobSpec::build`] builds the [`Workload`] of one of its instances for a device of
//! known size. Options have the meaning of fio's manual. The differences are:
//!
//! - Addresses are on the block device; there is no file system, and the [page cache](crate::page_cache) is not here but between
//!   the workload and the device. Where there is none, `direct = false` reads are as others, and `direct = false` writes are
//!   write-back: flagged BACKGROUND instead of SYNC, and, being asynchronous, [`WRITEBACK_DEPTH`] of them are outstanding with
//!   any engine.
//! - Defaults are those of a scenario, not of a fio job: direct, io_uring, the whole device, until the end of the run, and
//!   rates that do not wait for completions (`io_submit_mode = "offload"`).
//!   [`JobSpec::fio`] has fio's.
//! - Random access covers every block once before any repeats, as fio's random map does. Blocks of one size come in a
//!   uniformly random order. Of several sizes, as in fio, a draw that hits a visited block moves on to the next free one,
//!   and the I/O ends where the free blocks end: I/Os become shorter while the region fills. Draws are independent with
//!   `norandommap`, `blockalign` or a skewed distribution, and for several sizes in a region of more than 2^29 blocks.
//! - The first replicate of a job of a fio file (`fio_job`) draws offsets, sizes and directions from fio's own generators. Such
//!   a job covers its region as fio does with several sizes, whatever its sizes are. All other jobs draw from the seed.
//! - Mixed sequential access keeps a position for reads and one for writes.
//! - Buffered I/O and discards may have sizes that are no multiple of 512: the device gets the whole 4 KiB pages (sectors, of
//!   discards) that an I/O touches.
//! - A flush (`fsync`) is issued when everything before it has completed, and nothing is issued beside it.

mod build;
mod draws;
mod fio_random;
mod generator;
mod keys;
mod offsets;
pub(crate) mod parse;
mod pauses;
pub(crate) mod random;
mod value;
mod visited;

#[cfg(test)]
mod fio_tests;
#[cfg(test)]
mod tests;

use std::fmt;

use dumbwaiter_block::{IoClass, Ioprio, Nanos};

pub use build::{BuildContext, BuildError};
pub use keys::OptionError;
pub use value::{
    Access, BlockSize, BurstProcess, Distribution, Engine, Extent, Mix, Pattern, PerDir, RateProcess, Scalar,
    Sequencer, SubmitMode, ThinkBlocks, Zone,
};

use crate::Workload;

/// Outstanding writes of a buffered writer: write-back is not limited by the writer's own queue depth.
pub const WRITEBACK_DEPTH: u32 = 128;

/// The I/O of a task. Every field is the fio option of the same name unless noted; sizes are in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// Read, write, trim or a mix, sequential or random, with an offset modifier.
    pub rw: Pattern,
    /// Effect of the modifier of a random pattern.
    pub rw_sequencer: Sequencer,
    /// Percentage of reads in a mixed pattern. `rwmixwrite` sets the same number from the other side.
    pub rwmixread: u8,
    /// Block sizes by direction, from `bs`, `bsrange` or `bssplit`. In a scenario `bs` takes every form, log-normal sizes too.
    pub bs: PerDir<BlockSize>,
    /// Sizes of a range are any multiple of 512 (where I/O is buffered, of a byte), not of the range's minimum.
    pub bs_unaligned: bool,
    /// Files that take the I/Os in turn, one I/O each: equal parts of the region, each with its own positions.
    pub nrfiles: u32,
    /// The drive that takes its I/O, from 1, where a scenario has several; `None`: the region is one of all drives.
    pub drive: Option<u32>,
    /// Alignment of random offsets; `None` is the (smallest) block size.
    pub blockalign: PerDir<Option<u64>>,
    /// Start of the region.
    pub offset: Extent,
    /// Added to `offset` for each earlier instance of the task.
    pub offset_increment: Extent,
    /// A percentage offset is rounded up to this; 0 is the smallest block size.
    pub offset_align: u64,
    /// Length of the region; `None` is the rest of the device.
    pub size: Option<Extent>,
    /// Bytes to transfer before the job ends, if not `size`.
    pub io_size: Option<Extent>,
    /// I/Os after which the job ends.
    pub number_ios: Option<u64>,
    /// Passes over `size` before the job ends.
    pub loops: Option<u32>,
    /// Go on until `runtime` or the end of the run, whatever was transferred. `None`: yes, unless `io_size`, `number_ios` or
    /// `loops` says when to end.
    pub time_based: Option<bool>,
    /// Time after the start (and `ramp_time`) at which it ends.
    pub runtime: Option<Nanos>,
    /// Range of the random delay before it starts.
    pub startdelay: (Nanos, Nanos),
    /// I/O within this time after the start is not counted.
    pub ramp_time: Nanos,
    /// I/O engine; `iodepth` applies to asynchronous ones.
    pub ioengine: Engine,
    /// Bypasses the page cache.
    pub direct: bool,
    /// Writes are on stable media when they complete (`sync`, `dsync`): they carry FUA.
    pub sync: bool,
    /// Polls for completions (io_uring's and pvsync2's `hipri`).
    pub hipri: bool,
    /// Queue depth; 1 for synchronous engines.
    pub iodepth: u32,
    /// Once full, drain to this before filling again.
    pub iodepth_low: Option<u32>,
    /// I/Os submitted at once: how many may share a plug.
    pub iodepth_batch: u32,
    /// Once full, wait for this many completions before going on.
    pub iodepth_batch_complete_min: u32,
    /// Completions reaped at once, at most; at least `iodepth_batch_complete_min`.
    pub iodepth_batch_complete_max: u32,
    /// Pause after every `thinktime_blocks` I/Os, once everything outstanding has completed. As in fio it is checked after each
    /// I/O, and completions are reaped only when the queue is full.
    pub thinktime: Nanos,
    /// CPU time within the pause; a host model may charge it.
    pub thinktime_spin: Nanos,
    /// I/Os between pauses.
    pub thinktime_blocks: u32,
    /// Whether `thinktime_blocks` counts completed or issued I/Os.
    pub thinktime_blocks_type: ThinkBlocks,
    /// Pause also after issuing for this long.
    pub thinktime_iotime: Option<Nanos>,
    /// Bytes per second at most, by direction.
    pub rate: PerDir<Option<u64>>,
    /// I/Os per second at most, by direction; in terms of the smallest block size.
    pub rate_iops: PerDir<Option<u64>>,
    /// Whether submission waits for completions when it is ahead of a rate.
    pub io_submit_mode: SubmitMode,
    /// Even or Poisson arrivals under a rate.
    pub rate_process: RateProcess,
    /// Whether a rate limit does not catch up after a pause.
    pub rate_ignore_thinktime: bool,
    /// Not in fio: submit for this long, then pause for `burst_off`; 0 disables bursts.
    pub burst_on: Nanos,
    /// Not in fio: length of the pause between bursts.
    pub burst_off: Nanos,
    /// Not in fio: whether the two lengths are exact or means of exponential distributions.
    pub burst_process: BurstProcess,
    /// Distribution of random offsets.
    pub random_distribution: PerDir<Distribution>,
    /// Percentage of a random pattern's I/Os that are random; the others continue sequentially.
    pub percentage_random: PerDir<u8>,
    /// Random blocks may repeat before all were accessed.
    pub norandommap: bool,
    /// Mixed into the seed of the run, to give jobs different or equal random streams. Instances always differ.
    pub randseed: Option<u64>,
    /// Random offsets are the same in each run of fio, whatever the `randseed`.
    pub randrepeat: bool,
    /// All random numbers are the same in each run of fio, whatever the `randseed`.
    pub allrandrepeat: bool,
    /// Not in fio: number of the job in its fio file, from 1, counting each instance. Such a job does fio's own sequence of
    /// I/Os; without it the seed of the run decides.
    pub fio_job: Option<u32>,
    /// Flush after this many writes; 0 for never.
    pub fsync: u32,
    /// Same as `fsync`: a block device has no file metadata.
    pub fdatasync: u32,
    /// Flush at the end of a job that wrote.
    pub end_fsync: bool,
    /// I/O priority class, as numbered by Linux.
    pub prioclass: Option<u8>,
    /// Priority level, 0 the best to 7.
    pub prio: Option<u8>,
    /// CPU niceness; without `prio` and `prioclass` the priority level follows from it.
    pub nice: i8,
    /// Percentage of reads and of writes with the priority of the next two options.
    pub cmdprio_percentage: PerDir<u8>,
    /// Their priority class.
    pub cmdprio_class: PerDir<u8>,
    /// Their priority level.
    pub cmdprio: PerDir<u8>,
}

impl Default for JobSpec {
    fn default() -> Self {
        JobSpec {
            rw: Pattern::default(),
            rw_sequencer: Sequencer::Sequential,
            rwmixread: 50,
            bs: PerDir::all(BlockSize::Fixed(4096)),
            bs_unaligned: false,
            nrfiles: 1,
            drive: None,
            blockalign: PerDir::all(None),
            offset: Extent::Bytes(0),
            offset_increment: Extent::Bytes(0),
            offset_align: 0,
            size: None,
            io_size: None,
            number_ios: None,
            loops: None,
            time_based: None,
            runtime: None,
            startdelay: (Nanos::ZERO, Nanos::ZERO),
            ramp_time: Nanos::ZERO,
            ioengine: Engine::IO_URING,
            direct: true,
            sync: false,
            hipri: false,
            iodepth: 1,
            iodepth_low: None,
            iodepth_batch: 1,
            iodepth_batch_complete_min: 1,
            iodepth_batch_complete_max: 1,
            thinktime: Nanos::ZERO,
            thinktime_spin: Nanos::ZERO,
            thinktime_blocks: 1,
            thinktime_blocks_type: ThinkBlocks::Complete,
            thinktime_iotime: None,
            rate: PerDir::all(None),
            rate_iops: PerDir::all(None),
            io_submit_mode: SubmitMode::Offload,
            rate_process: RateProcess::Linear,
            rate_ignore_thinktime: false,
            burst_on: Nanos::ZERO,
            burst_off: Nanos::ZERO,
            burst_process: BurstProcess::Fixed,
            random_distribution: PerDir::all(Distribution::Uniform),
            percentage_random: PerDir::all(100),
            norandommap: false,
            randseed: None,
            randrepeat: true,
            allrandrepeat: false,
            fio_job: None,
            fsync: 0,
            fdatasync: 0,
            end_fsync: false,
            prioclass: None,
            prio: None,
            nice: 0,
            cmdprio_percentage: PerDir::all(0),
            cmdprio_class: PerDir::all(1),
            cmdprio: PerDir::all(0),
        }
    }
}

impl JobSpec {
    /// A job with fio's defaults: buffered, psync, ends after `size` bytes, submits inline.
    pub fn fio() -> JobSpec {
        JobSpec {
            ioengine: Engine::PSYNC,
            direct: false,
            time_based: Some(false),
            io_submit_mode: SubmitMode::Inline,
            ..JobSpec::default()
        }
    }

    /// Queue depth of one instance.
    pub fn depth(&self) -> u32 {
        match self.writeback() {
            true => self.iodepth.max(WRITEBACK_DEPTH),
            false if self.ioengine.synchronous => 1,
            false => self.iodepth,
        }
    }

    /// Number of consecutively issued I/Os that may share a plug.
    pub fn batch(&self) -> u32 {
        match self.iodepth_batch {
            0 => self.depth(),
            n => n.min(self.depth()),
        }
    }

    /// Completions that it reaps at once, at most.
    pub fn reaps(&self) -> u32 {
        self.iodepth_batch_complete_max.max(self.iodepth_batch_complete_min).max(1)
    }

    /// Whether this is a buffered writer, whose writes are asynchronous.
    pub fn writeback(&self) -> bool {
        !self.direct && !self.sync && self.rw.mix == Mix::Write
    }

    /// The priority of the task, if the job sets one.
    pub fn ioprio(&self) -> Option<Ioprio> {
        if self.prio.is_none() && self.prioclass.is_none() {
            return (self.nice != 0).then(|| Ioprio::new(IoClass::BestEffort, ((i32::from(self.nice) + 20) / 5) as u8));
        }
        Some(Ioprio::new(class_of(self.prioclass.unwrap_or(2)), self.prio.unwrap_or(0)))
    }

    /// Whether it runs until it is stopped.
    pub fn endless(&self) -> bool {
        self.runtime.is_none() && self.until_stopped()
    }

    /// Whether no amount of transferred data ends it.
    pub(crate) fn until_stopped(&self) -> bool {
        self.time_based.unwrap_or(self.io_size.is_none() && self.number_ios.is_none() && self.loops.is_none())
    }

    /// Longest time from start to end, if `runtime` limits it: start delay, ramp and run time.
    pub fn longest(&self) -> Option<Nanos> {
        self.runtime.map(|runtime| self.startdelay.1 + self.ramp_time + runtime)
    }

    /// Builds the workload of one instance. It starts at the first call of [`Workload::next`].
    ///
    /// # Errors
    /// Options that contradict each other or do not fit the device.
    pub fn build(&self, context: BuildContext) -> Result<Box<dyn Workload>, BuildError> {
        build::generator(self, context).map(|generator| Box::new(generator) as Box<dyn Workload>)
    }
}

/// The I/O priority class with this Linux number.
fn class_of(number: u8) -> IoClass {
    Ioprio(u16::from(number) << 13).class()
}

/// One line such as `randrw 70 % reads, 4KiB, depth 8`.
impl fmt::Display for JobSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rw)?;
        if self.rw.mix == Mix::ReadWrite {
            write!(f, " {} % reads", self.rwmixread)?;
        }
        write!(f, ", {}, depth {}", self.bs, self.depth())?;
        if self.thinktime > Nanos::ZERO {
            write!(f, ", think {}", dumbwaiter_text::units::format_time(self.thinktime))?;
        }
        if !self.direct {
            f.write_str(", buffered")?;
        }
        Ok(())
    }
}
