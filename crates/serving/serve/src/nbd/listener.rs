//! The thread that accepts clients and negotiates with them. A slow or hostile client costs other clients nothing, and disks never
//! see it before it has agreed on an export.

use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dumbwaiter_protocols::nbd::negotiation::greeting;
use dumbwaiter_protocols::nbd::{Negotiation, Progress, TlsPolicy};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::export_socket::ExportSocket;
use crate::Error;
use crate::access::Peer;
use crate::inspector::ShardHandle;
use crate::message::{Common, Message};

/// A negotiation that takes longer is ended.
const PATIENCE: Duration = Duration::from_secs(10);
/// Clients that may negotiate at the same time.
const MAX_NEGOTIATING: usize = 256;
/// Room for replies in the kernel, where it allows that.
const SEND_BUFFER: usize = 1 << 20;
/// Clients that are accepted in one go: those that negotiate come in between.
const MAX_ACCEPTED: usize = 64;
/// Replies to a client that does not read them.
const MAX_UNREAD: usize = 4 << 20;

/// Where clients come from.
pub(crate) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
    /// A socket that some exports have for themselves.
    Export(Arc<ExportSocket>),
}

impl Listener {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Export(socket) => socket.listener.as_fd(),
        }
    }

    pub(crate) fn set_nonblocking(&self) -> std::io::Result<()> {
        match self {
            Listener::Unix(listener) => listener.set_nonblocking(true),
            Listener::Tcp(listener) => listener.set_nonblocking(true),
            Listener::Export(socket) => socket.listener.set_nonblocking(true),
        }
    }

    /// The socket, to go on with it elsewhere; `None` where others hold it too.
    pub(crate) fn into_socket(self) -> Option<OwnedFd> {
        match self {
            Listener::Unix(listener) => Some(listener.into()),
            Listener::Tcp(listener) => Some(listener.into()),
            Listener::Export(socket) => Arc::into_inner(socket).map(|socket| socket.listener.into()),
        }
    }

    /// The next client.
    fn accept(&self) -> std::io::Result<(OwnedFd, Origin)> {
        match self {
            Listener::Unix(listener) => accept_unix(listener),
            Listener::Export(own) => {
                let (socket, mut origin) = accept_unix(&own.listener)?;
                origin.peer.socket = Some(own.path.clone());
                Ok((socket, origin))
            }
            Listener::Tcp(listener) => {
                let (socket, address) = listener.accept()?;
                socket.set_nonblocking(true)?;
                socket.set_nodelay(true)?;
                let origin = address.ip().to_string();
                Ok((socket.into(), Origin { name: address.to_string(), origin, peer: Peer::default() }))
            }
        }
    }
}

fn accept_unix(listener: &UnixListener) -> std::io::Result<(OwnedFd, Origin)> {
    let (socket, _) = listener.accept()?;
    socket.set_nonblocking(true)?;
    let origin = match rustix::net::sockopt::socket_peercred(&socket) {
        Ok(peer) => {
            let user = format!("user {}", peer.uid.as_raw());
            let name = format!("process {} of {user}", peer.pid.as_raw_nonzero());
            let credentials = Some((peer.uid.as_raw(), peer.gid.as_raw()));
            Origin { name, origin: user, peer: Peer { credentials, ..Peer::default() } }
        }
        Err(_) => {
            Origin { name: "a local client".to_owned(), origin: "a local client".to_owned(), peer: Peer::default() }
        }
    };
    Ok((socket.into(), origin))
}

/// Who a client is.
#[derive(Clone)]
struct Origin {
    /// For people.
    name: String,
    /// Where it comes from, a user or an address: the next client from there has the same.
    origin: String,
    /// What access to exports is decided by.
    peer: Peer,
}

/// A client that has not agreed on an export yet.
struct Newcomer {
    socket: OwnedFd,
    peer: Origin,
    negotiation: Negotiation,
    /// Replies that are not sent.
    out: Vec<u8>,
    since: Instant,
    /// How it ended, once the replies are sent.
    ended: Option<Progress>,
    /// TLS begins once the replies are sent.
    starts_tls: bool,
}

