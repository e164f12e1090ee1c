//! Fixed answers to GET over HTTP, for metrics and pages. A framework would bring an executor and fifty crates for that.
//!
//! One thread waits for all clients and answers one request at a time, probes of `/healthz` first. A slow client keeps nobody
//! waiting; where there are too many, those go that have been idle for longest.

mod connection;
mod request;
mod response;

use std::io::Result;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::Shutdown;

use super::openmetrics;
use connection::{Connection, Stage};
use request::Request;
pub use response::Response;

/// Clients at a time. One more takes the place of that which has been sending its head for longest.
const CLIENTS_MAX: usize = 256;
/// Clients that take an answer at a time, which is in memory until then; others wait for theirs.
const SENDING_MAX: usize = 32;
/// While others wait, an answer must be taken within this time.
const SENDING_TIME: Duration = Duration::from_secs(1);
/// The pause after a failed accept, such as one without a free descriptor, which fails again at once; also how often deadlines are
/// looked at.
const TICK: Duration = Duration::from_millis(50);
/// A wait without any client: the listener wakes it.
const IDLE: Duration = Duration::from_secs(3600);

/// Answers until it is dropped.
pub struct HttpServer {
    address: SocketAddr,
    listener: Arc<TcpListener>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Listens on `address`; `answer` gets the path of each GET. A client must call the server by an address, `localhost` or one of
    /// the names in `hosts`, except for `/healthz`.
    ///
    /// # Errors
    /// If the address is taken or not one of this machine.
    pub fn start(
        address: SocketAddr,
        hosts: &[String],
        answer: impl Fn(&str) -> Response + Send + 'static,
    ) -> Result<HttpServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (listener, stopping) = (Arc::new(listener), Arc::new(AtomicBool::new(false)));
        let (listening, ends, hosts) = (Arc::clone(&listener), Arc::clone(&stopping), hosts.to_vec());
        let thread = std::thread::Builder::new().name("http".into()).spawn(move || {
            let mut clients = Clients { listener: &listening, hosts: &hosts, answer: &answer, all: Vec::new() };
            while !ends.load(Ordering::Acquire) {
                clients.turn();
            }
        })?;
        Ok(HttpServer { address, listener, stopping, thread: Some(thread) })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // Ends the wait for clients.
        let _ = rustix::net::shutdown(&*self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Clients<'a> {
    listener: &'a TcpListener,
    hosts: &'a [String],
    answer: &'a dyn Fn(&str) -> Response,
    all: Vec<Connection>,
}

impl Clients<'_> {
    /// Waits for something to do, and does it.
    fn turn(&mut self) {
        let ready = self.wait();
        let mut at = 0;
        let hosts = self.hosts;
        self.all.retain_mut(|client| {
            at += 1;
            !ready.get(at).is_some_and(|ready| *ready) || client.advance(hosts).is_some()
        });
        if ready[0] {
            self.accept();
        }
        let now = Instant::now();
        self.all.retain(|client| !client.is_late(now));
        self.answer_probes();
        self.answer_one(now);
    }

    /// Which of the listener and the clients, in this order, are ready.
    fn wait(&self) -> Vec<bool> {
        let wanted = |client: &Connection| match client.stage {
            Stage::Reading(_) => PollFlags::IN,
            Stage::Asked(_) => PollFlags::empty(),
            Stage::Sending(..) => PollFlags::OUT,
        };
        let mut polled = vec![PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN)];
        polled.extend(self.all.iter().map(|client| PollFd::from_borrowed_fd(client.stream.as_fd(), wanted(client))));
        let patience = match self.all.is_empty() {
            true => IDLE,
            false if self.has_turn() => Duration::ZERO,
            false => TICK,
        };
        let patience = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
        match poll(&mut polled, Some(&patience)) {
            Ok(_) => polled.iter().map(|polled| !polled.revents().is_empty()).collect(),
            Err(_) => vec![false; polled.len()],
        }
    }

    fn accept(&mut self) {
        // Not all at once: those that are there must have their turn.
        for _ in 0..CLIENTS_MAX / 4 {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    self.make_room();
                    self.all.extend(Connection::new(stream));
                }
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    std::thread::sleep(TICK);
                    return;
                }
            }
        }
    }

    /// One that has been idle for longest leaves where there are too many: of those that are sending their head, else of those that
    /// are taking an answer, else of all.
    fn make_room(&mut self) {
        if self.all.len() < CLIENTS_MAX {
            return;
        }
        let rank = |client: &Connection| match client.stage {
            Stage::Reading(_) => 0,
            Stage::Sending(..) => 1,
            Stage::Asked(_) => 2,
        };
        let all = self.all.iter().enumerate();
        if let Some((oldest, _)) = all.min_by_key(|(_, client)| (rank(client), client.since)) {
            self.all.swap_remove(oldest);
        }
    }

    fn sending(&self) -> usize {
        self.all.iter().filter(|client| matches!(client.stage, Stage::Sending(..))).count()
    }

    /// May one that has asked be answered now?
    fn has_turn(&self) -> bool {
        self.sending() < SENDING_MAX && self.all.iter().any(|client| matches!(client.stage, Stage::Asked(_)))
    }

    /// Answers all probes, with one look at the state. Their answers are short, and take nobody's place.
    fn answer_probes(&mut self) {
        if !self.all.iter().any(Connection::is_probe) {
            return;
        }
        let response = answer_to(self.answer, request::HEALTH);
        let hosts = self.hosts;
        self.all.retain_mut(|client| {
            if !client.is_probe() {
                return true;
            }
            let head_only = matches!(&client.stage, Stage::Asked(request) if request.head_only);
            client.respond(&response, head_only);
            client.advance(hosts).is_some()
        });
    }

    /// Answers that which has waited longest.
    fn answer_one(&mut self, now: Instant) {
        let asked = |client: &&mut Connection| matches!(client.stage, Stage::Asked(_));
        if self.sending() >= SENDING_MAX && self.all.iter_mut().any(|client| asked(&client)) {
            let is_slow = |client: &Connection| {
                matches!(client.stage, Stage::Sending(..))
                    && now.saturating_duration_since(client.since) >= SENDING_TIME
            };
            self.all.retain(|client| !is_slow(client));
        }
        if self.sending() >= SENDING_MAX {
            return;
        }
        let Some(client) = self.all.iter_mut().filter(asked).min_by_key(|client| client.since) else { return };
        if let Stage::Asked(request) = &client.stage {
            let Request { path, head_only, takes_openmetrics } = request.clone();
            let mut response = answer_to(self.answer, &path);
            if response.kind == openmetrics::CONTENT_TYPE && !takes_openmetrics {
                response.kind = openmetrics::TEXT_CONTENT_TYPE;
                response.body = openmetrics::text_format(&response.body);
            }
            client.respond(&response, head_only);
        }
    }
}

/// The answer for a path; one that panics costs its client the answer, and nobody else.
fn answer_to(answer: &dyn Fn(&str) -> Response, path: &str) -> Response {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| answer(path)));
    caught.unwrap_or_else(|_| Response::text("500 Internal Server Error", "this answer failed\n"))
}

#[cfg(test)]
mod tests;
