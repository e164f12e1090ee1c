//! The command line.

mod bench;
mod compare;
mod ctl;
mod destroy;
mod devices;
mod fidelity;
mod groups;
mod host;
mod learn;
mod pilot;
mod real;
mod report;
mod serve;
mod sweep;
mod trace;
mod tune;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub(crate) use self::bench::*;
pub(crate) use self::compare::*;
pub(crate) use self::ctl::*;
pub(crate) use self::destroy::*;
pub(crate) use self::devices::*;
pub(crate) use self::fidelity::*;
pub(crate) use self::groups::command;
pub(crate) use self::host::*;
pub(crate) use self::learn::*;
pub(crate) use self::pilot::*;
pub(crate) use self::real::*;
pub(crate) use self::report::*;
pub(crate) use self::serve::*;
pub(crate) use self::sweep::*;
pub(crate) use self::trace::*;
pub(crate) use self::tune::*;

/// Choose and prove a block I/O scheduler.
#[derive(Parser)]
#[command(
    name = "dumbwaiter",
    version = crate::version::VERSION,
    about,
    max_term_width = 100,
    after_help = "\
Examples:
  dumbwaiter compare                             the built-in scenario, on a disk and an SSD
  dumbwaiter compare job.fio --device ull:optane-900p --html report.html
  dumbwaiter trace stat disk.blkparse.zst
  dumbwaiter schedulers mq-deadline"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands, in the order of their groups ([`groups`]).
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a workload under several schedulers and recommend one
    Compare(Box<Compare>),
    /// Search for better scheduler settings, and confirm the gain
    Tune(Box<Tune>),
    /// Survey a drive, only reading, and recommend the scheduler to set
    Recommend(Recommend),
    /// Show a result again, compare two (diff), or add energy to one
    Report(Report),
    /// List the schedulers, or show the manual of one
    Schedulers(Schedulers),
    /// List the device models; show, validate or fit one
    Devices(Devices),
    /// List the profiles of hosts; show one, or fit one to this machine
    Host(Host),
    /// Inspect and convert block traces
    Trace(Trace),
    /// Check our schedulers against recordings of the kernel's
    Fidelity(Fidelity),
    /// Run published experiments again and compare with the papers
    Reproduce(Reproduce),
    /// Serve a drive to many clients over NBD, shared by weight
    Serve(Box<Serve>),
    /// Query, control and watch (top) a running server
    Ctl(Ctl),
    /// Choose schedulers for live disks: advise, or with --act set them
    Pilot(Pilot),
    /// Record the I/O of a block device, or its scheduler's decisions
    Record(Record),
    /// Check after a crash that no acknowledged write was lost
    Verify(VerifyArgs),
    /// Run a grid of experiments, or plot its results
    Sweep(Sweep),
    /// Train, evaluate and inspect models of latency and of workloads
    Learn(Learn),
    /// Measure the speed of simulator, schedulers, engine and server
    Bench(Bench),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page, or write one per command to a folder
    Man(Man),
    /// One thread of a load, in a process of its own
    #[command(hide = true)]
    Worker,
    /// Now `report diff`
    #[command(hide = true)]
    Diff(Diff),
    /// Now `report energy`
    #[command(hide = true)]
    Energy(EnergyArgs),
    /// Now `ctl top`
    #[command(hide = true)]
    Top(Top),
}

/// Says how something that is still understood is spelled now.
pub(crate) fn renamed(old: &str, new: &str) {
    crate::tell!("note: {old} is now {new}");
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter schedulers
  dumbwaiter schedulers kyber")]
pub(crate) struct Schedulers {
    /// Show the manual and the settings of this scheduler
    pub(crate) name: Option<String>,
    /// Write as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter reproduce list
  dumbwaiter reproduce poll-2022:table-1
  dumbwaiter reproduce ull-2023 poll-2022 --quick --html papers.html
  dumbwaiter reproduce bfq-2015:figure-3 --quick --with device:ncq_depth=1
  dumbwaiter reproduce bfq-2015:figure-3 --quick --causes
  dumbwaiter reproduce ull-2023:figure-2 poll-2022 --on /dev/nvme0n1 --quick
  dumbwaiter reproduce ull-2023:figure-5 --dir /mnt/drive")]
pub(crate) struct Reproduce {
    /// `list`, or papers; `NAME:FIGURE` runs one figure or table of a paper
    #[arg(required = true, value_name = "list|NAME[:FIGURE]")]
    pub(crate) what: Vec<String>,
    /// Shorter runs and fewer replicates
    #[arg(long)]
    pub(crate) quick: bool,
    /// Run on this device instead of on the models: ull-2023 and poll-2022 under the kernel's schedulers, kml-2025:phases in our
    /// engine (also on a file); only reads unless --destroy is given
    #[arg(long, value_name = "PATH")]
    pub(crate) on: Option<PathBuf>,
    /// Like --on, on the drive that holds this folder; RocksDB's files go to a new folder in it, which is removed at the end
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["on", "destroy_or_older"])]
    pub(crate) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) destroy: Destroy,
    /// With --on: runs of each case; of kml-2025:phases, repeats that each draw their own order of phases
    #[arg(long, value_name = "N", requires = "on")]
    pub(crate) replicates: Option<std::num::NonZeroU32>,
    /// With --on: seed of the order of the phases
    #[arg(long, value_name = "N", default_value_t = 1, requires = "on")]
    pub(crate) seed: u64,
    /// With --on: length of a phase under `none`; 10s without it, with --quick 1s
    #[arg(long, value_name = "TIME", requires = "on")]
    pub(crate) phase: Option<String>,
    /// Change every run that has what this names: device:KEY=VALUE, SCHEDULER:SETTING=VALUE, host:profile=NAME, host:cpus=N,
    /// load:times=N, load:seed=N or load:queue_depth=N. May be repeated
    #[arg(long = "with", value_name = "CHANGE", conflicts_with_all = ["on", "dir"])]
    pub(crate) changes: Vec<String>,
    /// Say for each failing statement which changes alone make it hold: those of --with, else a list of usual ones
    #[arg(long, conflicts_with_all = ["on", "dir", "html"])]
    pub(crate) causes: bool,
    /// Number of runs simulated in parallel; does not change the results
    #[arg(long, short, value_name = "N", conflicts_with_all = ["on", "dir"])]
    pub(crate) jobs: Option<usize>,
    /// Write all statements as a JSON list, with `list` their counts by paper; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the tables and figures as one HTML file that works offline
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(clap::Args)]
pub(crate) struct Man {
    /// Write a page for each command into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
