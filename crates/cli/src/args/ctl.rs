//! Arguments of `ctl`. The orders are the server's own.

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
    pub(crate) what: CtlCommand,
}

/// An order, or a view.
#[derive(clap::Subcommand)]
pub(crate) enum CtlCommand {
    #[command(flatten)]
    Order(Order),
    /// Watch the share, rates and latencies of each export
    Top(TopView),
}

/// How the server is watched.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter ctl --control /run/disks/control top
  dumbwaiter ctl --control /run/disks/control top --once --json

A bar is a tenant's share of the bytes of the last 10 s, its mark the share that its weight promises.
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
