//! Workloads by name: applications, and loads of benchmark suites.
//!
//! Loads that fio options can express are [`JobSpec`]s; the others (a program's start, a player, a read-latest store,
//! `sync`) have their own workloads. Everything is seeded and the same on every machine.

mod latest;
mod options;
mod phases;
mod player;
mod program;
mod start_up;
mod suite;

use dumbwaiter_block::{Flags, Nanos, Op, SECTOR_BYTES};

pub use options::{App, Think, Video};

use crate::generate::random::Random;
use crate::generate::{BuildContext, BuildError, JobSpec};
use crate::page_cache::PageCache;
use crate::{Next, Want, Workload};

/// A component of an application.
pub enum Component {
    /// Several tasks with the same job.
    Job {
        /// Their name, after the application's own.
        name: &'static str,
        /// Number of tasks.
        count: u32,
        /// The job of each.
        job: Box<JobSpec>,
    },
    /// One task with its own workload.
    Own {
        /// The workload.
        workload: Box<dyn Workload>,
        /// Its queue depth.
        depth: u32,
    },
}

/// The run and device that an application is built for.
#[derive(Clone)]
pub struct AppContext {
    /// Seed, device and number of the task.
    pub build: BuildContext,
    /// Length of the warm-up: programs are launched and frames are played after it.
    pub warmup: Nanos,
    /// The page cache, if the host has one.
    pub cache: Option<PageCache>,
}

impl App {
    /// Builds the components of one instance.
    ///
    /// # Errors
    /// Options that do not fit the application, the device or the host.
    pub fn build(&self, context: &AppContext) -> Result<Vec<Component>, BuildError> {
        self.validate()?;
        let b = context.build;
        let device = b.capacity_sectors.saturating_mul(SECTOR_BYTES);
        let mut random = Random::new(&[b.seed, 0x6170_706c, u64::from(b.job), u64::from(b.instance)]);
        let own = |workload: Box<dyn Workload>, depth| Ok(vec![Component::Own { workload, depth }]);
        if let Some(program) = program::PROGRAMS.iter().find(|p| p.name == self.name()) {
            let (start, length) = self.region(device, 50.0, program::REGION)?;
            let steps = program.place(start, length, &mut random);
            let mut start_up = start_up::StartUp::new(program.name, steps, self.repeat());
            start_up.paced = self.think() == Think::Paced;
            start_up.timeout = self.timeout();
            start_up.launch_after = self.launch_after();
            start_up.warmup = context.warmup;
            if self.log() {
                let Some(cache) = &context.cache else {
                    let reason = "its writes are buffered; give the host a page_cache".to_string();
                    return Err(BuildError { key: "log", reason });
                };
                start_up.log = Some(start_up::Log { file: cache.open(None), page: start / 4096 });
            }
            return own(Box::new(start_up), READ_AHEAD_DEPTH);
        }
        match self.name() {
            "player" => {
                let (start, length) = self.region(device, 40.0, 1 << 30)?;
                let video = self.video();
                let place = (start / SECTOR_BYTES, length / SECTOR_BYTES);
                let per_second = u64::from(self.fps());
                let runtime = self.runtime();
                let player =
                    player::Player::new(video.name(), video.bits(), per_second, runtime, place, context.warmup);
                let depth = player.depth();
                own(Box::new(player), depth)
            }
            "sync" => own(Box::new(SyncEvery::new(self.every(), context.cache.clone())), 1),
            "ycsb-a" | "ycsb-d" => {
                let append_percent = if self.name() == "ycsb-a" { 8 } else { 3 };
                let (start, length) = self.region(device, 0.0, 50_000_000_000)?;
                let each = length / u64::from(suite::YCSB_THREADS);
                let parts = (0..suite::YCSB_THREADS).map(|i| {
                    let at = start + u64::from(i) * each;
                    let workload = latest::Latest::new(at, each, append_percent, Random::new(&[random.bits()]));
                    Component::Own { workload: Box::new(workload), depth: 1 }
                });
                Ok(parts.collect())
            }
            "prn" => {
                let (start, length) = self.region(device, 0.0, 50_000_000_000)?;
                let [large, small] = suite::prn_phases(start, length);
                let phase = |(job, mean_ios): (JobSpec, u32), number: u32| {
                    let workload = job.build(BuildContext { job: b.job | number << 30, ..b })?;
                    Ok(phases::Phase { workload, mean_ios })
                };
                let phases = phases::Phases::new([phase(large, 0)?, phase(small, 1)?], random);
                own(Box::new(phases), suite::TRACE_DEPTH)
            }
            _ => suite::parts(self, device),
        }
    }

