//! Arguments of `pilot`.

use std::path::PathBuf;

use super::trace::Reading;

/// Options of `pilot`.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  sudo dumbwaiter pilot --config pilot.toml --once        look once, and advise
  sudo dumbwaiter pilot --config pilot.toml --act         change settings, and put them back at the end
  sudo dumbwaiter pilot status --json
  sudo dumbwaiter pilot explain sda
  dumbwaiter pilot replay trace.csv.zst

The smallest configuration:
  [[device]]
  path = \"/dev/sda\""
)]
pub(crate) struct Pilot {
    #[command(subcommand)]
    pub(crate) question: Option<PilotQuestion>,
    /// The configuration: the disks to watch, and limits on changes to them
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) config: Option<PathBuf>,
    /// Change the settings of the disks in the configuration; without it, only advise
    #[arg(long)]
    pub(crate) act: bool,
    /// Watch until there is advice, print it and exit; changes made with --act are reverted
    #[arg(long)]
    pub(crate) once: bool,
    /// With --once: print the result as JSON
    #[arg(long, requires = "once")]
    pub(crate) json: bool,
}

/// Commands to a running pilot, and the replay of a trace.
#[derive(clap::Subcommand)]
pub(crate) enum PilotQuestion {
    /// The state of a running pilot
    Status {
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        control: PilotControl,
    },
    /// Explain the current settings of a disk
    Explain {
        /// The disk, as the configuration names it, or its name such as sda
        device: String,
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        control: PilotControl,
    },
    /// Resume work on a disk that the pilot left alone because someone else changed its settings
    Resume {
        /// The disk
        device: String,
        #[command(flatten)]
        control: PilotControl,
    },
    /// Replay a trace, and print what the pilot would have advised
    Replay {
        /// The trace, in any format that `dumbwaiter trace` reads
        trace: PathBuf,
        /// Limits from this configuration (its first device)
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// The scheduler that was set
        #[arg(long, value_name = "NAME", default_value = "none")]
        scheduler: String,
        /// The trace comes from a rotational disk
        #[arg(long)]
        rotating: bool,
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        reading: Reading,
    },
}

/// Where a running pilot listens.
#[derive(clap::Args)]
pub(crate) struct PilotControl {
    /// Its socket [default: /run/dumbwaiter/pilot.sock]
    #[arg(long, value_name = "SOCKET", env = "DUMBWAITER_PILOT_CONTROL")]
    control: Option<PathBuf>,
}

impl PilotControl {
    /// The socket.
    pub(crate) fn path(&self) -> PathBuf {
        self.control.clone().unwrap_or_else(|| dumbwaiter_pilot::DEFAULT_CONTROL.into())
    }
}
