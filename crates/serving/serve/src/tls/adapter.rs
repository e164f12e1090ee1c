//! Between a client that speaks TLS and the server, which does not.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, shutdown};
use rustls::ServerConnection;

use super::Identity;

/// Bytes that are passed on at once.
const CHUNK_BYTES: usize = 128 << 10;
/// The most that one receive may decrypt to, bytes.
const DECRYPTED_BYTES: usize = 40 << 10;
/// How long a client may take for the last bytes, once the server has closed the connection.
const LAST_BYTES: Duration = Duration::from_secs(10);

/// A client's socket, which does not block and raises no signal.
struct ClientSocket(OwnedFd);

impl Read for ClientSocket {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        Ok(rustix::io::read(&self.0, into)?)
    }
}

impl Write for ClientSocket {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The thread of one connection.
pub(super) struct Adapter {
    tls: ServerConnection,
    client: ClientSocket,
    /// Decrypted bytes from and to the server.
    plain: UnixStream,
    /// Bytes for the server, from `passed` to `filled`.
    inward: Vec<u8>,
    passed: usize,
    filled: usize,
    outward: Vec<u8>,
    /// Learns the client's certificate.
    identity: Identity,
    /// The client sends nothing more, and the server knows it.
    client_ended: bool,
    /// When the server closed its end.
    server_ended: Option<Instant>,
}

impl Adapter {
    /// Of sockets that do not block.
    pub(super) fn new(mut tls: ServerConnection, client: OwnedFd, plain: UnixStream, identity: Identity) -> Adapter {
        // Data read from the server fits: more is read only once all was sent.
        tls.set_buffer_limit(Some(2 * CHUNK_BYTES));
        Adapter {
            tls,
            client: ClientSocket(client),
            plain,
            inward: vec![0; CHUNK_BYTES],
            passed: 0,
            filled: 0,
            outward: vec![0; CHUNK_BYTES],
            identity,
            client_ended: false,
            server_ended: None,
        }
    }

    /// Passes bytes on until both sides have ended. An error is a failure of TLS; that a side hangs up is none.
    pub(super) fn run(&mut self) -> Result<(), String> {
        loop {
            match self.turn() {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(e) if e.kind() == ErrorKind::InvalidData => {
                    // The client should learn why; it may be gone.
                    let _ = self.tls.write_tls(&mut self.client);
                    return Err(e.to_string());
                }
                Err(_) => return Ok(()),
            }
        }
    }

    /// Waits and moves what can be moved. `true` once all is over.
    fn turn(&mut self) -> std::io::Result<bool> {
        if !self.wait()? {
            return Ok(true);
        }
        self.take_from_client()?;
        self.pass_to_server()?;
        self.take_from_server()?;
        self.send_to_client()?;
        let done = self.server_ended.is_some() && (!self.tls.wants_write() || self.tls.is_handshaking());
        if done {
            // It may have hung up first.
            let _ = shutdown(&self.client.0, Shutdown::Both);
        }
        Ok(done)
    }

    fn wants_client(&self) -> bool {
        self.passed == self.filled && !self.client_ended && self.server_ended.is_none()
    }

    fn wants_server(&self) -> bool {
        self.server_ended.is_none() && !self.tls.wants_write()
    }

    /// Waits for a side that has, or takes, bytes. A side that is not waited for is left out, or its hang-up would end every
    /// wait at once. `false` if the last bytes were not taken in time.
    fn wait(&self) -> std::io::Result<bool> {
        let (mut client, mut server) = (PollFlags::empty(), PollFlags::empty());
        client.set(PollFlags::IN, self.wants_client());
        client.set(PollFlags::OUT, self.tls.wants_write());
        server.set(PollFlags::IN, self.wants_server());
        server.set(PollFlags::OUT, self.passed < self.filled);
        let mut fds = Vec::with_capacity(2);
        if !client.is_empty() {
            fds.push(PollFd::new(&self.client.0, client));
        }
        if !server.is_empty() {
            fds.push(PollFd::new(&self.plain, server));
        }
        let left = self.server_ended.map(|since| LAST_BYTES.saturating_sub(since.elapsed()));
        let timeout = left
            .map(|left| Timespec { tv_sec: left.as_secs().min(60) as i64, tv_nsec: i64::from(left.subsec_nanos()) });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => Ok(false),
            Ok(_) | Err(Errno::INTR) => Ok(true),
            Err(e) => Err(e.into()),
        }
    }

    /// Decrypts what the client has sent, as far as there is room for it.
    fn take_from_client(&mut self) -> std::io::Result<()> {
        if !self.wants_client() {
            return Ok(());
        }
        (self.passed, self.filled) = (0, 0);
        while !self.client_ended && self.inward.len() - self.filled >= DECRYPTED_BYTES {
            let ended = match self.tls.read_tls(&mut self.client) {
                Ok(count) => count == 0,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            let state = self.tls.process_new_packets().map_err(|e| std::io::Error::new(ErrorKind::InvalidData, e))?;
            if let Some([certificate, ..]) = self.tls.peer_certificates() {
                self.identity.is(certificate);
            }
            loop {
                match self.tls.reader().read(&mut self.inward[self.filled..]) {
                    Ok(0) => break,
                    Ok(count) => self.filled += count,
                    // Nothing more for now, or the end without a farewell.
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::UnexpectedEof) => break,
                    Err(e) => return Err(e),
                }
            }
            self.client_ended = ended || state.peer_has_closed();
            if self.client_ended && self.filled == 0 {
                self.end_towards_server();
            }
        }
        Ok(())
    }

    fn pass_to_server(&mut self) -> std::io::Result<()> {
        while self.passed < self.filled {
            match self.plain.write(&self.inward[self.passed..self.filled]) {
                Ok(count) => self.passed += count,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // It takes no more of this client, but may still answer.
                Err(_) => (self.passed, self.client_ended) = (self.filled, true),
            }
            if self.passed == self.filled && self.client_ended {
                self.end_towards_server();
            }
        }
        Ok(())
    }

    /// The server sees the end of the client's bytes; its replies still go out.
    fn end_towards_server(&self) {
        // It may have closed its end first.
        let _ = self.plain.shutdown(std::net::Shutdown::Write);
    }

    fn take_from_server(&mut self) -> std::io::Result<()> {
        if !self.wants_server() {
            return Ok(());
        }
        match self.plain.read(&mut self.outward) {
            Ok(0) => {
                self.server_ended = Some(Instant::now());
                self.tls.send_close_notify();
                Ok(())
            }
            Ok(count) => self.tls.writer().write_all(&self.outward[..count]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            // It closed its end with bytes of ours unread.
            Err(_) => {
                self.server_ended = Some(Instant::now());
                Ok(())
            }
        }
    }

    fn send_to_client(&mut self) -> std::io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.client) {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}
