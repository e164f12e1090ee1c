//! Arguments of `tune`.

use std::path::PathBuf;

use super::{Destroy, Goal};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter tune scenarios/nvme-random.toml
  dumbwaiter tune database --scheduler mq-deadline --device ssd:850pro-256
  dumbwaiter tune scenarios/noisy-neighbour.toml --goal latency --budget 20m --json -
  sudo dumbwaiter tune --on /dev/nvme0n1 --for 10m

A seed gives the same result with any number of --jobs. Ctrl-C ends the search with the best so far, which is then not confirmed.")]
pub(crate) struct Tune {
    /// A scenario (a TOML file or a name), a fio job file or block traces; without it, `shared-disk`
    #[arg(value_name = "SCENARIO|JOB.fio|TRACE")]
    pub(crate) input: Vec<PathBuf>,
    /// Schedulers whose settings to search; settings given here stay as they are. Without it: those of the scenario that a kernel
    /// offers. May be given several times
    #[arg(long, visible_alias = "schedulers", short, value_name = "NAME[:SETTING=N,…]")]
    pub(crate) scheduler: Vec<String>,
    /// Devices to simulate, each with a search of its own
    #[arg(long, short, value_name = "NAME|FILE,…", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Search on this file or block device instead of simulating; only reads unless --destroy is given
    #[arg(long, value_name = "PATH", conflicts_with = "device")]
    pub(crate) on: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) destroy: Destroy,
    /// The goal of the search
    #[arg(long, value_enum, default_value_t)]
    pub(crate) goal: Goal,
    /// The part of the throughput that half the latency is worth, such as 25%, in place of the goal's
    #[arg(long, value_name = "PERCENT")]
    pub(crate) rate: Option<String>,
    /// The scheduler that is set, which a candidate has to beat (default: the drive's, else the first of --scheduler, else the kernel's)
    #[arg(long, value_name = "NAME[:SETTING=N,…]")]
    pub(crate) incumbent: Option<String>,
    /// Time that all runs cover together, virtual in a simulation; it sets how many candidates are tried
    #[arg(long, value_name = "TIME")]
    pub(crate) budget: Option<String>,
    /// Stop after this real time, with the best settings so far; with --on it also limits the budget
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) length: Option<String>,
    /// Measured time of a run of full length
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// Time before it, which is not measured
    #[arg(long, value_name = "TIME")]
    pub(crate) warmup: Option<String>,
    /// Seed of the search and of the first run
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Number of runs simulated in parallel; does not change the result
    #[arg(long, short, value_name = "N", conflicts_with = "on")]
    pub(crate) jobs: Option<usize>,
    /// Write the result as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
