//! A client that keeps a number of requests under way: the load of the demo, of benchmarks and of tests. It answers the replies of one
//! receive with one send.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dumbwaiter_block::Nanos;
use dumbwaiter_protocols::nbd::client::{Handshake, Offer, Refusal, Reply, Wish};
use dumbwaiter_protocols::nbd::{Command, Request};

use crate::Error;
use crate::histogram::LatencyHistogram;

/// A server that says nothing for longer is given up.
const PATIENCE: Duration = Duration::from_secs(30);
const INPUT_BYTES: usize = 256 << 10;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

/// A closed loop over one connection.
#[derive(Clone, Debug)]
pub struct NbdLoad {
    /// The server.
    pub address: Address,
    /// The export.
    pub export: String,
    /// Writes; reads otherwise.
    pub writes: bool,
    /// One block after another; at random otherwise.
    pub sequential: bool,
    /// Bytes of a request.
    pub block_bytes: u32,
    /// Requests under way.
    pub depth: u32,
    /// Seed of the positions.
    pub seed: u64,
    /// Bytes of the export that are used; all if `None`.
    pub span: Option<u64>,
}

/// What a load did.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// Requests answered well.
    pub ios: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Their latencies.
    pub latency: LatencyHistogram,
}

pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub(crate) fn connect(address: &Address) -> std::io::Result<Stream> {
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

    pub(crate) fn set_nonblocking(&self) -> std::io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Tcp(stream) => stream.set_nonblocking(true),
        }
    }

    pub(crate) fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let read = match self {
                Stream::Unix(stream) => stream.read(into),
                Stream::Tcp(stream) => stream.read(into),
            };
            match read {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.write_all(bytes),
            Stream::Tcp(stream) => stream.write_all(bytes),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// The next number of a sequence; the same seed gives the same one.
pub(crate) fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The state of a load that runs.
struct Running<'a> {
    load: &'a NbdLoad,
    stream: Stream,
    blocks: u64,
    random: u64,
    issued: u64,
    /// When each request was sent, by its cookie.
    sent: Vec<Instant>,
    payload: Vec<u8>,
    out: Vec<u8>,
    report: LoadReport,
}

impl NbdLoad {
    /// Runs until `stop` is set, and finishes what is under way. `done` counts what is answered well meanwhile.
    pub fn run(&self, stop: &AtomicBool, done: &AtomicU64) -> Result<LoadReport, Error> {
        let failed = |source| Error::Io { what: format!("the load on export `{}`", self.export), source };
        let mut stream = Stream::connect(&self.address).map_err(failed)?;
        let offer = negotiate(&mut stream, &self.export)?;
        let span = self.span.unwrap_or(offer.size).min(offer.size);
        let blocks = span / u64::from(self.block_bytes);
        if blocks == 0 {
            return Err(Error::Export { export: self.export.clone(), what: "smaller than one request".into() });
        }
        let payload = if self.writes { (0..self.block_bytes).map(|i| i as u8).collect() } else { Vec::new() };
        let mut running = Running {
            load: self,
            stream,
            blocks,
            random: self.seed,
            issued: 0,
            sent: vec![Instant::now(); self.depth as usize],
            payload,
            out: Vec::new(),
            report: LoadReport::default(),
        };
        running.run(stop, done).map_err(failed)?;
        Ok(running.report)
    }
}

impl Running<'_> {
    fn run(&mut self, stop: &AtomicBool, done: &AtomicU64) -> std::io::Result<()> {
        for cookie in 0..u64::from(self.load.depth) {
            self.ask(cookie);
        }
        self.flush()?;
        let (mut input, mut filled, mut under_way) = (vec![0; INPUT_BYTES], 0, self.load.depth);
        // Bytes of the reply at hand that are still to come.
        let mut skip = 0usize;
        while under_way > 0 {
            let count = self.stream.read(&mut input[filled..])?;
            if count == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            filled += count;
            let now = Instant::now();
            let stopping = stop.load(Ordering::Relaxed);
            let (mut at, before) = (0, self.report.ios);
            loop {
                let drop = skip.min(filled - at);
                (skip, at) = (skip - drop, at + drop);
                if skip > 0 {
                    break;
                }
                let length = if self.load.writes { 0 } else { self.load.block_bytes };
                let parsed = Reply::parse(&input[at..filled], |_| length);
                let Some((reply, head)) = parsed.map_err(|_| std::io::Error::from(std::io::ErrorKind::InvalidData))?
                else {
                    break;
                };
                at += head;
                skip = (reply.skip + reply.data) as usize;
                if reply.done {
                    self.answered(reply.cookie, reply.error, now);
                    match stopping {
                        true => under_way -= 1,
                        false => self.ask(reply.cookie),
                    }
                }
            }
            done.fetch_add(self.report.ios - before, Ordering::Relaxed);
            input.copy_within(at..filled, 0);
            filled -= at;
            self.flush()?;
        }
        Ok(())
    }

    fn answered(&mut self, cookie: u64, error: u32, now: Instant) {
        let Some(sent) = self.sent.get(cookie as usize) else { return };
        if error != 0 {
            self.report.errors += 1;
            return;
        }
        self.report.ios += 1;
        self.report.latency.add(Nanos(now.duration_since(*sent).as_nanos() as u64));
    }

    fn ask(&mut self, cookie: u64) {
        let block = if self.load.sequential { self.issued } else { next_random(&mut self.random) };
        self.issued += 1;
        let offset = block % self.blocks * u64::from(self.load.block_bytes);
        let command = if self.load.writes { Command::Write } else { Command::Read };
        let request = Request { flags: 0, command, cookie, offset, length: self.load.block_bytes };
        self.out.extend_from_slice(&request.encode());
        self.out.extend_from_slice(&self.payload);
        self.sent[cookie as usize] = Instant::now();
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }
}

pub(crate) fn negotiate(stream: &mut Stream, export: &str) -> Result<Offer, Error> {
    let failed = |source| Error::Io { what: format!("the load on export `{export}`"), source };
    let mut handshake = Handshake::new(Wish { export: export.to_owned(), structured: true, allocation: false });
    let (mut bytes, mut out) = ([0; 4096], Vec::new());
    loop {
        let count = stream.read(&mut bytes).map_err(failed)?;
        if count == 0 {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        let offer = handshake.feed(&bytes[..count], &mut out).map_err(|refusal| Error::Export {
            export: export.to_owned(),
            what: match refusal {
                Refusal::NoServer => "not an NBD server".into(),
                Refusal::Refused(why) => why,
            },
        })?;
        stream.write_all(&out).map_err(failed)?;
        out.clear();
        if let Some(offer) = offer {
            return Ok(offer);
        }
    }
}
