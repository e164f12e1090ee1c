//! Fixed answers to GET over HTTP, for metrics and pages. A framework would bring an executor and fifty crates for that.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::service::clients::ClientThreads;

/// A request head that is longer is refused.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// A client must send its head within this time, and take its answer within as much.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Clients that are served at a time.
const CLIENTS_MAX: u32 = 32;

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

/// Answers until it is dropped.
pub struct HttpServer {
    address: SocketAddr,
    _threads: ClientThreads<TcpListener>,
}

impl HttpServer {
    /// Listens on `address`; `answer` gets the path of each GET.
    ///
    /// # Errors
    /// If the address is taken or not one of this machine.
    pub fn start(address: SocketAddr, answer: impl Fn(&str) -> Response + Send + Sync + 'static) -> Result<HttpServer> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let threads = ClientThreads::start("http", listener, CLIENTS_MAX, move |client| {
            // A client that is gone needs no answer.
            let _ = serve(client, &answer);
        })?;
        Ok(HttpServer { address, _threads: threads })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn serve(mut client: TcpStream, answer: &impl Fn(&str) -> Response) -> Result<()> {
    let response = match read_head(&mut client, Instant::now() + TIME_MAX)? {
        Head::None => return Ok(()),
        Head::Refused => Response::text("400 Bad Request", "not an HTTP request"),
        Head::Request(head) => {
            let mut words = head.split_ascii_whitespace();
            let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            match method {
                "GET" => answer(path.split('?').next().unwrap_or_default()),
                _ => Response::text("405 Method Not Allowed", "expected GET"),
            }
        }
    };
    respond(&mut client, &response, Instant::now() + TIME_MAX)
}

enum Head {
    /// The client left without one.
    None,
    /// Too long, or too late.
    Refused,
    Request(String),
}

fn read_head(client: &mut TcpStream, deadline: Instant) -> Result<Head> {
    let mut head = Vec::new();
    let mut bytes = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > HEAD_BYTES_MAX {
            return Ok(Head::Refused);
        }
        client.set_read_timeout(Some(left))?;
        match client.read(&mut bytes)? {
            0 => return Ok(Head::None),
            count => head.extend_from_slice(&bytes[..count]),
        }
    }
    Ok(Head::Request(String::from_utf8_lossy(&head).into_owned()))
}

fn respond(client: &mut TcpStream, response: &Response, deadline: Instant) -> Result<()> {
    let Response { status, kind, body } = response;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    );
    for mut bytes in [head.as_bytes(), body.as_bytes()] {
        // A timeout of the socket is for one call: a client that takes byte by byte would keep its place for ever.
        while !bytes.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            client.set_write_timeout(Some(left))?;
            bytes = &bytes[client.write(bytes)?..];
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole answer to some bytes.
    fn ask(address: SocketAddr, bytes: &[u8]) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(bytes).unwrap();
        let mut answer = String::new();
        // A refused client may be reset before it has read all.
        let _ = client.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn a_get_is_answered_by_its_path_and_all_else_is_refused() {
        let server = HttpServer::start("127.0.0.1:0".parse().unwrap(), |path| {
            Response::ok("text/plain", format!("path {path}"))
        })
        .unwrap();
        let answer = ask(server.address(), b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\npath /metrics"), "{answer}");
        let answer = ask(server.address(), b"POST / HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        let answer = ask(server.address(), &[b'x'; HEAD_BYTES_MAX + 1]);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }

    #[test]
    fn a_client_that_takes_nothing_is_left_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let idle = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut client, _) = listener.accept().unwrap();
        // More than the buffers of both sides hold.
        let response = Response::ok("text/plain", "x".repeat(64 << 20));
        let error = respond(&mut client, &response, Instant::now() + Duration::from_millis(100)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");
        drop(idle);
    }
}
