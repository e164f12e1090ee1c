//! Arguments of `host`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  dumbwaiter host
  dumbwaiter host show icpe24 > my-host.toml                  to copy and change
  sudo dumbwaiter host fit > my-host.toml                     this machine, a minute or two
  dumbwaiter compare -d nvme --host my-host.toml
  dumbwaiter host fit --from cases.csv --figure 3,7 -d ssd:980pro-1tb --cpus 10 > their-host.toml"
)]
pub(crate) struct Host {
    #[command(subcommand)]
    pub(crate) what: Option<HostCommand>,
    /// Now `host fit`
    #[arg(long, hide = true)]
    pub(crate) fit: bool,
    /// Write as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum HostCommand {
    /// Print a profile's file, to copy and change
    Show {
        /// The profile
        name: String,
    },
    /// Measure what an I/O costs this machine (root, fio), or take published results (--from); print a profile
    Fit(Box<HostFit>),
}

#[derive(clap::Args)]
pub(crate) struct HostFit {
    /// Fit to these in place of a measurement of this machine: tables as `fidelity --measured` takes them, or results of fio
    #[arg(long, value_name = "CASES", num_args = 1.., requires = "device")]
    pub(crate) from: Vec<String>,
    /// The model of the drive on which they were measured; FIGURE=MODEL for one figure. May be repeated
    #[arg(long, short, value_name = "MODEL", requires = "from")]
    pub(crate) device: Vec<String>,
    /// The figures to use, separated by commas; `1` is also 1a and 1b
    #[arg(long, value_name = "NAMES", requires = "from", value_delimiter = ',')]
    pub(crate) figure: Vec<String>,
    /// CPUs of the machine [default: 10]
    #[arg(long, value_name = "N", requires = "from", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) cpus: Option<u16>,
    /// The scheduler under which results of fio were measured
    #[arg(long, value_name = "NAME", requires = "from", default_value = "none")]
    pub(crate) scheduler: String,
    /// The parameters to fit, separated by commas [default: those that matter]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) parameters: Vec<String>,
    /// The profile from which the fit starts, and whose costs stay where nothing determines them
    #[arg(long, value_name = "PROFILE", default_value = "default")]
    pub(crate) like: String,
    /// Name of the new profile
    #[arg(long, value_name = "NAME", default_value = "fitted")]
    pub(crate) name: String,
    /// Time of each run of fio
    #[arg(long, value_name = "TIME", default_value = "1s", conflicts_with = "from")]
    pub(crate) length: String,
    /// Runs of each case, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 3, conflicts_with = "from", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Write what was measured as a table (CSV), which --from and `fidelity --measured` take
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(crate) save: Option<PathBuf>,
    /// Simulations at the same time; by default as many as there are CPUs
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Write the fit as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
