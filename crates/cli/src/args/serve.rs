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
  dumbwaiter serve --target disk.img --export vm1 --vhost-user /run/disks
  dumbwaiter serve --target emulate:hdd:st1000dm003 --export slow:ublk=0
  dumbwaiter serve --demo

Clients find an export at nbd+unix:///NAME?socket=DIR/nbd.sock, virtual machines at DIR/NAME.vhost,
programs of this machine at /dev/ublkbN")]
pub(crate) struct Serve {
    /// What to serve: a file, a block device, null[:SIZE], or emulate:MODEL
    #[arg(long, value_name = "TARGET", conflicts_with = "config")]
    pub(crate) target: Option<String>,
    /// Serve a device model in real time; the same as --target emulate:MODEL
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["target", "config"])]
    pub(crate) emulate: Option<String>,
    /// An export: NAME[:weight=N,offset=SIZE,size=SIZE,readonly,limit_iops=N,limit_bytes=SIZE,reservation=N,ublk=N,shared]
    #[arg(long = "export", value_name = "NAME[:KEY=VALUE,…]", conflicts_with = "config")]
    pub(crate) exports: Vec<String>,
    /// Serve NBD at DIR/nbd.sock
    #[arg(long, value_name = "DIR")]
    pub(crate) unix: Option<PathBuf>,
    /// Serve NBD over TCP
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) tcp: Option<SocketAddr>,
    /// Serve virtual machines over vhost-user-blk, at DIR/NAME.vhost
    #[arg(long, value_name = "DIR")]
    pub(crate) vhost_user: Option<PathBuf>,
    /// Leave block devices (ublk=N) to the next server when this one ends: their requests wait for it
    #[arg(long)]
    pub(crate) keep_devices: bool,
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
    /// Serve an emulated SSD to four tenants with load, and show their shares
    #[arg(long, conflicts_with_all = ["target", "emulate", "exports", "config", "unix", "tcp", "vhost_user"])]
    pub(crate) demo: bool,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<u64>,
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

/// Options of `ctl`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  dumbwaiter ctl --control /run/disks/control stats
  dumbwaiter ctl --control /run/disks/control set-weight db 800
  dumbwaiter ctl --control /run/disks/control set-limit batch --iops 500
  dumbwaiter ctl --control /run/disks/control set-scheduler bfq
  dumbwaiter ctl --control /run/disks/control add logs:weight=50,offset=200GiB,size=10GiB
  dumbwaiter ctl --control /run/disks/control drain vm1 --timeout 60")]
pub(crate) struct Ctl {
    /// The server's control socket
    #[arg(long, value_name = "SOCKET", env = "DUMBWAITER_CONTROL", global = true)]
    pub(crate) control: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) order: CtlOrder,
}

#[derive(clap::Subcommand)]
pub(crate) enum CtlOrder {
    /// The exports, with sizes and weights
    List,
    /// Counts, shares and latencies of all exports
    Stats,
    /// Change the weight of an export
    SetWeight { export: String, weight: u32 },
    /// Change the limits of an export; what is left out is unlimited
    SetLimit {
        export: String,
        /// I/Os per second
        #[arg(long)]
        iops: Option<u64>,
        /// Bytes per second
        #[arg(long, value_name = "SIZE")]
        bytes: Option<String>,
    },
    /// Change the reservation of an export; without --iops it has none
    SetReservation {
        export: String,
        /// I/Os per second
        #[arg(long)]
        iops: Option<u64>,
    },
    /// Exchange the scheduler of a disk, while it serves
    SetScheduler {
        scheduler: String,
        /// Number of the disk
        #[arg(long, default_value_t = 0)]
        disk: usize,
    },
    /// Change a setting of a disk's scheduler
    SetSetting {
        name: String,
        value: i64,
        /// Number of the disk
        #[arg(long, default_value_t = 0)]
        disk: usize,
    },
    /// Change how many requests a device may hold
    SetDepth {
        depth: u32,
        /// Number of the disk
        #[arg(long, default_value_t = 0)]
        disk: usize,
    },
    /// Add an export
    Add {
        /// As --export of `serve`
        export: String,
        /// Number of the disk
        #[arg(long, default_value_t = 0)]
        disk: usize,
    },
    /// Withdraw an export; it goes with its last client
    Remove {
        export: String,
        /// Disconnect its clients
        #[arg(long)]
        hard: bool,
    },
    /// Change the size of an export
    Resize { export: String, size: String },
    /// Withdraw an export and wait until its last client is gone
    Drain {
        export: String,
        /// Seconds to wait
        #[arg(long, default_value_t = 10)]
        timeout: u64,
    },
    /// The latencies of an export since the start
    Histogram { export: String },
    /// Why a disk has its scheduler
    Explain {
        /// Number of the disk
        #[arg(long, default_value_t = 0)]
        disk: usize,
    },
}
