//! A running server: its threads, from the outside.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dumbwaiter_block::Nanos;
use dumbwaiter_linux::service::{HttpServer, ServiceUser};

use crate::Error;
use crate::accounts::Bookkeeper;
use crate::control::ControlSocket;
use crate::inspector::{Inspector, ShardHandle};
use crate::kept_socket::{Address, KeptSocket};
use crate::log::Log;
use crate::memory_store::MemoryStore;
use crate::message::{Common, Message};
use crate::nbd::directory::Directory;
use crate::nbd::listener::{Front, Listener};
use crate::question::{Answer, Question};
use crate::settings::ServeSettings;
use crate::shard::Shard;
use crate::tls::Tls;
use crate::unix_socket::bind_unix;
use crate::{http, open_target, state, systemd, ublk, vhost_user};

/// A disk's thread works in short bursts and should begin them at once.
const SLICE: Nanos = Nanos::from_us(100);

struct ShardThread {
    handle: ShardHandle,
    thread: JoinHandle<Result<bool, Error>>,
}

/// A server that runs. Dropping it without [`Server::shut_down`] ends it without waiting for clients.
pub struct Server {
    shards: Vec<ShardThread>,
    front: Option<JoinHandle<Result<Vec<Listener>, Error>>>,
    stop: OwnedFd,
    stopping: Arc<AtomicBool>,
    common: Arc<Common>,
    control: Option<ControlSocket>,
    http: Option<HttpServer>,
    bookkeeper: Option<Bookkeeper>,
    /// Socket files to be removed.
    sockets: Vec<PathBuf>,
    /// Of the listeners, in their order.
    addresses: Vec<Address>,
    devices: Vec<ublk::Device>,
}

impl Server {
    /// Opens all targets, listens, and serves. `log` gets notes for people, from any thread.
    pub fn start(settings: ServeSettings, log: impl Fn(&str) + Send + Sync + 'static) -> Result<Server, Error> {
        Server::start_with(settings, Vec::new(), log)
    }

