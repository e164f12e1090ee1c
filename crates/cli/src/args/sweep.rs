//! Arguments of `sweep`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  dumbwaiter sweep scenarios/sweeps/depths.toml --out depths --dry-run
  dumbwaiter sweep scenarios/sweeps/depths.toml --out depths
  dumbwaiter sweep report depths --x queue_depth --y iops --by scheduler --facet device --html depths.html

Start it again to go on: cells whose rows are in DIR are not run again."
)]
pub(crate) struct Sweep {
    #[command(subcommand)]
    pub(crate) what: Option<SweepCommand>,
    /// The sweep: a base scenario and the axes of a grid (TOML)
    #[arg(required = true, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Folder of the results, a Parquet data set; created if it is missing
    #[arg(long, value_name = "DIR", required_unless_present = "dry_run")]
    pub(crate) out: Option<PathBuf>,
    /// Number of cells simulated in parallel; does not change the results
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Run a few cells to estimate the time and the size of the whole sweep; write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Stop at the first failed cell; by default its row holds the error and the sweep continues
    #[arg(long)]
    pub(crate) fail_fast: bool,
}

#[derive(Subcommand)]
pub(crate) enum SweepCommand {
    /// Plot one column of a sweep's results by others
    Report(SweepReport),
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter sweep report depths --x queue_depth --y iops --by scheduler
  dumbwaiter sweep report depths --x queue_depth --y p99_us --by scheduler --facet device --html depths.html")]
pub(crate) struct SweepReport {
    /// Folder of the results
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Column on the horizontal axis
    #[arg(long, value_name = "COLUMN")]
    pub(crate) x: String,
    /// Column on the vertical axis
    #[arg(long, value_name = "COLUMN")]
    pub(crate) y: String,
    /// A line for each value of this column
    #[arg(long, value_name = "COLUMN")]
    pub(crate) by: Option<String>,
    /// A plot for each value of this column
    #[arg(long, value_name = "COLUMN")]
    pub(crate) facet: Option<String>,
    /// Write the plots as one HTML file that works offline
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the means as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
