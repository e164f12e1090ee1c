//! Arguments of `compare`.

use std::path::PathBuf;

use crate::terminal::DocumentOutputs;
use clap::ValueEnum;

use super::{Destroy, trace::Reading};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter compare
  dumbwaiter compare --on /dev/nvme0n1
  dumbwaiter compare --on /dev/nvme0n1 --duration 2m --power-log live.csv --power-offset 3s
  dumbwaiter compare scenarios/noisy-neighbour.toml --html report.html
  dumbwaiter compare database noisy-neighbour my-load.toml
  dumbwaiter compare suite:desktop
  dumbwaiter compare job.fio --device hdd:st1000dm003,ssd:850pro-256 --schedulers none,mq-deadline,kyber
  dumbwaiter compare trace.csv.zst --depth 32 --device ./my-drive.toml --json result.json
  dumbwaiter compare job.fio --device ull:optane-900p --completion interrupt,poll,hybrid
  dumbwaiter compare noisy-neighbour --via serve --device ssd:850pro-256 --duration 5s
  dumbwaiter compare --schedulers mq-deadline,mq-deadline:fifo_batch=1,mq-deadline:kernel=5.15")]
pub(crate) struct Compare {
    /// Scenarios (a TOML file or a name), fio job files, a suite or one or more block traces; without it, `shared-disk`
    #[arg(value_name = "SCENARIO|JOB.fio|suite:NAME|TRACE")]
    pub(crate) input: Vec<PathBuf>,
    /// Devices to simulate: kind:name, a parameter file, with overrides after `?` (see `dumbwaiter devices`); hdd, sata-ssd or nvme:
    /// several models of the class
    #[arg(long, short, value_name = "NAME|FILE,…", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Schedulers, with settings after a colon; `historical`: those that current kernels lack; `all` (see `dumbwaiter schedulers`)
    #[arg(long, short, value_name = "NAME[:SETTING=N,…],…|historical|all")]
    pub(crate) schedulers: Option<String>,
    /// Run on this file or block device instead of simulating; only reads unless --destroy is given
    #[arg(long, value_name = "PATH", conflicts_with = "device")]
    pub(crate) on: Option<PathBuf>,
    /// With --on: use our engine, the kernel's schedulers, or both (the default on a block device); `serve`, also without --on: put the
    /// load on a served disk through NBD, in real time
    #[arg(long, value_enum)]
    pub(crate) via: Option<Via>,
    #[command(flatten)]
    pub(crate) destroy: Destroy,
    /// With --destroy: put a checksum into every written block; check it at every read and at the end
    #[arg(long, requires = "destroy_or_older")]
    pub(crate) verify: bool,
    /// With --verify: record every acknowledged write in this file, for `dumbwaiter verify` after a crash
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub(crate) verify_journal: Option<PathBuf>,
    /// With --on: use the page cache (no O_DIRECT)
    #[arg(long, requires = "on")]
    pub(crate) buffered: bool,
    /// With --on: continue after a failed I/O
    #[arg(long, requires = "on")]
    pub(crate) keep_going: bool,
    /// With --on: round I/Os out to whole device blocks instead of ending with an error
    #[arg(long, requires = "on")]
    pub(crate) round_out: bool,
    /// With --on: number of the engine's rings, each on its own CPU, for schedulers that work per queue (none): a number,
    /// per-core or auto
    #[arg(long, value_name = "N|per-core|auto", requires = "on")]
    pub(crate) rings: Option<String>,
    /// How completions are found: interrupt, poll, hybrid, hybrid-fixed:TIME, sqpoll
    #[arg(long, value_name = "METHOD,…", value_delimiter = ',')]
    pub(crate) completion: Vec<String>,
    /// Queue depth of the device: commands that it holds at once
    #[arg(long, short, value_name = "N")]
    pub(crate) queue_depth: Option<u32>,
    /// Requests that the scheduler may hold
    #[arg(long, value_name = "N")]
    pub(crate) nr_requests: Option<u32>,
    /// KiB that the page cache reads ahead, in a simulation
    #[arg(long, value_name = "KIB", conflicts_with = "on")]
    pub(crate) read_ahead_kb: Option<u32>,
    /// The simulated host: a profile of what an I/O costs its CPUs, or its file (see `dumbwaiter host`)
    #[arg(long, value_name = "PROFILE|FILE", conflicts_with = "on")]
    pub(crate) host: Option<String>,
    /// CPUs of the simulated host
    #[arg(long, value_name = "N", conflicts_with = "on", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) cpus: Option<u16>,
    /// Refuse an I/O whose predicted wait is longer than this, for tasks without a deadline in the scenario
    #[arg(long, value_name = "TIME")]
    pub(crate) deadline: Option<String>,
    /// Simulated time that is measured, such as 10s
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// Simulated time before the measured time; its I/Os are not counted
    #[arg(long, value_name = "TIME")]
    pub(crate) warmup: Option<String>,
    /// End a run after this many I/Os
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Number of runs of each combination, each with its own seed
    #[arg(long, short, value_name = "N")]
    pub(crate) replicates: Option<u32>,
    /// Add replicates until no other scheduler can be better than the recommended one by more than this, or no difference is larger
    /// (95 % confidence over all looks)
    #[arg(long, value_name = "PERCENT")]
    pub(crate) until: Option<String>,
    /// With --until: begin no more replicates that would end after this time
    #[arg(long, value_name = "TIME", default_value = "10m", requires = "until")]
    pub(crate) until_time: String,
    /// Seed of the first replicate
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// The goal of the recommendation: what latency, throughput and shares are worth to each other
    #[arg(long, value_enum, default_value_t)]
    pub(crate) goal: Goal,
    /// The part of the throughput that half the latency is worth, such as 25%, in place of the goal's
    #[arg(long, value_name = "PERCENT")]
    pub(crate) rate: Option<String>,
    /// The scheduler that is set, beside which the others are judged (default: the drive's, else the kernel's own choice)
    #[arg(long, value_name = "NAME[:SETTING=N,…]")]
    pub(crate) incumbent: Option<String>,
    /// Number of runs simulated in parallel; does not change the results
    #[arg(long, short, value_name = "N", conflicts_with = "on")]
    pub(crate) jobs: Option<usize>,
    #[command(flatten)]
    pub(crate) outputs: Outputs,
    /// Resume a comparison that ended early: keep the completed runs of this result
    #[arg(long, value_name = "RESULT.json")]
    pub(crate) resume: Option<PathBuf>,
    /// Print the effective scenario and run nothing
    #[arg(long)]
    pub(crate) print_config: bool,
    #[command(flatten)]
    pub(crate) replay: Replay,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) power: PowerLog,
    /// With --on: idle and load the CPUs in a known pattern for a minute before and after the runs, to align the log's clock
    #[arg(long, requires = "on", help_heading = "Power logger")]
    pub(crate) power_sync: bool,
}

