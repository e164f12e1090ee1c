//! What can be typed.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// Choose and prove a block I/O scheduler.
#[derive(Parser)]
#[command(
    name = "dumbwaiter",
    version,
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
    Part(PartArgs),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page, or write all of them to a folder
    Man(Man),
}

/// Whose schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Via {
    /// Ours, in this program, over io_uring
    Engine,
    /// The kernel's own, set through sysfs and put back afterwards
    Kernel,
    /// Both, side by side
    Both,
}

/// One thread of a load in a process of its own.
#[derive(clap::Args)]
pub(crate) struct PartArgs {
    pub(crate) scenario: PathBuf,
    #[arg(long)]
    pub(crate) on: PathBuf,
    #[arg(long)]
    pub(crate) records: PathBuf,
    #[arg(long)]
    pub(crate) thread: usize,
    #[arg(long)]
    pub(crate) replicate: u32,
    #[arg(long)]
    pub(crate) completion: String,
    #[arg(long, default_value_t = 0)]
    pub(crate) ioprio: u16,
    #[arg(long)]
    pub(crate) sqpoll: bool,
    #[arg(long)]
    pub(crate) allow_writes: bool,
    #[arg(long)]
    pub(crate) buffered: bool,
    #[arg(long)]
    pub(crate) keep_going: bool,
    #[arg(long)]
    pub(crate) round_out: bool,
}

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
  dumbwaiter compare
  dumbwaiter compare --on /dev/nvme0n1
  dumbwaiter compare --on /dev/nvme0n1 --duration 2m --power-log live.csv --power-offset 3s
  dumbwaiter compare scenarios/noisy-neighbour.toml --html report.html
  dumbwaiter compare job.fio --device hdd:st1000dm003,ssd:850pro-256 --schedulers none,mq-deadline,kyber
  dumbwaiter compare trace.csv.zst --depth 32 --device ./my-drive.toml --json result.json
  dumbwaiter compare job.fio --device ull:optane-900p --completion interrupt,poll,hybrid
  dumbwaiter compare --schedulers mq-deadline,mq-deadline:fifo_batch=1,mq-deadline:kernel=5.15")]
pub(crate) struct Compare {
    /// A scenario (TOML), a fio job file or one or more block traces; without it, the built-in scenario
    #[arg(value_name = "SCENARIO.toml|JOB.fio|TRACE")]
    pub(crate) input: Vec<PathBuf>,
    /// Devices to simulate: kind:name, a parameter file, with overrides after `?` (see `dumbwaiter devices`)
    #[arg(long, short, value_name = "NAME|FILE,…", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Schedulers, with settings after a colon, or `all` (see `dumbwaiter schedulers`)
    #[arg(long, short, value_name = "NAME[:SETTING=N,…],…|all")]
    pub(crate) schedulers: Option<String>,
    /// Run on this file or block device instead of simulating; nothing is written unless you say --allow-writes
    #[arg(long, value_name = "PATH", conflicts_with = "device")]
    pub(crate) on: Option<PathBuf>,
    /// With --on: through our engine, the kernel's own schedulers, or both (the default on a block device)
    #[arg(long, value_enum, requires = "on")]
    pub(crate) via: Option<Via>,
    /// With --on: let the load write. This destroys what is on the file or device
    #[arg(long, requires = "on")]
    pub(crate) allow_writes: bool,
    /// With --allow-writes: write although the device is mounted or in use; PATH must be that of --on
    #[arg(long, value_name = "PATH", requires = "allow_writes")]
    pub(crate) i_know_this_destroys: Option<PathBuf>,
    /// With --allow-writes: checksums in every block written, checked on reading and at the end
    #[arg(long, requires = "allow_writes")]
    pub(crate) verify: bool,
    /// With --verify: note every acknowledged write in this file, for `dumbwaiter verify` after a crash
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub(crate) verify_journal: Option<PathBuf>,
    /// With --on: through the page cache (no O_DIRECT)
    #[arg(long, requires = "on")]
    pub(crate) buffered: bool,
    /// With --on: go on after a failed I/O
    #[arg(long, requires = "on")]
    pub(crate) keep_going: bool,
    /// With --on: round I/Os that are not whole blocks of the device out to such, instead of ending there
    #[arg(long, requires = "on")]
    pub(crate) round_out: bool,
    /// With --on: rings of our engine, each on a CPU of its own, for schedulers that need no common view (none): a number,
    /// per-core, or auto
    #[arg(long, value_name = "N|per-core|auto", requires = "on")]
    pub(crate) rings: Option<String>,
    /// How completions are found: interrupt, poll, hybrid, hybrid-fixed:TIME, sqpoll
    #[arg(long, value_name = "METHOD,…", value_delimiter = ',')]
    pub(crate) completion: Vec<String>,
    /// Commands that the driver gives the device at once
    #[arg(long, short, value_name = "N")]
    pub(crate) queue_depth: Option<u32>,
    /// Requests that the scheduler may hold
    #[arg(long, value_name = "N")]
    pub(crate) nr_requests: Option<u32>,
    /// Simulated time that is measured, such as 10s
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// Simulated time before that, in which nothing is counted
    #[arg(long, value_name = "TIME")]
    pub(crate) warmup: Option<String>,
    /// End a run after so many I/Os
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Runs of each combination, each with its own seed
    #[arg(long, short, value_name = "N")]
    pub(crate) replicates: Option<u32>,
    /// Seed of the first replicate
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// What the recommendation aims at
    #[arg(long, value_enum, default_value_t)]
    pub(crate) goal: Goal,
    /// Runs simulated at the same time; results do not depend on it
    #[arg(long, short, value_name = "N", conflicts_with = "on")]
    pub(crate) jobs: Option<usize>,
    #[command(flatten)]
    pub(crate) outputs: Outputs,
    /// Print the scenario as it takes effect, and run nothing
    #[arg(long)]
    pub(crate) print_config: bool,
    #[command(flatten)]
    pub(crate) replay: Replay,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) power: PowerLog,
    /// With --on: before and after the runs, a minute of idling, full load and idling, for the log's clock to be found by
    #[arg(long, requires = "on", help_heading = "Power logger")]
    pub(crate) power_sync: bool,
}

