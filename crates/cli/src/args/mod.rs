//! The command line.

mod bench;
mod compare;
mod ctl;
mod learn;
mod pilot;
mod real;
mod serve;
mod sweep;
mod trace;
mod tune;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub(crate) use self::bench::*;
pub(crate) use self::compare::*;
pub(crate) use self::ctl::*;
pub(crate) use self::learn::*;
pub(crate) use self::pilot::*;
pub(crate) use self::real::*;
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
    /// Run a workload under several schedulers and recommend one
    Compare(Box<Compare>),
    /// Run a grid of experiments, or plot its results
    Sweep(Sweep),
    /// Search for better scheduler settings for a workload, and confirm the gain in further runs
    Tune(Box<Tune>),
    /// List the schedulers, or show the manual of one
    Schedulers(Schedulers),
    /// List the device models, show one, or check it against its data sheet
    Devices(Devices),
    /// Inspect and convert block traces
    Trace(Trace),
    /// Check our schedulers against recordings of the kernel's
    Fidelity(Fidelity),
    /// Run published experiments again and compare with the papers' figures
    Reproduce(Reproduce),
    /// Show the result of a comparison again, in any format
    Report(Report),
    /// Compare two results: before and after a change, or two drives
    Diff(Diff),
    /// Survey a drive, only reading, and recommend the scheduler to set
    Recommend(Recommend),
    /// Add the energy from a power meter's log to finished runs
    Energy(EnergyArgs),
    /// Check after a crash that no acknowledged write was lost
    Verify(VerifyArgs),
    /// Record the I/O of a block device: as a trace, or with its scheduler's inputs and decisions
    Record(Record),
    /// Train, evaluate and inspect models that predict latency or name the workload
    Learn(Learn),
    /// Serve a drive to many clients over NBD, shared by weight
    Serve(Box<Serve>),
    /// Query and control a running server
    Ctl(Ctl),
    /// Watch a running server: the share, rates and latencies of each export
    Top(Top),
    /// Choose schedulers for live disks: watch and advise; with --act, also set them until it ends
    Pilot(Pilot),
    /// Measure the speed of the simulator, the schedulers, the engine, learned models and the disk server
    Bench(Bench),
    /// One thread of a load, in a process of its own
    #[command(hide = true)]
    Worker,
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page, or write one per command to a folder
    Man(Man),
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
  dumbwaiter devices
  dumbwaiter devices --show hdd:st1000dm003 > my-drive.toml
  dumbwaiter devices --validate ssd:850pro-256
  sudo dumbwaiter devices --fit /dev/nvme0n1 > my-drive.toml     a survey that only reads, up to 2 minutes
  dumbwaiter compare -d my-drive.toml")]
pub(crate) struct Devices {
    /// Print a model's parameter file, to copy and change
    #[arg(long, value_name = "NAME")]
    pub(crate) show: Option<String>,
    /// Measure a model and check it against its targets; `all` for every model
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) validate: Option<String>,
    /// Survey a block device or file, fit a model of its kind to it, and print that as a parameter file; only reads unless
    /// --allow-writes is given. The name of a model surveys that model, in virtual time
    #[arg(long, value_name = "PATH|NAME", conflicts_with_all = ["show", "validate"])]
    pub(crate) fit: Option<PathBuf>,
    /// With --fit: time of the survey at most
    #[arg(long = "for", value_name = "TIME", default_value = "2m", requires = "fit")]
    pub(crate) length: String,
    /// With --fit: also measure writes. This destroys the data on the device
    #[arg(long, requires = "fit")]
    pub(crate) allow_writes: bool,
    /// With --allow-writes: write although the device is in use; PATH must be that of --fit
    #[arg(long, value_name = "PATH", requires = "allow_writes")]
    pub(crate) i_know_this_destroys: Option<PathBuf>,
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
    /// `list`, or papers; `NAME:FIGURE` runs one figure or table of a paper
    #[arg(required = true, value_name = "list|NAME[:FIGURE]")]
    pub(crate) what: Vec<String>,
    /// Shorter runs and fewer replicates
    #[arg(long)]
    pub(crate) quick: bool,
    /// Run on this device instead of on the models: ull-2023 and poll-2022 under the kernel's schedulers, kml-2025:phases in our
    /// engine (also on a file); only reads unless --allow-writes is given
    #[arg(long, value_name = "PATH")]
    pub(crate) on: Option<PathBuf>,
    /// Like --on, on the drive that holds this folder; RocksDB's files go to a new folder in it, which is removed at the end
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["on", "allow_writes"])]
    pub(crate) dir: Option<PathBuf>,
    /// With --on: also run the loads that write, and RocksDB on a new file system. This destroys the data on the device
    #[arg(long, requires = "on")]
    pub(crate) allow_writes: bool,
    /// With --allow-writes: write although the device is in use; PATH must be that of --on
    #[arg(long, value_name = "PATH", requires = "allow_writes")]
    pub(crate) i_know_this_destroys: Option<PathBuf>,
    /// With --on: runs of each case; of kml-2025:phases, repeats that each draw their own order of phases
    #[arg(long, value_name = "N", requires = "on")]
    pub(crate) replicates: Option<std::num::NonZeroU32>,
    /// With --on: seed of the order of the phases
    #[arg(long, value_name = "N", default_value_t = 1, requires = "on")]
    pub(crate) seed: u64,
    /// With --on: length of a phase under `none`; 10s without it, with --quick 1s
    #[arg(long, value_name = "TIME", requires = "on")]
    pub(crate) phase: Option<String>,
    /// Number of runs simulated in parallel; does not change the results
    #[arg(long, short, value_name = "N", conflicts_with_all = ["on", "dir"])]
    pub(crate) jobs: Option<usize>,
    /// Write all rows as a JSON list; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the tables and figures as one HTML file that works offline
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter compare --json result.json
  dumbwaiter report result.json
  dumbwaiter report result.json --format markdown
  dumbwaiter report result.json --html report.html --goal latency")]
pub(crate) struct Report {
    /// The results that `compare --json` wrote
    #[arg(value_name = "RESULT.json")]
    pub(crate) result: PathBuf,
    /// How the result is printed: table, csv, markdown or json
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(crate) format: String,
    /// The goal of the recommendation; by default that of the result
    #[arg(long, value_enum)]
    pub(crate) goal: Option<Goal>,
    #[command(flatten)]
    pub(crate) outputs: Outputs,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter diff before.json after.json
  dumbwaiter diff hdd.json ssd.json --json -")]
pub(crate) struct Diff {
    /// The first result, such as that of the old kernel
    #[arg(value_name = "A.json")]
    pub(crate) a: PathBuf,
    /// The second result
    #[arg(value_name = "B.json")]
    pub(crate) b: PathBuf,
    /// Write every difference as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
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
