//! Arguments of commands on real drives.

use std::path::PathBuf;

use super::compare::{Goal, Outputs, PowerLog};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter recommend /dev/nvme0n1
  dumbwaiter recommend /dev/sda --for 30s --json advice.json
  dumbwaiter recommend --check /dev/sda
  dumbwaiter recommend /dev/sda --format ansible
  dumbwaiter recommend /dev/sda --goal throughput --schedulers none,mq-deadline:fifo_batch=1

Needs root, to try the kernel's schedulers. The previous settings are restored at the end, also after a signal or a crash. It
writes nothing to the device.")]
pub(crate) struct Recommend {
    /// The block device
    pub(crate) device: PathBuf,
    /// Time limit of the survey
    #[arg(long = "for", value_name = "TIME", default_value = "2m")]
    pub(crate) length: String,
    /// The kernel schedulers to try beside the current one, with settings after a colon; without it, all
    #[arg(long, short, value_name = "NAME[:SETTING=N,…],…|all")]
    pub(crate) schedulers: Option<String>,
    /// The goal of the recommendation
    #[arg(long, value_enum, default_value_t)]
    pub(crate) goal: Goal,
    /// Only say whether the rule that an earlier recommendation gave for this device holds; exit code 1 where it does not
    #[arg(long, conflicts_with_all = ["schedulers", "goal", "json", "html", "format"])]
    pub(crate) check: bool,
    /// Print, in place of the advice, the file that applies it: udev, nixos, tuned, ansible or systemd
    #[arg(long, value_name = "FORM")]
    pub(crate) format: Option<String>,
    /// Show all columns, without a limit on the width
    #[arg(long)]
    pub(crate) wide: bool,
    /// Write the advice and every run as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a report of the survey with plots as one HTML file that works offline
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// Check after a crash the writes that a run with --verify-journal acknowledged
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  dumbwaiter compare load.toml --on test.img --destroy test.img --verify --verify-journal writes.journal
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

Needs root and tracefs. It does no I/O on the device. It ends after --for, or with Ctrl-C (exit code 130).
With --dispatch, start it before the load: it cannot follow requests that are already in the block layer.")]
pub(crate) struct Record {
    /// The block device
    pub(crate) device: PathBuf,
    /// The file to write; the extension of a trace's name selects its format (see `dumbwaiter trace formats`)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Record for `dumbwaiter fidelity`, with what stands before the scheduler (wbt, io.max, io.cost):
    /// NAME.csv or NAME.csv.zst, with NAME.json beside
    #[arg(long)]
    pub(crate) dispatch: bool,
    /// Duration, such as 10s; without it, until Ctrl-C
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) length: Option<String>,
    /// Size of the kernel's buffer per CPU
    #[arg(long, value_name = "KIB", default_value_t = 16384, value_parser = clap::value_parser!(u64).range(4..=1_048_576))]
    pub(crate) buffer_kb: u64,
    /// End the recording when its events fill this much memory
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
  dumbwaiter report energy runs.json --power-log logger.csv --json runs-with-energy.json

Runs and samples are joined by the time of day. If the runs used --power-sync, the load patterns give the offset of the logger's
clock; otherwise the clocks are taken to agree, or to differ by --power-offset.")]
pub(crate) struct EnergyArgs {
    /// The results that `compare --on … --json` wrote
    #[arg(value_name = "RESULTS.json")]
    pub(crate) results: PathBuf,
    #[command(flatten)]
    pub(crate) power: PowerLog,
    #[command(flatten)]
    pub(crate) outputs: Outputs,
}
