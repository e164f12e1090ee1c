//! Closed loops over NBD and vhost-user-blk, for the demo, benchmarks and tests. No part of the public interface.

mod nbd;
mod vhost;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use dumbwaiter_block::Nanos;
pub use dumbwaiter_protocols::nbd::socket::Address;

use crate::Error;
use crate::histogram::LatencyHistogram;

/// Where a load finds its disk.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// An export of an NBD server, over one connection.
    Nbd(Address, String),
    /// A vhost-user-blk device, by its socket, on one ring: at most 341 requests under way.
    Vhost {
        /// The socket.
        socket: PathBuf,
        /// Look for answers all the time; else it sleeps until the device signals.
        poll: bool,
    },
}

/// A load that keeps the same number of requests under way.
#[derive(Clone, Debug)]
pub struct ClosedLoop {
    /// Its disk.
    pub endpoint: Endpoint,
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
}

/// The outcome of a load.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// Requests answered well.
    pub ios: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Their latencies.
    pub latency: LatencyHistogram,
}

impl ClosedLoop {
    /// Random reads of 4 KiB from an export at the Unix socket of an NBD server.
    pub fn reads(socket: PathBuf, export: &str, depth: u32, seed: u64) -> ClosedLoop {
        let endpoint = Endpoint::Nbd(Address::Unix(socket), export.to_owned());
        ClosedLoop { endpoint, writes: false, sequential: false, block_bytes: 4096, depth, seed }
    }

    /// Runs until `stop` is set, and finishes what is under way. `done` counts what is answered well meanwhile.
    pub fn run(&self, stop: &AtomicBool, done: &AtomicU64) -> Result<LoadReport, Error> {
        let signals = Signals { stop, done };
        let (name, outcome) = match &self.endpoint {
            Endpoint::Nbd(address, export) => (format!("export `{export}`"), nbd::run(self, address, export, signals)),
            Endpoint::Vhost { socket, poll } => {
                (socket.display().to_string(), vhost::run(self, socket, *poll, signals))
            }
        };
        outcome.map_err(Error::io(format!("the load on {name}")))
    }
}

/// How a load and its owner meet while it runs.
#[derive(Clone, Copy)]
struct Signals<'a> {
    stop: &'a AtomicBool,
    done: &'a AtomicU64,
}

impl Signals<'_> {
    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The requests of a load that runs.
struct Requests<'a> {
    load: &'a ClosedLoop,
    blocks: u64,
    random: u64,
    issued: u64,
    /// When each was sent, by its slot.
    sent: Vec<Instant>,
    report: LoadReport,
}

impl<'a> Requests<'a> {
    fn new(load: &'a ClosedLoop, disk_bytes: u64, slots: u32) -> std::io::Result<Requests<'a>> {
        let blocks = disk_bytes / u64::from(load.block_bytes);
        if blocks == 0 {
            return Err(std::io::Error::other("smaller than one request"));
        }
        let sent = vec![Instant::now(); slots as usize];
        Ok(Requests { load, blocks, random: load.seed, issued: 0, sent, report: LoadReport::default() })
    }

    /// First byte of the next request, which goes out in this slot.
    fn next(&mut self, slot: usize) -> u64 {
        let block = if self.load.sequential { self.issued } else { next_random(&mut self.random) };
        self.issued += 1;
        self.sent[slot] = Instant::now();
        block % self.blocks * u64::from(self.load.block_bytes)
    }

    fn answered(&mut self, slot: usize, good: bool, now: Instant) {
        let Some(sent) = self.sent.get(slot) else { return };
        if !good {
            self.report.errors += 1;
            return;
        }
        self.report.ios += 1;
        self.report.latency.add(Nanos(now.duration_since(*sent).as_nanos() as u64));
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