    /// [`Server::start`], going on with sockets that a server before this one has left.
    pub fn start_with(
        settings: ServeSettings,
        mut kept: Vec<KeptSocket>,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Server, Error> {
        settings.check()?;
        let restored = state::restore(&settings)?;
        let configured = Mutex::new(settings.targets);
        let settings = ServeSettings { targets: restored.targets, ..settings };
        let mut sockets = Vec::new();
        let listeners = listen(&settings, &mut sockets, &mut kept)?;
        let (addresses, listeners) = listeners.into_iter().unzip();
        let tls = settings.tls.as_ref().map(Tls::load).transpose()?;
        let common = Arc::new(Common {
            directory: Directory::watched(kept)?,
            connections: AtomicU32::new(0),
            tls,
            failed_negotiations: AtomicU64::new(0),
            configured,
            shown_iops: restored.shown_iops,
            settings,
            log: Log::new(log),
        });
        for line in restored.notes {
            common.log.say(&line);
        }
        let (stop, stop_reader) = stop_signal()?;
        let mut server = Server {
            shards: Vec::new(),
            front: None,
            stop,
            stopping: Arc::new(AtomicBool::new(false)),
            common,
            control: None,
            http: None,
            bookkeeper: None,
            sockets,
            addresses,
            devices: Vec::new(),
        };
        for number in 0..server.common.settings.targets.len() {
            let shard = server.start_shard(number)?;
            server.shards.push(shard);
            server.start_devices(number)?;
        }
        server.common.directory.forget_kept();
        let front = Front {
            listeners,
            shards: server.shards.iter().map(|shard| shard.handle.clone()).collect(),
            common: server.common.clone(),
            stop: stop_reader,
            stopping: server.stopping.clone(),
        };
        let thread = std::thread::Builder::new().name("nbd-listener".into()).spawn(move || front.run());
        server.front = Some(thread.map_err(Error::io("cannot start a thread"))?);
        let inspector = server.inspector();
        if let Some(path) = &server.common.settings.control {
            server.control = Some(ControlSocket::start(path, inspector.clone())?);
        }
        if let Some(folder) = &server.common.settings.accounts {
            server.bookkeeper = Some(Bookkeeper::start(folder, inspector.clone())?);
        }
        if let Some(address) = server.common.settings.http {
            server.http = Some(http::start(address, &server.common.settings.http_hosts, inspector)?);
        }
        if let Some(name) = &server.common.settings.user {
            server.go_on_as(name)?;
        }
        Ok(server)
    }

    /// Gives the sockets to a user and serves as that user from now on: all that needs more rights is open.
    fn go_on_as(&self, name: &str) -> Result<(), Error> {
        let failed = |source| Error::Io { what: format!("user `{name}`"), source };
        let user = ServiceUser::find(name).map_err(failed)?;
        user.check().map_err(failed)?;
        let settings = &self.common.settings;
        let exports = settings.targets.iter().flat_map(|target| &target.exports);
        let machines = settings
            .vhost_user
            .iter()
            .flat_map(|folder| exports.clone().map(move |export| vhost_user::socket_path(folder, &export.name)));
        let own = self.common.directory.sockets();
        let own = own.iter().map(|socket| socket.path.clone());
        for path in self.sockets.iter().cloned().chain(settings.control.clone()).chain(machines).chain(own) {
            user.own(&path).map_err(Error::io(path.display().to_string()))?;
        }
        user.assume().map_err(failed)
    }

    fn start_shard(&self, number: usize) -> Result<ShardThread, Error> {
        let settings = self.common.settings.targets[number].clone();
        let writable = settings.exports.iter().any(|export| !export.readonly);
        let store = match self.common.settings.forget_writes {
            true => MemoryStore::forgetful(),
            false => MemoryStore::new(self.common.settings.emulated_memory),
        };
        let open = open_target::open(&settings, writable, store)?;
        for note in open.target.notes() {
            self.common.log.say(&format!("{}: {note}", settings.target));
        }
        let (messages, received) = channel();
        let (ready, started) = channel();
        let common = self.common.clone();
        let work = move || {
            dumbwaiter_path::exact_timers(true);
            dumbwaiter_path::short_slices(SLICE);
            match Shard::open(number, settings, open, received, common) {
                Ok((mut shard, waker)) => {
                    // The starter waits for it.
                    let _ = ready.send(Ok(waker));
                    let ended = shard.run();
                    if let Err(error) = &ended {
                        let target = &shard.target_settings.target;
                        shard.common.log.say(&format!("{target}: stopped serving this target: {error}"));
                    }
                    ended
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                    Ok(true)
                }
            }
        };
        let thread = std::thread::Builder::new().name(format!("disk-{number}")).spawn(work);
        let thread = thread.map_err(Error::io("cannot start a thread"))?;
        let waker = started.recv().map_err(|_| Error::Gone)??;
        Ok(ShardThread { handle: ShardHandle { messages, waker }, thread })
    }

    /// Makes the block devices of a target's exports.
    fn start_devices(&mut self, number: usize) -> Result<(), Error> {
        let target = &self.common.settings.targets[number];
        if target.exports.iter().all(|export| export.ublk.is_none()) {
            return Ok(());
        }
        let shard = self.shards[number].handle.clone();
        let Answer::Devices(described) = shard.ask(Question::Devices)? else { return Err(Error::Gone) };
        for description in described {
            let device = ublk::Device::start(description, shard.clone(), self.common.clone())?;
            self.devices.push(device);
        }
        Ok(())
    }

    /// Ends the block devices while their disks can still answer, or leaves them for the next server.
    fn end_devices(&mut self) {
        for device in self.devices.drain(..) {
            device.end(self.common.settings.keep_devices);
        }
    }

    /// Where clients find the exports, one URI for each export and address.
    pub fn uris(&self) -> Vec<String> {
        let settings = &self.common.settings;
        let scheme = if settings.tls.as_ref().is_some_and(|tls| tls.required) { "nbds" } else { "nbd" };
        let exports = || settings.targets.iter().flat_map(|target| &target.exports);
        let shared = exports().filter(|export| export.access.socket.is_none());
        let names: Vec<String> = shared.map(|export| percent_encode(&export.name)).collect();
        let at_unix = |name: &str, path: &Path| format!("{scheme}+unix:///{name}?socket={}", path.display());
        let mut uris = Vec::new();
        if let Some(folder) = &settings.unix {
            uris.extend(names.iter().map(|name| at_unix(name, &folder.join(UNIX_SOCKET))));
        }
        let own = exports().filter_map(|export| Some((percent_encode(&export.name), export.access.socket.as_ref()?)));
        uris.extend(own.map(|(name, path)| at_unix(&name, path)));
        uris.extend(exports().filter_map(|export| export.ublk).map(ublk::device_path));
        if let Some(folder) = &settings.vhost_user {
            uris.extend(exports().map(|export| vhost_user::socket_path(folder, &export.name).display().to_string()));
        }
        let tcp = settings.tcp.and_then(|wanted| {
            self.addresses.iter().find_map(|at| match at {
                Address::Tcp(at) if is_served_at(*at, wanted) => Some(*at),
                _ => None,
            })
        });
        if let Some(address) = tcp {
            uris.extend(names.iter().map(|name| format!("{scheme}://{address}/{name}")));
        }
        uris
    }

    /// Where metrics and the live page are.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpServer::address)
    }

