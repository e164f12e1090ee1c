//! What commands on real drives take.

use std::path::PathBuf;

use super::compare::{Goal, Outputs, PowerLog};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter recommend /dev/nvme0n1
  dumbwaiter recommend /dev/sda --for 30s --json advice.json
  dumbwaiter recommend /dev/sda --goal throughput --schedulers none,mq-deadline:fifo_batch=1

Needs root, to try the kernel's schedulers; what was set before is set again at the end, whatever happens. Nothing is written to
the device.")]
pub(crate) struct Recommend {
    /// The block device
    pub(crate) device: PathBuf,
    /// How long it may take
    #[arg(long = "for", value_name = "TIME", default_value = "2m")]
    pub(crate) length: String,
    /// Only these of the kernel's schedulers, with settings after a colon, beside the one that is set; else all
    #[arg(long, short, value_name = "NAME[:SETTING=N,…],…|all")]
    pub(crate) schedulers: Option<String>,
    /// What to aim at
    #[arg(long, value_enum, default_value_t)]
    pub(crate) goal: Goal,
    /// Write the advice and every run as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a report of the survey with plots, one file that works offline
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// Check after a crash what a run with --verify-journal had acknowledged
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  dumbwaiter compare load.toml --on test.img --allow-writes --verify --verify-journal writes.journal
  dumbwaiter verify test.img writes.journal")]
pub(crate) struct VerifyArgs {
    /// The file or block device that was written
    pub(crate) target: PathBuf,
    /// The journal of acknowledged writes
    pub(crate) journal: PathBuf,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter record /dev/nvme0n1 -o load.dwt --for 60s
  dumbwaiter record /dev/sda -o load.blkparse.zst
  dumbwaiter record /dev/sda -o load.csv.zst --dispatch --for 10s
  dumbwaiter fidelity load.csv.zst

Needs root and tracefs. Nothing on the device is read or written. It ends after --for, or by Ctrl-C (and exits with 130).
For --dispatch, start it before the load: requests that are on their way already cannot be followed.")]
pub(crate) struct Record {
    /// The block device
    pub(crate) device: PathBuf,
    /// The file to write; the ending of a trace's name decides its format (see `dumbwaiter trace formats`)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Record for `dumbwaiter fidelity`: NAME.csv or NAME.csv.zst, with NAME.json beside
    #[arg(long)]
    pub(crate) dispatch: bool,
    /// How long, such as 10s; without it, until Ctrl-C
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) length: Option<String>,
    /// The kernel's buffer for each CPU
    #[arg(long, value_name = "KIB", default_value_t = 16384, value_parser = clap::value_parser!(u64).range(4..=1_048_576))]
    pub(crate) buffer_kb: u64,
    /// End when so much memory is full of events
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub(crate) memory_mb: u64,
    /// Write the summary as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Join the log of a power meter with runs.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  dumbwaiter compare --on /dev/nvme0n1 --duration 2m --power-sync --json runs.json
  dumbwaiter energy runs.json --power-log logger.csv --json runs-with-energy.json

Runs and samples are joined by the time of day. Where the runs were made with --power-sync, the logger's clock is found by the
patterns of load; else it is taken to be right, or --power-offset off.")]
pub(crate) struct EnergyArgs {
    /// What `compare --on … --json` wrote
    #[arg(value_name = "RESULTS.json")]
    pub(crate) results: PathBuf,
    #[command(flatten)]
    pub(crate) power: PowerLog,
    #[command(flatten)]
    pub(crate) outputs: Outputs,
}
