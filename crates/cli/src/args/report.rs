//! Arguments of `report`.

use std::path::PathBuf;

use clap::Subcommand;

use super::{EnergyArgs, Goal, Outputs};

#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  dumbwaiter compare --json result.json
  dumbwaiter report result.json
  dumbwaiter report result.json --format markdown
  dumbwaiter report result.json --html report.html --goal latency
  dumbwaiter report diff before.json after.json"
)]
pub(crate) struct Report {
    #[command(subcommand)]
    pub(crate) what: Option<ReportCommand>,
    /// The results that `compare --json` wrote
    #[arg(required = true, value_name = "RESULT.json")]
    pub(crate) result: Option<PathBuf>,
    /// How the result is printed: table, csv, markdown or json
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(crate) format: String,
    /// The goal of the recommendation; by default that of the result
    #[arg(long, value_enum)]
    pub(crate) goal: Option<Goal>,
    /// The part of the throughput that half the latency is worth, such as 25%, in place of the goal's
    #[arg(long, value_name = "PERCENT")]
    pub(crate) rate: Option<String>,
    /// The scheduler to take as the one that is set; by default that of the result
    #[arg(long, value_name = "NAME[:SETTING=N,…]")]
    pub(crate) incumbent: Option<String>,
    #[command(flatten)]
    pub(crate) outputs: Outputs,
}

#[derive(Subcommand)]
pub(crate) enum ReportCommand {
    /// Compare two results: before and after a change, or two drives
    Diff(Diff),
    /// Add the energy from a power meter's log to finished runs
    Energy(EnergyArgs),
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter report diff before.json after.json
  dumbwaiter report diff hdd.json ssd.json --json -")]
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
