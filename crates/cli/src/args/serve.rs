//! What `serve` takes.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Options of `serve`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter serve --target disk.img --export vm1 --unix /run/disks
  dumbwaiter serve --target /dev/nvme0n1 --export db:weight=400,size=100G --export batch:offset=100G --unix /run/disks
  dumbwaiter serve --target emulate:hdd:st1000dm003 --export slow --tcp 127.0.0.1:10809
  dumbwaiter serve --config disks.toml --control /run/disks/control --http 127.0.0.1:9100
  dumbwaiter serve --demo

Clients find an export at nbd+unix:///NAME?socket=DIR/nbd.sock")]
pub(crate) struct Serve {
    /// What to serve: a file, a block device, null[:SIZE], or emulate:MODEL
    #[arg(long, value_name = "TARGET", conflicts_with = "config")]
    pub(crate) target: Option<String>,
    /// Serve a device model in real time; the same as --target emulate:MODEL
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["target", "config"])]
    pub(crate) emulate: Option<String>,
    /// An export: NAME[:weight=N,offset=SIZE,size=SIZE,readonly,limit_iops=N,limit_bytes=SIZE,reservation=N,shared]
    #[arg(long = "export", value_name = "NAME[:KEY=VALUE,…]", conflicts_with = "config")]
    pub(crate) exports: Vec<String>,
    /// Serve NBD at DIR/nbd.sock
    #[arg(long, value_name = "DIR")]
    pub(crate) unix: Option<PathBuf>,
    /// Serve NBD over TCP
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) tcp: Option<SocketAddr>,
    /// Allow --tcp on an address that other machines reach: NBD has no authentication
    #[arg(long)]
    pub(crate) insecure: bool,
    /// The scheduler, with settings: headway, bfq, mq-deadline:fifo_batch=1 … [default: headway]
    #[arg(long, value_name = "NAME[:KEY=VALUE,…]", conflicts_with = "config")]
    pub(crate) scheduler: Option<String>,
    /// Requests that the device may hold [default: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), conflicts_with = "config")]
    pub(crate) device_depth: Option<u32>,
    /// none: past the page cache where the target allows it; writeback: through it
    #[arg(long, value_name = "none|writeback", default_value = "none", conflicts_with = "config")]
    pub(crate) cache: String,
    /// Refuse writes on all exports
    #[arg(long, short)]
    pub(crate) read_only: bool,
    /// Read targets and exports from a TOML file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Take orders on this Unix socket; see `dumbwaiter ctl`
    #[arg(long, value_name = "SOCKET")]
    pub(crate) control: Option<PathBuf>,
    /// Serve metrics and the live page
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) http: Option<SocketAddr>,
    /// Connections in all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections: Option<u32>,
    /// Memory for requests under way, by target [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// How long clients may take their replies at the end, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) grace: u64,
}
