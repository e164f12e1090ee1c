//! A client on a socket: requests out, answers in, at its caller's pace. The data of reads is dropped: it is for loads.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::nbd::client::{Handshake, Offer, Refusal, Reply, Wish};
use crate::nbd::request::Request;

/// A server that says nothing for longer is given up by a client that waits.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes that are received at once.
const INPUT_BYTES: usize = 256 << 10;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn connect(address: &Address) -> io::Result<Stream> {
        Ok(match address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Stream::Unix(stream)
            }
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Stream::Tcp(stream)
            }
        })
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Tcp(stream) => stream.set_nonblocking(true),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(into),
            Stream::Tcp(stream) => stream.read(into),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The request's number.
    pub cookie: u64,
    /// Its NBD error, 0 without one.
    pub error: u32,
}

/// A connection to an export. [`NbdClient::ask`] queues requests, [`NbdClient::send`] and [`NbdClient::receive`] move bytes.
pub struct NbdClient {
    stream: Stream,
    /// Calls wait for the server.
    waits: bool,
    offer: Offer,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    filled: usize,
    /// Bytes of the reply at hand that are still to come and are of no interest.
    skip: usize,
    /// The reply at hand, once it is answered by [`NbdClient::skip`] bytes.
    last: Option<Answered>,
    /// The first error of a structured reply in several chunks.
    error: u32,
}

impl AsFd for NbdClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl NbdClient {
    /// Connects and negotiates. Calls wait for the server, at most for 30 s each.
    ///
    /// # Errors
    /// Of the socket, or in words why the server does not offer the export.
    pub fn connect(address: &Address, export: &str) -> io::Result<NbdClient> {
        let mut client = NbdClient {
            stream: Stream::connect(address)?,
            waits: true,
            offer: Offer::default(),
            out: Vec::new(),
            sent: 0,
            input: vec![0; INPUT_BYTES],
            filled: 0,
            skip: 0,
            last: None,
            error: 0,
        };
        let mut handshake = Handshake::new(Wish { export: export.to_owned(), structured: true, allocation: false });
        loop {
            let count = client.read()?;
            let offer = handshake.feed(&client.input[..count], &mut client.out).map_err(|refusal| match refusal {
                Refusal::NoServer => io::Error::other("not an NBD server"),
                Refusal::Refused(why) => io::Error::other(why),
            })?;
            client.send()?;
            if let Some(offer) = offer {
                client.offer = offer;
                return Ok(client);
            }
        }
    }

    /// Nothing waits from now on: bytes move as far as the socket allows.
    ///
    /// # Errors
    /// Of the socket.
    pub fn set_nonblocking(&mut self) -> io::Result<()> {
        self.waits = false;
        self.stream.set_nonblocking()
    }

    /// The export, as it was agreed on.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Queues a request with its payload.
    pub fn ask(&mut self, request: &Request, payload: &[u8]) {
        self.out.extend_from_slice(&request.encode());
        self.out.extend_from_slice(payload);
    }

    /// Is something queued that was not sent?
    pub fn has_unsent(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// Of the socket.
    pub fn send(&mut self) -> io::Result<()> {
        while self.has_unsent() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(e) if e.kind() == ErrorKind::WouldBlock && !self.waits => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Bytes received behind those that are there; 0 if there are none and the client does not wait. The end of the stream is an error: a
    /// server answers before it hangs up.
    fn read(&mut self) -> io::Result<usize> {
        loop {
            match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(e) if e.kind() == ErrorKind::WouldBlock && !self.waits => return Ok(0),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Appends the answers that are here. `read_length`: bytes that a simple reply to this cookie brings, where no structured replies were
    /// agreed on.
    ///
    /// # Errors
    /// Of the socket, also at its end, or what is no reply.
    pub fn receive(&mut self, read_length: impl Fn(u64) -> u32, answered: &mut Vec<Answered>) -> io::Result<()> {
        self.filled += self.read()?;
        let mut at = 0;
        loop {
            let drop = self.skip.min(self.filled - at);
            (self.skip, at) = (self.skip - drop, at + drop);
            if self.skip > 0 {
                break;
            }
            answered.extend(self.last.take());
            let parsed = Reply::parse(&self.input[at..self.filled], &read_length);
            let Some((reply, head)) = parsed.map_err(|_| io::Error::from(ErrorKind::InvalidData))? else { break };
            at += head;
            self.skip = (reply.skip + reply.data) as usize;
            self.error = if self.error == 0 { reply.error } else { self.error };
            if reply.done {
                let error = std::mem::take(&mut self.error);
                self.last = Some(Answered { cookie: reply.cookie, error });
            }
        }
        self.input.copy_within(at..self.filled, 0);
        self.filled -= at;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_is_no_nbd_server_is_said() {
        let path = std::env::temp_dir().join(format!("dumbwaiter-nbd-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let connect = |sent: &[u8]| {
            std::thread::scope(|scope| {
                scope.spawn(|| listener.accept().unwrap().0.write_all(sent).unwrap());
                NbdClient::connect(&Address::Unix(path.clone()), "disk").err().unwrap()
            })
        };
        let (other, gone) = (connect(&[b'x'; 64]), connect(b""));
        std::fs::remove_file(&path).unwrap();
        assert_eq!((other.to_string().as_str(), gone.kind()), ("not an NBD server", ErrorKind::UnexpectedEof));
    }
}