/// Where results go.
#[derive(clap::Args)]
pub(crate) struct Outputs {
    /// Write everything as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a report with plots, one file that works offline
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write tables of runs, tenants, series and distributions
    #[arg(long, value_name = "DIR")]
    pub(crate) parquet: Option<PathBuf>,
}

/// The log of a power meter that the machine or the drive is plugged into.
#[derive(clap::Args)]
#[command(next_help_heading = "Power logger")]
pub(crate) struct PowerLog {
    /// A logger's CSV file, read after the runs: joules are taken from it and from nothing else
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) power_log: Option<PathBuf>,
    /// The logger's clock is so far ahead of this machine's (-2s: behind)
    #[arg(long, value_name = "TIME", requires = "power_log", allow_hyphen_values = true)]
    pub(crate) power_offset: Option<String>,
    /// Time zone of the log, where its header tells none
    #[arg(long, value_name = "GMT±HH:MM", requires = "power_log", allow_hyphen_values = true)]
    pub(crate) power_zone: Option<String>,
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

impl Compare {
    /// The first option given that only a trace can use.
    pub(crate) fn of_traces(&self) -> Option<&'static str> {
        let (replay, reading) = (&self.replay, &self.reading);
        let given = [
            (replay.speed.is_some(), "--speed"),
            (replay.depth.is_some(), "--depth"),
            (replay.closed_per_task, "--closed-per-task"),
            (replay.fit.is_some(), "--fit"),
            (reading.format.is_some(), "--format"),
            (reading.columns.is_some(), "--columns"),
            (reading.arrival.is_some(), "--arrival"),
            (reading.assume_bytes.is_some(), "--assume-bytes"),
        ];
        given.into_iter().find(|(is, _)| *is).map(|(_, name)| name)
    }
}

/// How a trace is replayed.
#[derive(clap::Args)]
#[command(next_help_heading = "Traces")]
pub(crate) struct Replay {
    /// Replay at so many times the recorded speed
    #[arg(long, value_name = "FACTOR", conflicts_with_all = ["depth", "closed_per_task"])]
    pub(crate) speed: Option<f64>,
    /// Keep so many I/Os outstanding, whatever the recorded times
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<u32>,
    /// Each recorded process waits for its own I/Os
    #[arg(long)]
    pub(crate) closed_per_task: bool,
    /// What becomes of I/Os beyond the end of the device
    #[arg(long, value_name = "skip|wrap|scale")]
    pub(crate) fit: Option<String>,
}

/// How a trace is read.
#[derive(clap::Args)]
#[command(next_help_heading = "Traces")]
pub(crate) struct Reading {
    /// The format, where the content does not tell (see `dumbwaiter trace formats`)
    #[arg(long, value_name = "NAME")]
    pub(crate) format: Option<String>,
    /// Columns of delimited text, such as time_ms,op,offset_bytes,size_bytes
    #[arg(long, value_name = "NAME,…")]
    pub(crate) columns: Option<String>,
    /// Event of blkparse and blktrace that counts as arrival; without it Q where there are any, else I
    #[arg(long, value_name = "Q|I|D|C")]
    pub(crate) arrival: Option<String>,
    /// Size of each request where the trace tells none (4096 unless given)
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) assume_bytes: Option<u32>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub(crate) enum Goal {
    /// Lowest p99 of the interactive tenant (else of reads) within 10 % of the best throughput
    #[default]
    Balanced,
    /// Lowest p99, at half of the best throughput or more
    Latency,
    /// Most MB/s
    Throughput,
    /// Shares nearest to the weights, within 20 % of the best throughput
    Fairness,
}