    /// To ask and change it from any thread.
    pub fn inspector(&self) -> Inspector {
        Inspector {
            shards: self.shards.iter().map(|shard| shard.handle.clone()).collect(),
            common: self.common.clone(),
        }
    }

    /// Has a disk's thread ended, as after a failure?
    pub fn has_failed(&self) -> bool {
        self.shards.iter().any(|shard| shard.thread.is_finished())
    }

    /// Takes no more clients, finishes what is under way, lets clients take their replies for the time of grace of the settings, makes
    /// everything permanent. `true` if all that was acknowledged is safe. `hurry` is asked meanwhile whether to skip the grace.
    pub fn shut_down(mut self, hurry: impl Fn() -> bool) -> Result<bool, Error> {
        self.control = None;
        self.stop_front()?;
        self.end(hurry)
    }

    /// [`Server::shut_down`], with its answer, and the sockets left for [`Server::start_with`]: who connects meanwhile waits for that server.
    pub fn hand_over(mut self, hurry: impl Fn() -> bool) -> Result<(bool, Vec<KeptSocket>), Error> {
        self.control = None;
        let sockets = self.leave_sockets()?;
        self.sockets.clear();
        self.end(hurry).map(|safe| (safe, sockets))
    }

    fn end(mut self, hurry: impl Fn() -> bool) -> Result<bool, Error> {
        self.end_devices();
        self.bookkeeper = None;
        let grace = Duration::from_secs(self.common.settings.grace_s);
        for shard in &self.shards {
            // One that has ended by itself needs no order.
            let _ = shard.handle.send(Message::ShutDown { grace });
        }
        let mut hurried = false;
        while self.shards.iter().any(|shard| !shard.thread.is_finished()) {
            if !hurried && hurry() {
                hurried = true;
                self.abandon();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut safe = true;
        for shard in self.shards.drain(..) {
            safe &= shard.thread.join().map_err(|_| Error::Gone)??;
        }
        self.await_tls(hurried);
        self.common.log.end();
        Ok(safe)
    }

    /// Lets the threads of TLS pass the last replies on, which they do not do for longer than a client may take for them.
    fn await_tls(&self, hurried: bool) {
        let Some(tls) = self.common.tls.as_ref().filter(|_| !hurried) else { return };
        let by = Instant::now() + Duration::from_secs(self.common.settings.grace_s);
        while tls.connections() > 0 && Instant::now() < by {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn abandon(&self) {
        for shard in &self.shards {
            let _ = shard.handle.send(Message::Abandon);
        }
    }

    fn stop_front(&mut self) -> Result<(), Error> {
        for socket in self.common.directory.take_sockets() {
            socket.remove();
        }
        for path in self.sockets.drain(..) {
            // It may have been removed.
            let _ = dumbwaiter_text::remove(&path);
        }
        self.leave_sockets().map(drop)
    }

    /// Accepts no more clients; answers with the sockets, which go on listening.
    fn leave_sockets(&mut self) -> Result<Vec<KeptSocket>, Error> {
        self.stopping.store(true, Ordering::Release);
        let _ = rustix::io::write(self.stop.as_fd(), &[1]);
        let own = self.common.directory.take_sockets();
        let listeners = match self.front.take() {
            Some(front) => front.join().map_err(|_| Error::Gone)??,
            None => Vec::new(),
        };
        let kept = |(listener, address): (Listener, Address)| {
            listener.into_socket().map(|socket| KeptSocket { address, socket })
        };
        let common = listeners.into_iter().zip(self.addresses.drain(..));
        let own = own.into_iter().map(|socket| {
            let address = Address::Unix(socket.path.clone());
            (Listener::Export(socket), address)
        });
        Ok(common.chain(own).filter_map(kept).collect())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // There is no caller to report an error to.
        let _ = self.stop_front();
        self.end_devices();
        self.abandon();
        for shard in self.shards.drain(..) {
            let _ = shard.thread.join();
        }
    }
}

/// A pipe: a byte written to one end wakes the poll of the other.
fn stop_signal() -> Result<(OwnedFd, OwnedFd), Error> {
    let (reader, writer) = std::io::pipe().map_err(Error::io("cannot create a pipe"))?;
    Ok((writer.into(), reader.into()))
}

/// The name of the socket in the folder of `unix`.
const UNIX_SOCKET: &str = "nbd.sock";

/// Opens all addresses, or goes on with kept sockets that have them.
fn listen(
    settings: &ServeSettings,
    sockets: &mut Vec<PathBuf>,
    kept: &mut Vec<KeptSocket>,
) -> Result<Vec<(Address, Listener)>, Error> {
    let mut listeners = Vec::new();
    if settings.activated {
        listeners = activated(kept)?;
    }
    if let Some(folder) = &settings.unix {
        create_folder(folder)?;
        let path = folder.join(UNIX_SOCKET);
        let there = KeptSocket::take(kept, |at| matches!(at, Address::Unix(at) if *at == path));
        let listener = there.map_or_else(|| bind_unix(&path), |socket| Ok(socket.into()))?;
        listeners.push((Address::Unix(path.clone()), Listener::Unix(listener)));
        sockets.push(path);
    }
    if let Some(address) = settings.tcp {
        let there = KeptSocket::take(kept, |at| matches!(at, Address::Tcp(at) if is_served_at(*at, address)));
        let bind = || std::net::TcpListener::bind(address).map_err(Error::io(format!("--tcp {address}")));
        let listener = there.map_or_else(bind, |socket| Ok(socket.into()))?;
        let address = listener.local_addr().map_err(Error::io("cannot read the address of the TCP socket"))?;
        listeners.push((Address::Tcp(address), Listener::Tcp(listener)));
    }
    for (_, listener) in &listeners {
        listener.set_nonblocking().map_err(Error::io("cannot make a socket non-blocking"))?;
    }
    Ok(listeners)
}

/// Is what listens at one address what a server for the other would have opened? Port 0 is any.
fn is_served_at(at: SocketAddr, wanted: SocketAddr) -> bool {
    at.ip() == wanted.ip() && (wanted.port() == 0 || at.port() == wanted.port())
}

/// The sockets that systemd passed, to this server or to the one before it in this process.
fn activated(kept: &mut Vec<KeptSocket>) -> Result<Vec<(Address, Listener)>, Error> {
    if !kept.iter().any(|kept| matches!(kept.address, Address::Passed(_))) {
        return Ok(systemd::take_sockets()?.into_iter().map(|(n, listener)| (Address::Passed(n), listener)).collect());
    }
    let passed = kept.extract_if(.., |kept| matches!(kept.address, Address::Passed(_)));
    let listener = |kept: KeptSocket| systemd::listener(kept.socket).map(|listener| (kept.address, listener));
    let failed = |e: rustix::io::Errno| Error::Io { what: "a socket of systemd".into(), source: e.into() };
    passed.map(|kept| listener(kept).map_err(failed)).collect()
}

/// Makes the folder of the sockets, as services find theirs under /run; the folders above it must be there.
fn create_folder(folder: &Path) -> Result<(), Error> {
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = match above.metadata() {
        Ok(_) => dumbwaiter_text::create_folder(folder),
        Err(e) => Err(e),
    };
    made.map_err(Error::io(format!("cannot create the folder {}", folder.display())))
}

/// A name as a part of a URI.
fn percent_encode(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}