/// The thread's state.
pub(crate) struct Front {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) shards: Vec<ShardHandle>,
    pub(crate) common: Arc<Common>,
    /// Becomes readable when the server ends.
    pub(crate) stop: OwnedFd,
    pub(crate) stopping: Arc<AtomicBool>,
}

impl Front {
    /// Accepts and negotiates until the server ends; answers with the listeners.
    pub(crate) fn run(self) -> Result<Vec<Listener>, Error> {
        let mut newcomers: Vec<Newcomer> = Vec::new();
        while !self.stopping.load(Ordering::Acquire) {
            let directory = &self.common.directory;
            directory.seen_changes();
            let own: Vec<Listener> = directory.sockets().into_iter().map(Listener::Export).collect();
            let listeners: Vec<&Listener> = self.listeners.iter().chain(&own).collect();
            let (listening, ready) = self.wait(&listeners, &newcomers)?;
            for at in (0..newcomers.len()).rev() {
                let timed_out = newcomers[at].since.elapsed() > PATIENCE;
                if timed_out || (ready[at] && self.serve(&mut newcomers[at])) {
                    let newcomer = newcomers.swap_remove(at);
                    self.end(newcomer, timed_out);
                }
            }
            for listener in listeners.iter().zip(listening).filter(|(_, ready)| *ready).map(|(l, _)| l) {
                self.accept(listener, &mut newcomers);
            }
        }
        for mut newcomer in newcomers {
            newcomer.negotiation.shut_down();
            self.serve(&mut newcomer);
            self.end(newcomer, true);
        }
        Ok(self.listeners)
    }

