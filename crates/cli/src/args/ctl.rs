//! What `ctl` takes.

use std::path::PathBuf;

use dumbwaiter_serve::DeviceDepth;

/// Options of `ctl`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter ctl --control /run/disks/control stats
  dumbwaiter ctl --control /run/disks/control set weight db 800
  dumbwaiter ctl --control /run/disks/control set limit batch --iops 500
  dumbwaiter ctl --control /run/disks/control set scheduler bfq
  dumbwaiter ctl --control /run/disks/control add logs:weight=50,offset=200GiB,size=10GiB
  dumbwaiter ctl --control /run/disks/control snapshot db
  dumbwaiter ctl --control /run/disks/control drain vm1 --timeout 60")]
pub(crate) struct Ctl {
    /// The server's control socket
    #[arg(long, value_name = "SOCKET", env = "DUMBWAITER_CONTROL", global = true)]
    pub(crate) control: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) what: CtlCommand,
}

/// An order, or a view.
#[derive(clap::Subcommand)]
pub(crate) enum CtlCommand {
    #[command(flatten)]
    Order(CtlOrder),
    /// Watch the share, rates and latencies of each export
    Top(TopView),
}

/// One disk of the server.
#[derive(clap::Args)]
pub(crate) struct OfDisk {
    /// Number of the disk, by the order of the configuration
    #[arg(long, default_value_t = 0)]
    pub(crate) disk: usize,
}

#[derive(clap::Subcommand)]
pub(crate) enum CtlOrder {
    /// The exports, with sizes and weights
    List,
    /// Counts, shares and latencies of all exports
    Stats,
    /// Change a weight, limit, reservation, scheduler, setting or depth
    #[command(subcommand)]
    Set(Set),
    /// Add an export
    Add {
        /// As --export of `serve`
        export: String,
        #[command(flatten)]
        of: OfDisk,
    },
    /// Withdraw an export; it is removed when its last client disconnects
    Remove {
        export: String,
        /// Disconnect its clients
        #[arg(long)]
        hard: bool,
    },
    /// Change the size of an export
    Resize { export: String, size: String },
    /// Withdraw an export and wait for its last client to disconnect
    Drain {
        export: String,
        /// Seconds to wait
        #[arg(long, default_value_t = 10)]
        timeout: u64,
    },
    /// The latencies of an export since the start, as a histogram
    #[command(alias = "histogram")]
    Snapshot { export: String },
    /// Explain the scheduler and the depth of a disk
    Explain {
        #[command(flatten)]
        of: OfDisk,
    },
    /// The names on the socket, for scripts that use them here
    #[command(flatten)]
    OnSocket(OnSocket),
}

/// What can be changed.
#[derive(clap::Subcommand)]
pub(crate) enum Set {
    /// Change the weight of an export
    Weight(Weight),
    /// Change the limits of an export; a limit that is not given is removed
    Limit(Limit),
    /// Change the reservation of an export; without --iops it is removed
    Reservation(Reservation),
    /// Exchange the scheduler of a disk, while it serves
    Scheduler(Scheduler),
    /// Change a setting of a disk's scheduler
    Setting(Setting),
    /// Change how many requests a device may hold
    Depth(Depth),
}

#[expect(clippy::enum_variant_names, reason = "spelled as on the socket")]
#[derive(clap::Subcommand)]
pub(crate) enum OnSocket {
    #[command(hide = true)]
    SetWeight(Weight),
    #[command(hide = true)]
    SetLimit(Limit),
    #[command(hide = true)]
    SetReservation(Reservation),
    #[command(hide = true)]
    SetScheduler(Scheduler),
    #[command(hide = true)]
    SetSetting(Setting),
    #[command(hide = true)]
    SetDepth(Depth),
}

#[derive(clap::Args)]
pub(crate) struct Weight {
    pub(crate) export: String,
    /// 1 to 10000
    pub(crate) weight: u32,
}

#[derive(clap::Args)]
pub(crate) struct Limit {
    pub(crate) export: String,
    /// I/Os per second
    #[arg(long)]
    pub(crate) iops: Option<u64>,
    /// Bytes per second
    #[arg(long, value_name = "SIZE")]
    pub(crate) bytes: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct Reservation {
    pub(crate) export: String,
    /// I/Os per second
    #[arg(long)]
    pub(crate) iops: Option<u64>,
}

#[derive(clap::Args)]
pub(crate) struct Scheduler {
    /// With settings, as `serve --scheduler` takes it
    pub(crate) scheduler: String,
    #[command(flatten)]
    pub(crate) of: OfDisk,
}

#[derive(clap::Args)]
pub(crate) struct Setting {
    pub(crate) name: String,
    #[arg(allow_negative_numbers = true)]
    pub(crate) value: i64,
    #[command(flatten)]
    pub(crate) of: OfDisk,
}

#[derive(clap::Args)]
pub(crate) struct Depth {
    /// A number of requests, or auto
    pub(crate) depth: DeviceDepth,
    #[command(flatten)]
    pub(crate) of: OfDisk,
}

/// How the server is watched.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter ctl --control /run/disks/control top
  dumbwaiter ctl --control /run/disks/control top --once --json

A bar is a tenant's share of the bytes of the last 5 s, its mark the share that its weight asks for.
With --json, views are printed as one object a line. q or Ctrl-C ends the view.")]
pub(crate) struct TopView {
    /// Print one view and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Seconds between two views
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) interval: u64,
}

/// `top` before it was one of `ctl`.
#[derive(clap::Args)]
pub(crate) struct Top {
    #[arg(long, value_name = "SOCKET", env = "DUMBWAITER_CONTROL")]
    pub(crate) control: Option<PathBuf>,
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) view: TopView,
}