    /// First byte and length of the application's region, in whole MiB: from its options, else from `percent` of the
    /// device on and at most `most` bytes long.
    fn region(&self, device: u64, percent: f64, most: u64) -> Result<(u64, u64), BuildError> {
        const MIB: u64 = 1 << 20;
        let start = self.offset_in(device, percent) / MIB * MIB;
        let rest = device.saturating_sub(start);
        let length = match self.size_in(device) {
            Some(size) if size > rest => {
                let reason = format!("{start} + {size} bytes is beyond the device of {device} bytes");
                return Err(BuildError { key: "size", reason });
            }
            Some(size) => size,
            None => most.min(rest),
        };
        if length < 64 * MIB {
            let reason = format!("{length} bytes from {start} on are too few for {}; it needs 64 MiB", self.name());
            return Err(BuildError { key: "size", reason });
        }
        Ok((start, length / MIB * MIB))
    }
}

/// Queue depth of a start-up: a batch of read-ahead and the read after it.
const READ_AHEAD_DEPTH: u32 = 33;

/// Periodic `sync`: writes all dirty pages of the page cache, if there is one, then flushes the device cache.
struct SyncEvery {
    every: Nanos,
    cache: Option<PageCache>,
    last: Option<Nanos>,
    /// Write-back in progress; see [`PageCache::synced`].
    writing: Option<Option<u64>>,
    outstanding: bool,
}

impl SyncEvery {
    fn new(every: Nanos, cache: Option<PageCache>) -> SyncEvery {
        SyncEvery { every, cache, last: None, writing: None, outstanding: false }
    }
}

impl Workload for SyncEvery {
    fn next(&mut self, now: Nanos) -> Next {
        if self.outstanding {
            return Next::Blocked;
        }
        let due = *self.last.get_or_insert(now) + self.every;
        if now < due {
            return Next::Wait(due);
        }
        if let Some(cache) = &self.cache {
            let Some(last) = &mut self.writing else {
                cache.sync();
                self.writing = Some(None);
                return Next::Wait(now + Nanos::from_ms(1));
            };
            if !cache.synced(last) {
                return Next::Wait(now + Nanos::from_ms(1));
            }
            self.writing = None;
        }
        self.last = Some(now);
        self.outstanding = true;
        Next::Issue(Want { op: Op::Flush, sector: 0, sectors: 0, flags: Flags::SYNC, ioprio: None, stream: 0, task: 0 })
    }

    fn completed(&mut self, _now: Nanos, _task: u16, _lat: Nanos) {
        self.outstanding = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(seed: u64) -> AppContext {
        let build =
            BuildContext { seed, capacity_sectors: 500_118_192, first_sector: 0, job: 0, instance: 0, replicate: 0 };
        AppContext { build, warmup: Nanos::ZERO, cache: None }
    }

    #[test]
    fn every_application_builds_and_is_repeatable() {
        for name in App::NAMES {
            let app = App::new(name).unwrap();
            let first = |seed| {
                let parts = app.build(&context(seed)).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(!parts.is_empty());
                let build = context(seed).build;
                let mut workloads: Vec<_> = parts
                    .into_iter()
                    .map(|part| match part {
                        Component::Job { job, .. } => job.build(build).unwrap_or_else(|e| panic!("{name}: {e}")),
                        Component::Own { workload, .. } => workload,
                    })
                    .collect();
                let mut wants = Vec::new();
                for w in &mut workloads {
                    let mut now = Nanos::ZERO;
                    for _ in 0..200 {
                        match w.next(now) {
                            Next::Issue(want) => {
                                assert!(want.sector + u64::from(want.sectors) <= build.capacity_sectors, "{name}");
                                wants.push(want);
                                w.completed(now, 0, Nanos::ZERO);
                            }
                            Next::Wait(at) | Next::Pause(at) => now = at,
                            Next::Blocked | Next::Done => break,
                        }
                    }
                }
                wants
            };
            assert!(first(1) == first(1) && !first(1).is_empty(), "{name}");
        }
    }

    #[test]
    fn options_of_other_applications_are_refused() {
        let mut app = App::new("player").unwrap();
        app.set("think", "greedy").unwrap();
        assert!(app.validate().unwrap_err().to_string().contains("player takes fps, offset, runtime, size, video"));
        let refused = App::new("oowriter").unwrap_err();
        assert!(
            refused.starts_with("unknown application `oowriter`; did you mean `oowriter-like`? known: "),
            "{refused}"
        );
        assert!(App::new("msn").unwrap().set("think", "slow").unwrap_err().contains("paced or greedy"));
    }
}