    /// Waits; answers which listeners and which newcomers are ready.
    fn wait(&self, listeners: &[&Listener], newcomers: &[Newcomer]) -> Result<(Vec<bool>, Vec<bool>), Error> {
        let mut all = vec![PollFd::new(&self.stop, PollFlags::IN)];
        all.extend(self.common.directory.changed().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let before = all.len();
        for listener in listeners {
            all.push(PollFd::from_borrowed_fd(listener.fd(), PollFlags::IN));
        }
        for newcomer in newcomers {
            let interest = if newcomer.out.is_empty() { PollFlags::IN } else { PollFlags::OUT };
            all.push(PollFd::new(&newcomer.socket, interest));
        }
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        match poll(&mut all, (!newcomers.is_empty()).then_some(&second)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(Error::Io { what: "cannot wait for clients".into(), source: e.into() }),
        }
        let ready: Vec<bool> = all[before..].iter().map(|fd| !fd.revents().is_empty()).collect();
        let (listening, newcomers) = ready.split_at(listeners.len());
        Ok((listening.to_vec(), newcomers.to_vec()))
    }

    fn accept(&self, listener: &Listener, newcomers: &mut Vec<Newcomer>) {
        for _ in 0..MAX_ACCEPTED {
            let (socket, peer) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return,
                // The client is gone.
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionAborted => continue,
                // Out of descriptors or memory: a connection that ends soon may free some.
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(10));
                    return;
                }
            };
            let before = self.common.connections.fetch_add(1, Ordering::Relaxed);
            if before >= self.common.settings.max_connections {
                self.common.connections.fetch_sub(1, Ordering::Relaxed);
                let line = format!(
                    "refused {}: {before} connections are open, the most that max_connections allows",
                    peer.name
                );
                self.common.log.about(&peer.origin, &line);
                continue;
            }
            // The kernel may allow less.
            if rustix::net::sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER).is_err() {
                let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER);
            }
            let mut newcomer = Newcomer {
                socket,
                peer,
                negotiation: Negotiation::new(self.tls_policy()),
                out: greeting().to_vec(),
                since: Instant::now(),
                ended: None,
                starts_tls: false,
            };
            match self.serve(&mut newcomer) {
                true => self.end(newcomer, false),
                false => {
                    if newcomers.len() >= MAX_NEGOTIATING {
                        self.end_oldest(newcomers);
                    }
                    newcomers.push(newcomer);
                }
            }
        }
    }

    /// Disconnects the client that has negotiated longest, so that clients that connect and send nothing do not keep others out.
    fn end_oldest(&self, newcomers: &mut Vec<Newcomer>) {
        let oldest = (0..newcomers.len()).min_by_key(|at| newcomers[*at].since);
        if let Some(at) = oldest {
            let newcomer = newcomers.swap_remove(at);
            self.end(newcomer, true);
        }
    }

    /// Sends and receives what is possible now. Is the negotiation over?
    fn serve(&self, newcomer: &mut Newcomer) -> bool {
        loop {
            while !newcomer.out.is_empty() {
                match rustix::net::send(&newcomer.socket, &newcomer.out, SendFlags::NOSIGNAL) {
                    Ok(sent) => {
                        newcomer.out.drain(..sent);
                    }
                    Err(Errno::AGAIN) => return newcomer.out.len() > MAX_UNREAD,
                    Err(Errno::INTR) => {}
                    Err(_) => return true,
                }
            }
            if std::mem::take(&mut newcomer.starts_tls) && !self.start_tls(newcomer) {
                return true;
            }
            if newcomer.ended.is_some() {
                return true;
            }
            let mut bytes = [0; 4096];
            let count = match rustix::io::read(&newcomer.socket, &mut bytes) {
                Ok(0) => return true,
                Ok(count) => count,
                Err(Errno::AGAIN) => return false,
                Err(Errno::INTR) => continue,
                Err(_) => return true,
            };
            let seen = self.common.directory.seen_by(&newcomer.peer.peer);
            match newcomer.negotiation.feed(&bytes[..count], &seen, &mut newcomer.out) {
                Progress::More => {}
                Progress::StartTls => newcomer.starts_tls = true,
                ended => newcomer.ended = Some(ended),
            }
        }
    }

    fn tls_policy(&self) -> TlsPolicy {
        match &self.common.settings.tls {
            None => TlsPolicy::Off,
            Some(tls) if tls.required => TlsPolicy::Required,
            Some(_) => TlsPolicy::Allowed,
        }
    }

    /// From now on the newcomer's socket is the one of its decrypted bytes. `false` if that cannot be.
    fn start_tls(&self, newcomer: &mut Newcomer) -> bool {
        let Some(tls) = &self.common.tls else { return false };
        let (common, peer) = (self.common.clone(), newcomer.peer.clone());
        let failed = move |why: &str| {
            common.failed_negotiations.fetch_add(1, Ordering::Relaxed);
            common.log.about(&peer.origin, &format!("{}: TLS failed: {why}", peer.name));
        };
        match tls.start(&mut newcomer.socket, failed) {
            Ok(identity) => newcomer.peer.peer.identity = Some(identity),
            Err(error) => {
                let Origin { name, origin, .. } = &newcomer.peer;
                self.common.log.about(origin, &format!("disconnected {name}: {error}"));
                return false;
            }
        }
        true
    }

    /// Hands a client over to its disk, or lets it go.
    fn end(&self, newcomer: Newcomer, timed_out: bool) {
        let Newcomer { socket, peer, ended, out, .. } = newcomer;
        if let Some(Progress::Violation(why)) = &ended {
            let line = format!("disconnected {} during the negotiation: {why}", peer.name);
            self.common.log.about(&peer.origin, &line);
        }
        let too_slow = timed_out && !self.stopping.load(Ordering::Acquire);
        if too_slow || matches!(ended, Some(Progress::Violation(_))) {
            self.common.failed_negotiations.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(Progress::Agreed(agreement)) = ended
            && !timed_out
            && out.is_empty()
            && let Some(entry) = self.common.directory.get(&agreement.export.name)
            && let Some(shard) = self.shards.get(entry.shard)
            && shard.send(Message::Connection { socket, peer: peer.name, tenant: entry.tenant, agreement }).is_ok()
        {
            return;
        }
        self.common.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
