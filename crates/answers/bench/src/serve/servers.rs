//! The servers that are compared, as processes.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dumbwaiter_experiment::Failure;
use dumbwaiter_serve::bench::Address;

use super::plan::Plan;

type Result<T> = std::result::Result<T, Failure>;

/// A server that does not listen by then has failed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Ticks per second of `/proc/PID/stat`.
const TICK_US: f64 = 10_000.0;

/// A disk server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Ours,
    Nbdkit,
    QemuNbd,
    QemuStorageDaemon,
}

impl Program {
    pub(super) const PEERS: [Program; 3] = [Program::Nbdkit, Program::QemuNbd, Program::QemuStorageDaemon];

    pub(super) fn name(self) -> &'static str {
        match self {
            Program::Ours => "dumbwaiter",
            Program::Nbdkit => "nbdkit",
            Program::QemuNbd => "qemu-nbd",
            Program::QemuStorageDaemon => "qemu-storage-daemon",
        }
    }

    /// Does it serve this protocol?
    pub(super) fn speaks(self, protocol: &str) -> bool {
        protocol != "vhost-user-blk" || matches!(self, Program::Ours | Program::QemuStorageDaemon)
    }

    pub(super) fn is_installed(self) -> bool {
        let version = Command::new(self.name()).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    }

    /// Its command line for serving a file through the page cache, or `null`.
    fn command(self, plan: &Plan, folder: &Path, file: &Path, transport: Transport) -> Command {
        let (socket, file) = (folder.join("nbd.sock").display().to_string(), file.display().to_string());
        let port = if let Transport::Tcp(tcp) = transport { Some(tcp.port().to_string()) } else { None };
        let machine = transport == Transport::VhostUser;
        let mut command =
            Command::new(if self == Program::Ours { plan.program.as_os_str() } else { self.name().as_ref() });
        match (self, port) {
            (Program::Ours, port) => {
                command.args(["serve", "--target", &file, "--export", "x", "--cache", "writeback"]);
                command.args(["--scheduler", &plan.scheduler]);
                match port {
                    _ if machine => command.arg("--vhost-user").arg(folder),
                    Some(port) => command.args(["--tcp", &format!("127.0.0.1:{port}")]),
                    None => command.arg("--unix").arg(folder),
                }
            }
            (Program::Nbdkit, Some(port)) => command.args(["-f", "-i", "127.0.0.1", "-p", &port, "file", &file]),
            (Program::Nbdkit, None) => command.args(["-f", "-U", &socket, "file", &file]),
            (Program::QemuNbd, port) => {
                command.args(["-t", "-f", "raw", "-e", "16", "-x", "x", "--cache=writeback"]);
                match port {
                    Some(port) => command.args(["-b", "127.0.0.1", "-p", &port, &file]),
                    None => command.args(["-k", &socket, &file]),
                }
            }
            (Program::QemuStorageDaemon, _) if machine => {
                // Its better way: the kernel's ring, and a thread of its own.
                command.args(["--object", "iothread,id=t"]);
                let blockdev = match file.as_str() {
                    "null" => format!("driver=null-co,node-name=f,size={},read-zeroes=on", 1u64 << 40),
                    file => format!("driver=file,node-name=f,filename={file},aio=io_uring"),
                };
                command.args(["--blockdev", &blockdev]);
                let socket = vhost_socket(folder).display().to_string();
                let export = "type=vhost-user-blk,id=e,node-name=f,writable=on,iothread=t";
                command.args(["--export", &format!("{export},addr.type=unix,addr.path={socket}")])
            }
            (Program::QemuStorageDaemon, port) => {
                let address = match port {
                    Some(port) => format!("addr.type=inet,addr.host=127.0.0.1,addr.port={port}"),
                    None => format!("addr.type=unix,addr.path={socket}"),
                };
                command.args(["--blockdev", &format!("driver=file,node-name=f,filename={file}")]);
                command.args(["--nbd-server", &format!("{address},max-connections=16")]);
                command.args(["--export", "type=nbd,id=e,node-name=f,name=x,writable=on"])
            }
        };
        command
    }
}

/// How clients reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Unix,
    Tcp(SocketAddr),
    VhostUser,
}

/// Where a virtual machine finds its disk.
fn vhost_socket(folder: &Path) -> PathBuf {
    folder.join("x.vhost")
}

/// A server that runs; it is ended when dropped.
pub(super) struct RunningServer {
    program: Program,
    child: Child,
    address: Address,
    socket: PathBuf,
}

impl RunningServer {
    pub(super) fn start(
        program: Program,
        plan: &Plan,
        folder: &Path,
        file: &Path,
        protocol: &str,
    ) -> Result<RunningServer> {
        let transport = match protocol {
            "nbd+tcp" => Transport::Tcp(free_port().map_err(|e| Failure::device(format!("no TCP port: {e}")))?),
            "vhost-user-blk" => Transport::VhostUser,
            _ => Transport::Unix,
        };
        let socket = if transport == Transport::VhostUser { vhost_socket(folder) } else { folder.join("nbd.sock") };
        let mut command = program.command(plan, folder, file, transport);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command.stdout(if program == Program::Ours { Stdio::piped() } else { Stdio::null() });
        let failed = |e: std::io::Error| Failure::device(format!("{}: {e}", program.name()));
        let child = command.spawn().map_err(failed)?;
        let address =
            if let Transport::Tcp(tcp) = transport { Address::Tcp(tcp) } else { Address::Unix(socket.clone()) };
        let mut server = RunningServer { program, child, address, socket };
        server.await_ready()?;
        Ok(server)
    }

    fn await_ready(&mut self) -> Result<()> {
        if let Some(out) = self.child.stdout.take() {
            let mut line = String::new();
            // An end without a line is seen below.
            let _ = BufReader::new(out).read_line(&mut line);
        }
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let listens = match &self.address {
                // A server of one machine must not see two.
                Address::Unix(path) if path.extension().is_some_and(|end| end == "vhost") => path.exists(),
                Address::Unix(path) => UnixStream::connect(path).is_ok(),
                Address::Tcp(address) => TcpStream::connect(address).is_ok(),
            };
            if listens {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(Failure::device(format!("{} does not listen", self.program.name())))
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) fn export(&self) -> &'static str {
        if self.program == Program::Nbdkit { "" } else { "x" }
    }

    /// CPU time of the server with its kernel workers so far, µs.
    pub(super) fn cpu_us(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks = |place: usize| behind_name.split_whitespace().nth(place).and_then(|text| text.parse::<f64>().ok());
        (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) * TICK_US
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn free_port() -> std::io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}
