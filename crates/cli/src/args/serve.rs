//! Arguments of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use dumbwaiter_serve::DeviceDepth;

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
  dumbwaiter serve --target disk.img --export vm1 --tcp 0.0.0.0:10809 --tls require --tls-certificates pki --tls-verify-peer
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
    /// An export: NAME[:weight=N,offset=SIZE,size=SIZE,block_size=SIZE,readonly,limit_iops=N,limit_bytes=SIZE,reservation=N,users=N+N,hidden,ublk=N,shared]
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
    /// On exit, keep block devices (ublk=N) for the next server; their requests wait for it
    #[arg(long)]
    pub(crate) keep_devices: bool,
    /// Encrypt NBD: clients may (on) or must (require) use TLS [default: off]
    #[arg(long, value_name = "off|on|require")]
    pub(crate) tls: Option<String>,
    /// Folder of server-cert.pem, server-key.pem and, to check clients, ca-cert.pem
    #[arg(long, value_name = "DIR")]
    pub(crate) tls_certificates: Option<PathBuf>,
    /// Accept only clients with a certificate signed by ca-cert.pem
    #[arg(long)]
    pub(crate) tls_verify_peer: bool,
    /// Allow --tcp without client authentication on an address that other machines can reach
    #[arg(long)]
    pub(crate) insecure: bool,
    /// The scheduler, with settings: headway, bfq, mq-deadline:fifo_batch=1 … [default: headway]
    #[arg(long, value_name = "NAME[:KEY=VALUE,…]", conflicts_with = "config")]
    pub(crate) scheduler: Option<String>,
    /// Requests that the device may hold; auto finds the fewest that reach 95 % of its throughput [default: 32]
    #[arg(long, value_name = "N|auto", conflicts_with = "config")]
    pub(crate) device_depth: Option<DeviceDepth>,
    /// none: bypass the page cache if the target allows it; writeback: use the page cache
    #[arg(long, value_name = "none|writeback", default_value = "none", conflicts_with = "config")]
    pub(crate) cache: String,
    /// Refuse writes on all exports
    #[arg(long, short)]
    pub(crate) read_only: bool,
    /// Read targets and exports from a TOML file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Accept control commands on this Unix socket; see `dumbwaiter ctl`
    #[arg(long, value_name = "SOCKET")]
    pub(crate) control: Option<PathBuf>,
    /// Keep what commands change in this file for the next start; none: do not [default: FILE.state beside --config FILE]
    #[arg(long, value_name = "FILE|none")]
    pub(crate) state: Option<PathBuf>,
    /// Keep monthly accounts in this folder, as YYYY-MM.csv: what each export received, and what it was promised
    #[arg(long, value_name = "DIR")]
    pub(crate) accounts: Option<PathBuf>,
    /// Serve metrics and the live page
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) http: Option<SocketAddr>,
    /// A name by which browsers and scrapers call that address, beside `localhost` and addresses; may be repeated
    #[arg(long = "http-host", value_name = "NAME")]
    pub(crate) http_hosts: Vec<String>,
    /// Serve an emulated SSD to four tenants with load, and show their shares
    #[arg(long, conflicts_with_all = ["target", "emulate", "exports", "config", "unix", "tcp", "vhost_user"])]
    pub(crate) demo: bool,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<u64>,
    /// Maximum number of connections
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections: Option<u32>,
    /// Memory for requests under way, by target [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Seconds that clients have to receive their replies at shutdown [default: 10]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) grace: Option<u64>,
    /// Switch to this user, without any rights of root, once all files and sockets are open
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
}
