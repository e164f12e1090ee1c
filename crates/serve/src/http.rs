//! Metrics and the live page over HTTP: four fixed answers to GET. A framework would bring an executor and fifty crates for that.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Error;
use crate::inspector::Inspector;
use crate::metrics::openmetrics;

/// A request head that is longer is refused.
const MAX_HEAD: usize = 8 << 10;
/// A client must have sent its head, and taken its answer, within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Clients at the same time.
const MAX_CLIENTS: u32 = 32;
const PAGE: &str = include_str!("page.html");

/// The thread that answers.
pub(crate) struct HttpServer {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    pub(crate) fn start(address: SocketAddr, inspector: Inspector) -> Result<HttpServer, Error> {
        let failed = |source| Error::Io { what: format!("--http {address}"), source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let ends = stopping.clone();
        let thread =
            std::thread::Builder::new().name("http".into()).spawn(move || accept(&listener, &inspector, &ends));
        Ok(HttpServer { address, stopping, thread: Some(thread.map_err(failed)?) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
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

fn accept(listener: &TcpListener, inspector: &Inspector, stopping: &AtomicBool) {
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
        let (inspector, there) = (inspector.clone(), clients.clone());
        let spawned = std::thread::Builder::new().name("http-client".into()).spawn(move || {
            // A client that is gone needs no answer.
            let _ = serve(stream, &inspector);
            there.fetch_sub(1, Ordering::Relaxed);
        });
        if spawned.is_err() {
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn serve(mut stream: TcpStream, inspector: &Inspector) -> std::io::Result<()> {
    let by = Instant::now() + PATIENCE;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut bytes = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = by.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > MAX_HEAD {
            return respond(&mut stream, "400 Bad Request", "text/plain", "no request");
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
        return respond(&mut stream, "405 Method Not Allowed", "text/plain", "only GET");
    }
    answer(&mut stream, path.split('?').next().unwrap_or_default(), inspector)
}

fn answer(stream: &mut TcpStream, path: &str, inspector: &Inspector) -> std::io::Result<()> {
    let gone = |stream: &mut TcpStream, error: Error| {
        respond(stream, "503 Service Unavailable", "text/plain", &format!("{error}\n"))
    };
    match (path, inspector.stats()) {
        ("/", _) => respond(stream, "200 OK", "text/html; charset=utf-8", PAGE),
        ("/metrics", Ok(disks)) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            respond(stream, "200 OK", kind, &openmetrics(&disks))
        }
        ("/healthz", Ok(disks)) if disks.iter().any(|disk| disk.flush_failed) => {
            respond(stream, "503 Service Unavailable", "text/plain", "a flush failed: restart\n")
        }
        ("/healthz", Ok(_)) => respond(stream, "200 OK", "text/plain", "ok\n"),
        ("/stats.json", Ok(disks)) => {
            let text = serde_json::to_string(&disks).unwrap_or_default();
            respond(stream, "200 OK", "application/json", &text)
        }
        ("/metrics" | "/healthz" | "/stats.json", Err(error)) => gone(stream, error),
        _ => respond(stream, "404 Not Found", "text/plain", "there are /, /metrics, /healthz and /stats.json\n"),
    }
}

fn respond(stream: &mut TcpStream, status: &str, kind: &str, body: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}
