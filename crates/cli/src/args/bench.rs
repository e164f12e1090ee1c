//! Arguments of `bench`.

use std::path::PathBuf;

use clap::ValueEnum;

use super::Destroy;

#[derive(clap::Args)]
pub(crate) struct Bench {
    /// What to measure
    #[arg(value_enum)]
    pub(crate) what: BenchWhat,
    /// Write as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Only these schedulers
    #[arg(long, short, value_name = "NAME,…")]
    pub(crate) schedulers: Option<String>,
    #[command(flatten)]
    pub(crate) engine: BenchEngine,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum BenchWhat {
    /// Simulated requests per second on one core
    Sim,
    /// Nanoseconds per request inside a scheduler
    Schedulers,
    /// Nanoseconds that each controller adds to a request
    Controllers,
    /// I/Os per second and CPU time of the engine on a real device, beside fio and a bare ring
    Engine,
    /// Nanoseconds per inference of the shipped models
    Learn,
    /// I/Os per second and CPU time of the disk server, beside nbdkit, qemu-nbd and qemu-storage-daemon
    Serve,
    /// Shares, reservations and limits of a served drive, each with its bound
    Shares,
}

/// Options of `bench engine`.
#[derive(clap::Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct BenchEngine {
    /// File or block device to run on; by default a temporary loop device in memory (root only)
    #[arg(long, value_name = "PATH")]
    pub(crate) on: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) destroy: Destroy,
    /// Pattern of the I/O: randread, randwrite, randrw, read, write, rw
    #[arg(long, value_name = "RW")]
    pub(crate) op: Option<String>,
    /// Queue depths: I/Os kept outstanding
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) depth: Vec<u32>,
    /// Length of each run, such as 2s
    #[arg(long, value_name = "TIME")]
    pub(crate) time: Option<String>,
    /// Number of rounds; each runs every case once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: Option<u32>,
}

impl BenchEngine {
    /// The first option that says nothing to this benchmark.
    pub(crate) fn misplaced(&self, what: BenchWhat) -> Option<&'static str> {
        use BenchWhat::{Engine, Serve, Shares};
        let given: [(bool, &str, &[BenchWhat]); 6] = [
            (self.on.is_some(), "--on", &[Engine, Shares]),
            (self.destroy.allows_writes(), "--destroy", &[Engine]),
            (self.op.is_some(), "--op", &[Engine]),
            (!self.depth.is_empty(), "--depth", &[Engine, Serve]),
            (self.time.is_some(), "--time", &[Engine, Serve, Shares]),
            (self.rounds.is_some(), "--rounds", &[Engine, Serve, Shares]),
        ];
        given.into_iter().find(|(is, _, of)| *is && !of.contains(&what)).map(|(_, name, _)| name)
    }
}
