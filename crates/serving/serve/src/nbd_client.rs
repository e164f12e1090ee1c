//! A client that never waits: requests out, replies in, at its caller's pace. Loads with workloads of their own use it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use dumbwaiter_protocols::nbd::Request;
use dumbwaiter_protocols::nbd::client::{Offer, Reply};

use crate::Error;
use crate::load::{Address, Stream, negotiate};

/// Bytes that are received at once.
const INPUT_BYTES: usize = 256 << 10;

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The request's number.
    pub cookie: u64,
    /// Its NBD error, 0 without one.
    pub error: u32,
}

/// A connection to an export. [`NbdClient::ask`] queues requests, [`NbdClient::send`] and [`NbdClient::receive`] move bytes as far as the
/// socket allows; the data of reads is dropped.
pub struct NbdClient {
    stream: Stream,
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
        self.stream.as_fd()
    }
}

impl NbdClient {
    /// Connects and negotiates, which waits; nothing waits from then on.
    pub fn connect(address: &Address, export: &str) -> Result<NbdClient, Error> {
        let failed = |source| Error::Io { what: format!("a client of export `{export}`"), source };
        let mut stream = Stream::connect(address).map_err(failed)?;
        let offer = negotiate(&mut stream, export)?;
        stream.set_nonblocking().map_err(failed)?;
        let input = vec![0; INPUT_BYTES];
        Ok(NbdClient { stream, offer, out: Vec::new(), sent: 0, input, filled: 0, skip: 0, last: None, error: 0 })
    }

    /// What was agreed on.
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

    /// Sends what is queued, as far as the socket takes it.
    pub fn send(&mut self) -> io::Result<()> {
        while self.has_unsent() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Appends the answers that are here. The end of the stream is an error: a server answers before it hangs up.
    pub fn receive(&mut self, answered: &mut Vec<Answered>) -> io::Result<()> {
        let count = match self.stream.read(&mut self.input[self.filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => return Ok(()),
            Err(e) => return Err(e),
        };
        self.filled += count;
        let mut at = 0;
        loop {
            let drop = self.skip.min(self.filled - at);
            (self.skip, at) = (self.skip - drop, at + drop);
            if self.skip > 0 {
                break;
            }
            answered.extend(self.last.take());
            // Structured replies, which were agreed on, tell their length themselves.
            let parsed = Reply::parse(&self.input[at..self.filled], |_| 0);
            let Some((reply, head)) = parsed.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))? else { break };
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