/// The implementation of the schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Via {
    /// Our schedulers, in this program, over io_uring
    Engine,
    /// The kernel's schedulers, set through sysfs and restored afterwards
    Kernel,
    /// Both, side by side
    Both,
    /// Our schedulers in a disk that this program serves over NBD, with the load as its clients
    Serve,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub(crate) enum Goal {
    /// Half the latency (of the interactive tenant, else of reads) is worth a third of the throughput
    #[default]
    Balanced,
    /// Half the latency is worth half of the throughput
    Latency,
    /// Half the latency is worth 5 % of the throughput
    Throughput,
    /// Shares near to the weights first: half the latency is worth 16 % of the throughput, half the share error a third
    Fairness,
}

impl From<Goal> for dumbwaiter_advise::Goal {
    fn from(goal: Goal) -> dumbwaiter_advise::Goal {
        match goal {
            Goal::Balanced => dumbwaiter_advise::Goal::Balanced,
            Goal::Latency => dumbwaiter_advise::Goal::Latency,
            Goal::Throughput => dumbwaiter_advise::Goal::Throughput,
            Goal::Fairness => dumbwaiter_advise::Goal::Fairness,
        }
    }
}

/// Output files, and how the result is printed.
#[derive(clap::Args)]
pub(crate) struct Outputs {
    /// Show all columns, without a limit on the width
    #[arg(long)]
    pub(crate) wide: bool,
    /// Write everything as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a report with plots as one HTML file that works offline
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write Parquet tables of runs, tenants, series and distributions to this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) parquet: Option<PathBuf>,
}

impl Outputs {
    /// Where a document goes.
    pub(crate) fn of_document(&self) -> DocumentOutputs<'_> {
        let Outputs { wide, json, html, parquet } = self;
        DocumentOutputs { json: json.as_deref(), html: html.as_deref(), parquet: parquet.as_deref(), wide: *wide }
    }
}

/// How a trace is replayed.
#[derive(clap::Args)]
#[command(next_help_heading = "Traces")]
pub(crate) struct Replay {
    /// Replay at this multiple of the recorded speed
    #[arg(long, value_name = "FACTOR", conflicts_with_all = ["depth", "closed_per_task"])]
    pub(crate) speed: Option<f64>,
    /// Keep this many I/Os outstanding and ignore the recorded times
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<u32>,
    /// Let each recorded process wait for its own I/Os
    #[arg(long)]
    pub(crate) closed_per_task: bool,
    /// How to handle I/Os beyond the end of the device; needed where more than 1 % of a trace lie there
    #[arg(long, value_name = "scale|wrap|truncate|grow")]
    pub(crate) fit: Option<String>,
}

/// The log of a power meter.
#[derive(clap::Args)]
#[command(next_help_heading = "Power logger")]
pub(crate) struct PowerLog {
    /// The logger's CSV file, read after the runs; the only source of joules
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) power_log: Option<PathBuf>,
    /// How far the logger's clock is ahead of this machine's (-2s: behind)
    #[arg(long, value_name = "TIME", requires = "power_log", allow_hyphen_values = true)]
    pub(crate) power_offset: Option<String>,
    /// Time zone of the log, if its header names none
    #[arg(long, value_name = "GMT±HH:MM", requires = "power_log", allow_hyphen_values = true)]
    pub(crate) power_zone: Option<String>,
}
