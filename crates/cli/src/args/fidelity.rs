//! Arguments of `fidelity`.

use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter fidelity recordings/*.csv.zst
  dumbwaiter fidelity kyber-bursts.csv.zst --explain 1
  dumbwaiter fidelity throttling/mq-deadline-lat*.csv.zst
  dumbwaiter fidelity --closed-loop recordings/*.json
  dumbwaiter fidelity --closed-loop recordings/*.json --against again
  dumbwaiter fidelity --measured cases.csv --device ssd:nvme-tlc --host r230-5.18 --verdicts
  dumbwaiter fidelity --measured reader.json,writer.json --device my-drive.toml --scheduler bfq")]
pub(crate) struct Fidelity {
    /// Recordings (NAME.csv.zst and NAME.json, by the name of either)
    #[arg(required_unless_present = "measured")]
    pub(crate) files: Vec<PathBuf>,
    /// Write as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Run each recording's own jobs in simulation and compare bytes, latencies and shares with the kernel's
    #[arg(long)]
    pub(crate) closed_loop: bool,
    /// Compare with second recordings of the same names in this folder instead: how the kernel agrees with itself
    #[arg(long, value_name = "FOLDER", requires = "closed_loop", conflicts_with = "jobs")]
    pub(crate) against: Option<PathBuf>,
    /// Print the N-th difference of each recording, with the scheduler's state around it
    #[arg(long, value_name = "N", conflicts_with = "closed_loop")]
    pub(crate) explain: Option<u64>,
    /// Number of recordings replayed in parallel
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    #[command(flatten)]
    pub(crate) measured: Measured,
}

/// Predictions beside what was measured on real drives.
#[derive(clap::Args)]
#[command(next_help_heading = "Beside real drives")]
pub(crate) struct Measured {
    /// Run what was measured in simulation, and compare: a table (.csv), or results of fio joined by commas that ran together (.json)
    #[arg(long, value_name = "CASES", conflicts_with_all = ["files", "closed_loop", "against", "explain"])]
    pub(crate) measured: Option<String>,
    /// The model that stands for the drive; FIGURE=MODEL for one figure or drive of the table. May be repeated
    #[arg(long, value_name = "MODEL", requires = "measured")]
    pub(crate) device: Vec<String>,
    /// The host: the name of a profile, or a file with a `[host]` section
    #[arg(long, value_name = "PROFILE", requires = "measured")]
    pub(crate) host: Option<String>,
    /// CPUs of the host [default: those of the file, else 10]
    #[arg(long, value_name = "N", requires = "measured", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) cpus: Option<u16>,
    /// The figures to answer, separated by commas; `1` is also 1a and 1b
    #[arg(long, value_name = "NAMES", requires = "measured", value_delimiter = ',')]
    pub(crate) figure: Vec<String>,
    /// Measured time of each run [default: what the rates of its rows need]
    #[arg(long, value_name = "TIME", requires = "measured")]
    pub(crate) seconds: Option<String>,
    /// Warm-up of each run [default: a part of the measured time]
    #[arg(long, value_name = "TIME", requires = "measured")]
    pub(crate) warmup: Option<String>,
    /// Runs of each row, with seeds of their own [default: 1, with --verdicts 3]
    #[arg(long, value_name = "N", requires = "measured", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) replicates: Option<u32>,
    /// Also the verdict of a comparison for each condition, and whether the measurement agrees
    #[arg(long, requires = "measured")]
    pub(crate) verdicts: bool,
    /// Write the errors by class of drive and kind of load as a table (CSV)
    #[arg(long, value_name = "FILE", requires = "measured")]
    pub(crate) errors: Option<PathBuf>,
    /// The scheduler under which results of fio were measured, which they do not say
    #[arg(long, value_name = "NAME", requires = "measured", default_value = "none")]
    pub(crate) scheduler: String,
}
