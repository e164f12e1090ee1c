//! Fixed answers to GET over HTTP, for metrics and pages. A framework would bring an executor and fifty crates for that.

use std::io::{Read, Result, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A request head that is longer is refused.
const MAX_HEAD: usize = 8 << 10;
/// A client must have sent its head, and taken its answer, within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Clients at the same time.
const MAX_CLIENTS: u32 = 32;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status line, such as `200 OK`.
    pub status: &'static str,
    /// Content type.
    pub kind: &'static str,
    /// Body.
    pub body: String,
}

impl Response {
    /// A found document.
    pub fn ok(kind: &'static str, body: impl Into<String>) -> Response {
        Response { status: "200 OK", kind, body: body.into() }
    }

    /// Plain text with a status.
    pub fn text(status: &'static str, body: impl Into<String>) -> Response {
        Response { status, kind: "text/plain", body: body.into() }
    }
}

type Answer = Arc<dyn Fn(&str) -> Response + Send + Sync>;

/// The thread that answers; it ends when this is dropped.
pub struct HttpServer {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Listens on `address`; `answer` gets the path of each GET.
    pub fn start(address: SocketAddr, answer: impl Fn(&str) -> Response + Send + Sync + 'static) -> Result<HttpServer> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let ends = stopping.clone();
        let answer: Answer = Arc::new(answer);
        let thread =
            std::thread::Builder::new().name("http".into()).spawn(move || accept(&listener, &answer, &ends))?;
        Ok(HttpServer { address, stopping, thread: Some(thread) })
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
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, answer: &Answer, stopping: &AtomicBool) {
    let clients = Arc::new(AtomicU32::new(0));
    for stream in listener.incoming() {
        if stopping.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else { continue };
        if clients.fetch_add(1, Ordering::Relaxed) >= MAX_CLIENTS {
            clients.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (answer, there) = (Arc::clone(answer), clients.clone());
        let spawned = std::thread::Builder::new().name("http-client".into()).spawn(move || {
            // A client that is gone needs no answer.
            let _ = serve(stream, &answer);
            there.fetch_sub(1, Ordering::Relaxed);
        });
        if spawned.is_err() {
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn serve(mut stream: TcpStream, answer: &Answer) -> Result<()> {
    let by = Instant::now() + PATIENCE;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut bytes = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = by.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > MAX_HEAD {
            return respond(&mut stream, &Response::text("400 Bad Request", "no request"));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            count => head.extend_from_slice(&bytes[..count]),
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.split_ascii_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if method != "GET" {
        return respond(&mut stream, &Response::text("405 Method Not Allowed", "only GET"));
    }
    respond(&mut stream, &answer(path.split('?').next().unwrap_or_default()))
}

fn respond(stream: &mut TcpStream, response: &Response) -> Result<()> {
    let Response { status, kind, body } = response;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}
