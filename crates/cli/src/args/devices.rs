//! Arguments of `devices`.

use std::path::PathBuf;

use clap::Subcommand;

use super::Destroy;

#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  dumbwaiter devices
  dumbwaiter devices show hdd:st1000dm003 > my-drive.toml
  dumbwaiter devices validate ssd:850pro-256
  sudo dumbwaiter devices fit /dev/nvme0n1 > my-drive.toml       a survey that only reads, up to 2 minutes
  dumbwaiter devices io-cost ssd:nvme-tlc --p99 2ms              io.cost.model, io.cost.qos, a hwdb entry
  sudo dumbwaiter devices io-cost --on /dev/nvme0n1              io.cost.model of this drive, as far as reads tell
  dumbwaiter devices fit --from cases.csv --figure 1 --like ssd:nvme-tlc > their-drive.toml
  dumbwaiter compare -d my-drive.toml"
)]
pub(crate) struct Devices {
    #[command(subcommand)]
    pub(crate) what: Option<DevicesCommand>,
    /// Write as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) older: OlderDevices,
}

#[derive(Subcommand)]
pub(crate) enum DevicesCommand {
    /// Print a model's parameter file, to copy and change
    Show {
        /// The model
        name: String,
    },
    /// Measure a model and check it against its targets
    Validate {
        /// The model; `all` for every model
        #[arg(value_name = "NAME|FILE|all")]
        name: String,
        /// Write as JSON; `-` is stdout
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Find what io.cost needs to know of a model or a device: io.cost.model, and a rate that protects a service
    IoCost(DevicesIoCost),
    /// Survey a block device or file, or take published results (--from), fit a model and print it as a parameter file
    Fit(Box<DevicesFit>),
}

#[derive(clap::Args)]
pub(crate) struct DevicesIoCost {
    /// The models; `flash` for every model of flash
    #[arg(required_unless_present = "on", value_name = "NAME|FILE|flash")]
    pub(crate) names: Vec<String>,
    /// Measure this device in place of a model, for 10 s: what reads say of the model; with --destroy all of it
    #[arg(long, value_name = "PATH", conflicts_with = "names")]
    pub(crate) on: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) destroy: Destroy,
    /// Longest p99 of a service that counts as protected; by default one and a half times of that at a fifth of the drive's rate
    #[arg(long, value_name = "TIME")]
    pub(crate) p99: Option<String>,
    /// Model name of the drive, as udev shows it in ID_MODEL, for the entry of the hardware database [default: that of --on]
    #[arg(long, value_name = "NAME")]
    pub(crate) model_name: Option<String>,
    /// Simulations at the same time; by default as many as there are CPUs
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Write as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct DevicesFit {
    /// The device or file; only reads unless --destroy is given. The name of a model surveys that model, in virtual time
    #[arg(value_name = "PATH|NAME", required_unless_present = "from")]
    pub(crate) subject: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) published: DevicesFitFrom,
    /// Time of the survey at most
    #[arg(long = "for", value_name = "TIME", default_value = "2m")]
    pub(crate) length: String,
    #[command(flatten)]
    pub(crate) destroy: Destroy,
    /// Write the fit as JSON; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// A fit to published results in place of a survey.
#[derive(Default, clap::Args)]
#[command(next_help_heading = "From published results")]
pub(crate) struct DevicesFitFrom {
    /// Fit to these: tables as `fidelity --measured` takes them, or results of fio (joined by commas where they ran together)
    #[arg(long, value_name = "CASES", num_args = 1.., conflicts_with_all = ["subject", "destroy"])]
    pub(crate) from: Vec<String>,
    /// The model of the drive's class, from which the fit starts and whose parameters stay where nothing determines them
    #[arg(long, value_name = "MODEL", requires = "from", default_value = "ssd:nvme-tlc")]
    pub(crate) like: String,
    /// The figures to use, separated by commas; `1` is also 1a and 1b
    #[arg(long, value_name = "NAMES", requires = "from", value_delimiter = ',')]
    pub(crate) figure: Vec<String>,
    /// The parameters to fit, separated by commas [default: those that matter]
    #[arg(long, value_name = "NAMES", requires = "from", value_delimiter = ',')]
    pub(crate) parameters: Vec<String>,
    /// The host of the measurement: the name of a profile, or a file with a `[host]` section
    #[arg(long, value_name = "PROFILE", requires = "from")]
    pub(crate) host: Option<String>,
    /// CPUs of that host [default: those of the file, else 10]
    #[arg(long, value_name = "N", requires = "from", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) cpus: Option<u16>,
    /// The scheduler under which results of fio were measured
    #[arg(long, value_name = "NAME", requires = "from", default_value = "none")]
    pub(crate) scheduler: String,
    /// Number of runs made in parallel
    #[arg(long, short, value_name = "N", requires = "from")]
    pub(crate) jobs: Option<usize>,
}

/// The spellings before there were subcommands.
#[derive(clap::Args)]
pub(crate) struct OlderDevices {
    #[arg(long, hide = true, value_name = "NAME")]
    show: Option<String>,
    #[arg(long, hide = true, value_name = "NAME|FILE")]
    validate: Option<String>,
    #[arg(long, hide = true, value_name = "PATH|NAME", conflicts_with_all = ["show", "validate"])]
    fit: Option<PathBuf>,
    #[arg(long = "for", hide = true, value_name = "TIME", default_value = "2m", requires = "fit")]
    length: String,
    #[command(flatten)]
    destroy: Destroy,
}

impl Devices {
    /// What to do; `None` to list the models.
    pub(crate) fn command(self) -> (Option<DevicesCommand>, Option<PathBuf>) {
        let OlderDevices { show, validate, fit, length, destroy } = self.older;
        let older = if let Some(name) = show {
            super::renamed("devices --show", "devices show");
            DevicesCommand::Show { name }
        } else if let Some(name) = validate {
            super::renamed("devices --validate", "devices validate");
            DevicesCommand::Validate { name, json: self.json }
        } else if let Some(subject) = fit {
            super::renamed("devices --fit", "devices fit");
            DevicesCommand::Fit(Box::new(DevicesFit {
                subject: Some(subject),
                published: DevicesFitFrom::default(),
                length,
                destroy,
                json: self.json,
            }))
        } else {
            return (self.what, self.json);
        };
        (Some(older), None)
    }
}
