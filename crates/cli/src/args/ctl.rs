//! Arguments of `ctl` and `top`. The orders of `ctl` are the server's own.

use std::path::PathBuf;

use dumbwaiter_serve::Order;

/// Options of `ctl`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter ctl --control /run/disks/control stats
  dumbwaiter ctl --control /run/disks/control set db weight=800
  dumbwaiter ctl --control /run/disks/control set batch limit_iops=500 limit_bytes=none
  dumbwaiter ctl --control /run/disks/control set scheduler=bfq
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
    pub(crate) order: Order,
}

/// Options of `top`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter top --control /run/disks/control
  dumbwaiter top --control /run/disks/control --once
  dumbwaiter top --control /run/disks/control --once --json

A bar is a tenant's share of the bytes of the last 5 s, its mark the share that its weight asks for.
q or Ctrl-C ends the view.")]
pub(crate) struct Top {
    /// The server's control socket
    #[arg(long, value_name = "SOCKET", env = "DUMBWAITER_CONTROL")]
    pub(crate) control: Option<PathBuf>,
    /// Print one view and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Print views as JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Seconds between two views
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) interval: u64,
}