impl From<Goal> for dumbwaiter_measure::Goal {
    fn from(goal: Goal) -> dumbwaiter_measure::Goal {
        match goal {
            Goal::Balanced => dumbwaiter_measure::Goal::Balanced,
            Goal::Latency => dumbwaiter_measure::Goal::Latency,
            Goal::Throughput => dumbwaiter_measure::Goal::Throughput,
            Goal::Fairness => dumbwaiter_measure::Goal::Fairness,
        }
    }
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
pub(crate) struct Trace {
    #[command(subcommand)]
    pub(crate) what: TraceCommand,
}

#[derive(Subcommand)]
pub(crate) enum TraceCommand {
    /// Count what is in a trace
    #[command(after_help = "Example:\n  dumbwaiter trace stat disk.csv.zst --json -")]
    Stat(TraceStat),
    /// Rewrite a trace in another format
    #[command(after_help = "\
Examples:
  dumbwaiter trace convert in.blkparse.zst out.dwt
  dumbwaiter trace convert in.csv out.csv.zst --to msr
  dumbwaiter trace convert in.txt out.iolog --columns time_s,op,offset_sectors,size_bytes --to iolog3")]
    Convert(TraceConvert),
    /// Print the first records in a common form
    #[command(after_help = "Example:\n  dumbwaiter trace head disk.vscsi -n 5")]
    Head(TraceHead),
    /// List the formats
    Formats,
}

#[derive(clap::Args)]
pub(crate) struct TraceStat {
    /// The trace; several files are read as one (per-CPU files of blktrace)
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Write as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

#[derive(clap::Args)]
pub(crate) struct TraceConvert {
    /// The trace
    pub(crate) from: PathBuf,
    /// The new file; `.zst` or `.gz` at the end of its name compresses it
    pub(crate) to_file: PathBuf,
    /// Format of the new file; without it the ending of its name decides
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,
    /// Columns of the new file, for `--to columns`
    #[arg(long, value_name = "NAME,…")]
    pub(crate) to_columns: Option<String>,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

#[derive(clap::Args)]
pub(crate) struct TraceHead {
    /// The trace
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// How many records
    #[arg(short = 'n', long, default_value_t = 10)]
    pub(crate) records: u64,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter fidelity recordings/*.csv.zst
  dumbwaiter fidelity kyber-bursts.csv.zst --explain 1")]
pub(crate) struct Fidelity {
    /// Recordings (NAME.csv.zst, with NAME.json beside)
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Write as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Print the state around the N-th difference of each recording
    #[arg(long, value_name = "N")]
    pub(crate) explain: Option<u64>,
    /// Recordings replayed at the same time
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<usize>,
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

/// What only `bench engine` uses.
#[derive(clap::Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct BenchEngine {
    /// File or block device to run on; without it, a loop device in memory that is made for it and removed (root only)
    #[arg(long, value_name = "PATH")]
    pub(crate) on: Option<PathBuf>,
    /// Allow writing to it, which destroys what is on it
    #[arg(long, requires = "on")]
    pub(crate) allow_writes: bool,
    /// Pattern of the I/O: randread, randwrite, randrw, read, write, rw
    #[arg(long, value_name = "RW")]
    pub(crate) op: Option<String>,
    /// I/Os kept outstanding
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) depth: Vec<u32>,
    /// Length of each run, such as 2s
    #[arg(long, value_name = "TIME")]
    pub(crate) time: Option<String>,
    /// Rounds, in each of which everybody runs once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: Option<u32>,
}

impl BenchEngine {
    /// The first option given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.on.is_some(), "--on"),
            (self.op.is_some(), "--op"),
            (!self.depth.is_empty(), "--depth"),
            (self.time.is_some(), "--time"),
            (self.rounds.is_some(), "--rounds"),
        ];
        given.into_iter().find(|(is, _)| *is).map(|(_, name)| name)
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum BenchWhat {
    /// Simulated requests per second on one core
    Sim,
    /// Nanoseconds per request inside a scheduler
    Schedulers,
    /// I/Os per second and CPU time of the engine on a real device, beside fio and a bare ring
    Engine,
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
