//! One client of the HTTP server: its head as it comes, then its answer as it is taken. Nothing here waits.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::request::{HEAD_BYTES_MAX, HEALTH, Request, head_end, parse};
use super::response::Response;

/// A client must send its head within this time, and take its answer within as much.
pub(super) const TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes of a head that are read at once.
const READ_BYTES: usize = 1 << 10;

/// What a connection waits for.
#[derive(Debug)]
pub(super) enum Stage {
    /// The rest of a head.
    Reading(Vec<u8>),
    /// Its turn to be answered.
    Asked(Request),
    /// The client, to take the rest of its answer, from this byte on.
    Sending(Vec<u8>, usize),
}

#[derive(Debug)]
pub(super) struct Connection {
    pub stream: TcpStream,
    pub stage: Stage,
    /// The begin of the stage.
    pub since: Instant,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> std::io::Result<Connection> {
        stream.set_nonblocking(true)?;
        Ok(Connection { stream, stage: Stage::Reading(Vec::new()), since: Instant::now() })
    }

    fn enter(&mut self, stage: Stage) {
        (self.stage, self.since) = (stage, Instant::now());
    }

    pub(super) fn is_late(&self, now: Instant) -> bool {
        !matches!(self.stage, Stage::Asked(_)) && now.saturating_duration_since(self.since) >= TIME_MAX
    }

    /// Asks for its health.
    pub(super) fn is_probe(&self) -> bool {
        matches!(&self.stage, Stage::Asked(request) if request.path == HEALTH)
    }

    /// Goes on after the socket has become ready; `None` when the connection is over.
    pub(super) fn advance(&mut self, hosts: &[String]) -> Option<()> {
        match &mut self.stage {
            Stage::Reading(head) => {
                let mut bytes = [0; READ_BYTES];
                let count = match self.stream.read(&mut bytes) {
                    Ok(0) => return None,
                    Ok(count) => count,
                    Err(e) => return is_later(&e).then_some(()),
                };
                head.extend_from_slice(&bytes[..count]);
                match head_end(head) {
                    Some(end) => match parse(&head[..end], hosts) {
                        Ok(request) => self.enter(Stage::Asked(request)),
                        Err(refused) => self.respond(&refused, false),
                    },
                    None if head.len() > HEAD_BYTES_MAX => {
                        self.respond(
                            &Response::text("431 Request Header Fields Too Large", "the head is too long\n"),
                            false,
                        );
                    }
                    None => {}
                }
                Some(())
            }
            // Nothing is waited for: it has left.
            Stage::Asked(_) => None,
            Stage::Sending(bytes, sent) => loop {
                match self.stream.write(&bytes[*sent..]) {
                    Ok(0) => return None,
                    Ok(count) => *sent += count,
                    Err(e) => return is_later(&e).then_some(()),
                }
                if *sent == bytes.len() {
                    return None;
                }
            },
        }
    }

    /// Begins to send an answer.
    pub(super) fn respond(&mut self, response: &Response, head_only: bool) {
        let Response { status, kind, body } = response;
        let mut bytes = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            body.len()
        );
        if !head_only {
            bytes.push_str(body);
        }
        self.enter(Stage::Sending(bytes.into_bytes(), 0));
    }
}

fn is_later(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
