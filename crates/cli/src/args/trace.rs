//! How traces are read, and arguments of `trace`.

use std::path::PathBuf;

use clap::Subcommand;

/// How a trace is read.
#[derive(clap::Args)]
#[command(next_help_heading = "Traces")]
pub(crate) struct Reading {
    /// The format of a trace, if it cannot be recognised from the content (see `dumbwaiter trace formats`); with `compare` also how
    /// the result is printed: table, csv, markdown or json
    #[arg(long, value_name = "NAME")]
    pub(crate) format: Option<String>,
    /// Columns of delimited text, such as time_ms,op,offset_bytes,size_bytes
    #[arg(long, value_name = "NAME,…")]
    pub(crate) columns: Option<String>,
    /// The blkparse or blktrace event that counts as the arrival; by default Q if the trace has any, else I
    #[arg(long, value_name = "Q|I|D|C")]
    pub(crate) arrival: Option<String>,
    /// Size of each request if the trace records none (default: 4096)
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) assume_bytes: Option<u32>,
}

#[derive(clap::Args)]
pub(crate) struct Trace {
    #[command(subcommand)]
    pub(crate) what: TraceCommand,
}

#[derive(Subcommand)]
pub(crate) enum TraceCommand {
    /// Print statistics of a trace
    #[command(after_help = "Example:\n  dumbwaiter trace stat disk.csv.zst --json -")]
    Stat(TraceStat),
    /// Convert a trace to another format
    #[command(after_help = "\
Examples:
  dumbwaiter trace convert in.blkparse.zst out.dwt
  dumbwaiter trace convert in.csv out.csv.zst --to msr
  dumbwaiter trace convert in.blkparse out.dwt --device 8,16 --start 10s --end 20s
  dumbwaiter trace convert in.txt out.iolog --columns time_s,op,offset_sectors,size_bytes --to iolog3")]
    Convert(TraceConvert),
    /// Print the first records of a trace
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
    /// The output file; the extension `.zst` or `.gz` compresses it
    pub(crate) to_file: PathBuf,
    /// Format of the output file; by default its extension decides
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,
    /// Columns of the output file, for `--to columns`
    #[arg(long, value_name = "NAME,…")]
    pub(crate) to_columns: Option<String>,
    /// Only records from this time after the first
    #[arg(long, value_name = "TIME", help_heading = "Part")]
    pub(crate) start: Option<String>,
    /// Only records before this time after the first
    #[arg(long, value_name = "TIME", help_heading = "Part")]
    pub(crate) end: Option<String>,
    /// Only records of this device: a number, major,minor or a name of the trace; may be given several times
    #[arg(long, value_name = "DEVICE", help_heading = "Part")]
    pub(crate) device: Vec<String>,
    /// Only records of this process: a number or a name of the trace; may be given several times
    #[arg(long, value_name = "PROCESS", help_heading = "Part")]
    pub(crate) process: Vec<String>,
    /// Without the first N of these
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Part")]
    pub(crate) skip: u64,
    /// At most N of these
    #[arg(long, value_name = "N", help_heading = "Part")]
    pub(crate) records: Option<u64>,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

#[derive(clap::Args)]
pub(crate) struct TraceHead {
    /// The trace
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Number of records
    #[arg(short = 'n', long, default_value_t = 10)]
    pub(crate) records: u64,
    #[command(flatten)]
    pub(crate) reading: Reading,
}
