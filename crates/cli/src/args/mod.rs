//! What can be typed.

mod bench;
mod compare;
mod real;
mod trace;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub(crate) use self::bench::*;
pub(crate) use self::compare::*;
pub(crate) use self::real::*;
pub(crate) use self::trace::*;

/// Choose and prove a block I/O scheduler.
#[derive(Parser)]
#[command(
    name = "dumbwaiter",
    version = env!("DUMBWAITER_VERSION"),
    about,
    max_term_width = 100,
    after_help = "\
Examples:
  dumbwaiter compare                                the built-in scenario, on a hard disk and a SATA SSD
  dumbwaiter compare job.fio --device ull:optane-900p --html report.html
  dumbwaiter trace stat disk.blkparse.zst
  dumbwaiter schedulers mq-deadline"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a workload under several schedulers and say which serves it best
    Compare(Box<Compare>),
    /// List the schedulers, or show the manual of one
    Schedulers(Schedulers),
    /// List the device models, show one, or hold it against its data sheet
    Devices(Devices),
    /// Look into block traces and convert them
    Trace(Trace),
    /// Hold our schedulers against recordings of the kernel's
    Fidelity(Fidelity),
    /// Run published experiments again and hold them against the papers' figures
    Reproduce(Reproduce),
    /// Look at a drive for a short while, only reading, and say which scheduler to set
    Recommend(Recommend),
    /// Join the log of a power meter with runs that were made while it ran
    Energy(EnergyArgs),
    /// Check after a crash that no acknowledged write was lost
    Verify(VerifyArgs),
    /// Record the I/O of a block device: as a trace, or with what its scheduler was told and answered
    Record(Record),
    /// Measure the simulator's and the schedulers' own speed
    Bench(Bench),
    /// One thread of a load, in a process of its own
    #[command(hide = true)]
    Worker,
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page, or write all of them to a folder
    Man(Man),
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter schedulers
  dumbwaiter schedulers kyber")]
pub(crate) struct Schedulers {
    /// Show the manual and the settings of this one
    pub(crate) name: Option<String>,
    /// Write as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter devices
  dumbwaiter devices --show hdd:st1000dm003 > my-drive.toml
  dumbwaiter devices --validate ssd:850pro-256")]
pub(crate) struct Devices {
    /// Print a model's parameter file, to copy and change
    #[arg(long, value_name = "NAME")]
    pub(crate) show: Option<String>,
    /// Measure a model and hold it against its targets; `all` for every one
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) validate: Option<String>,
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
  dumbwaiter reproduce ull-2023:figure-2 poll-2022 --on /dev/nvme0n1 --quick
  dumbwaiter reproduce ull-2023:figure-5 --dir /mnt/drive")]
pub(crate) struct Reproduce {
    /// `list`, or papers; `:FIGURE` behind a name takes one figure or table of it
    #[arg(required = true, value_name = "list|NAME[:FIGURE]")]
    pub(crate) what: Vec<String>,
    /// Shorter runs and fewer replicates: for a first look
    #[arg(long)]
    pub(crate) quick: bool,
    /// Run ull-2023 and poll-2022 on this block device, under the kernel's own schedulers, instead of on the models; nothing
    /// is written unless you say --allow-writes
    #[arg(long, value_name = "PATH")]
    pub(crate) on: Option<PathBuf>,
    /// The same on the drive that this folder is on; RocksDB's files are in a new folder in it, which is removed
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["on", "allow_writes"])]
    pub(crate) dir: Option<PathBuf>,
    /// With --on: run the loads that write too, and RocksDB on a new file system. This destroys what is on the device
    #[arg(long, requires = "on")]
    pub(crate) allow_writes: bool,
    /// With --allow-writes: write although the device is in use; PATH must be that of --on
    #[arg(long, value_name = "PATH", requires = "allow_writes")]
    pub(crate) i_know_this_destroys: Option<PathBuf>,
    /// Runs simulated at the same time; results do not depend on it
    #[arg(long, short, value_name = "N", conflicts_with_all = ["on", "dir"])]
    pub(crate) jobs: Option<usize>,
    /// Write every row as JSON, a list; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the tables and figures, one file that works offline
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
