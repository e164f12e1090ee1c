//! Workloads by name: applications, and loads of benchmark suites.
//!
//! What fio's words can say is made of [`JobSpec`]s; the others (a program's start, a player, a read-latest store, `sync`)
//! are workloads of their own. Everything is seeded and the same on every machine.

mod latest;
mod options;
mod player;
mod program;
mod start_up;
mod suite;

use dumbwaiter_block::{Flags, Nanos, Op, SECTOR_BYTES};

pub use options::{App, Think, Video};

use crate::generate::random::Random;
use crate::generate::{BuildContext, BuildError, JobSpec};
use crate::{Next, Want, Workload};

/// One of the loads that an application is made of.
pub enum Part {
    /// Several tasks that do the same.
    Job {
        /// What they are called behind the application's own name.
        name: &'static str,
        /// Tasks.
        count: u32,
        /// What each does.
        job: Box<JobSpec>,
    },
    /// One task.
    Own {
        /// What it does.
        workload: Box<dyn Workload>,
        /// I/Os that it may have outstanding.
        depth: u32,
    },
}

/// Where an application runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppContext {
    /// Seed, device and number of the task.
    pub build: BuildContext,
    /// Nothing counts before this time of the run: programs are launched and frames are played from then on.
    pub warmup: Nanos,
}

impl App {
    /// The parts of one instance.
    pub fn build(&self, context: AppContext) -> Result<Vec<Part>, BuildError> {
        self.validate()?;
        let b = context.build;
        let device = b.capacity_sectors.saturating_mul(SECTOR_BYTES);
        let mut random = Random::new(&[b.seed, 0x6170_706c, u64::from(b.job), u64::from(b.instance)]);
        let own = |workload: Box<dyn Workload>, depth| Ok(vec![Part::Own { workload, depth }]);
        if let Some(program) = program::PROGRAMS.iter().find(|p| p.name == self.name()) {
            let (start, length) = self.region(device, 50.0, program::REGION)?;
            let steps = program.place(start, length, &mut random);
            let mut start_up = start_up::StartUp::new(program.name, steps, self.repeat());
            start_up.paced = self.think() == Think::Paced;
            start_up.timeout = self.timeout();
            start_up.launch_after = self.launch_after();
            start_up.warmup = context.warmup;
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
            "sync" => own(Box::new(SyncEvery { every: self.every(), last: None, outstanding: false }), 1),
            "ycsb-d" => {
                let (start, length) = self.region(device, 0.0, 50_000_000_000)?;
                let each = length / u64::from(suite::YCSB_THREADS);
                let parts = (0..suite::YCSB_THREADS).map(|i| {
                    let at = start + u64::from(i) * each;
                    let workload = latest::Latest::new(at, each, Random::new(&[random.bits()]));
                    Part::Own { workload: Box::new(workload), depth: 1 }
                });
                Ok(parts.collect())
            }
            _ => suite::parts(self, device),
        }
    }

    /// First byte and length of the application's region: what its options say, else from `percent` of the device on and at
    /// most `most` bytes long. Whole MiB.
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

/// A batch of read-ahead and the read behind it.
const READ_AHEAD_DEPTH: u32 = 33;

/// A flush, again and again: what `sync` does to a device whose file system has nothing to write.
struct SyncEvery {
    every: Nanos,
    last: Option<Nanos>,
    outstanding: bool,
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
        let build = BuildContext { seed, capacity_sectors: 500_118_192, job: 0, instance: 0 };
        AppContext { build, warmup: Nanos::ZERO }
    }

    #[test]
    fn every_application_builds_and_repeats_by_its_seed() {
        for name in App::NAMES {
            let app = App::new(name).unwrap();
            let first = |seed| {
                let parts = app.build(context(seed)).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(!parts.is_empty());
                let build = context(seed).build;
                let mut workloads: Vec<_> = parts
                    .into_iter()
                    .map(|part| match part {
                        Part::Job { job, .. } => job.build(build).unwrap_or_else(|e| panic!("{name}: {e}")),
                        Part::Own { workload, .. } => workload,
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
                            Next::Wait(at) => now = at,
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
    fn options_of_others_are_refused() {
        let mut app = App::new("player").unwrap();
        app.set("think", "greedy").unwrap();
        assert!(app.validate().unwrap_err().to_string().contains("player takes fps, offset, runtime, size, video"));
        assert_eq!(
            App::new("oowriter").unwrap_err(),
            "unknown application \"oowriter\"; did you mean \"oowriter-like\"?"
        );
        assert!(App::new("msn").unwrap().set("think", "slow").unwrap_err().contains("paced or greedy"));
    }
}
