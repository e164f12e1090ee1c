//! A load over vhost-user-blk: a driver in this process that keeps a number of requests under way, sleeps until the device signals, and
//! answers what is done with one kick.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dumbwaiter_block::Nanos;
use dumbwaiter_protocols::vhost_user::front_end::{FrontEnd, Options};
use dumbwaiter_protocols::vhost_user::wire::{SECTOR_BYTES, request_type};

use crate::Error;
use crate::load::{LoadReport, next_random};

/// A device that does nothing for longer is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A closed loop on one ring.
#[derive(Clone, Debug)]
pub struct VhostLoad {
    /// The export's socket.
    pub socket: PathBuf,
    /// Writes; reads otherwise.
    pub writes: bool,
    /// One block after another; at random otherwise.
    pub sequential: bool,
    /// Bytes of a request.
    pub block_bytes: u32,
    /// Requests under way, at most 341.
    pub depth: u16,
    /// Seed of the positions.
    pub seed: u64,
    /// Bytes of the disk that are used; all if `None`.
    pub span: Option<u64>,
    /// Looks for answers all the time; else it sleeps until the device signals.
    pub poll: bool,
}

struct Running<'a> {
    load: &'a VhostLoad,
    blocks: u64,
    random: u64,
    issued: u64,
    /// When each request was offered, by its slot.
    sent: Vec<Instant>,
    report: LoadReport,
}

impl VhostLoad {
    /// Runs until `stop` is set, and finishes what is under way. `done` counts what is answered well meanwhile.
    pub fn run(&self, stop: &AtomicBool, done: &AtomicU64) -> Result<LoadReport, Error> {
        let failed = |source| Error::Io { what: format!("the load on {}", self.socket.display()), source };
        // Three descriptors for each request.
        let queue_size = (3 * u32::from(self.depth.max(1))).next_power_of_two().min(1024) as u16;
        let options = Options { queue_size, slot_bytes: self.block_bytes, ..Options::default() };
        let mut machine = FrontEnd::connect(&self.socket, &options).map_err(failed)?;
        let bytes = machine.disk_bytes().map_err(failed)?;
        let blocks = self.span.unwrap_or(bytes).min(bytes) / u64::from(self.block_bytes);
        if blocks == 0 {
            return Err(Error::Settings(format!("{}: smaller than one request", self.socket.display())));
        }
        let mut running = Running {
            load: self,
            blocks,
            random: self.seed,
            issued: 0,
            sent: vec![Instant::now(); usize::from(options.slots())],
            report: LoadReport::default(),
        };
        running.run(&mut machine, stop, done).map_err(failed)?;
        // A front end stops its rings before it leaves, so that nothing is in flight.
        machine.stop_ring(0).map_err(failed)?;
        Ok(running.report)
    }
}

impl Running<'_> {
    fn run(&mut self, machine: &mut FrontEnd, stop: &AtomicBool, done: &AtomicU64) -> io::Result<()> {
        let (memory, queues) = machine.split();
        let queue = &mut queues[0];
        let mut under_way = 0;
        for _ in 0..self.load.depth {
            let Some(slot) = queue.take_slot() else { break };
            self.ask(|kind, sector, bytes| queue.submit(memory, slot, kind, sector, bytes), slot);
            under_way += 1;
        }
        queue.kick(memory);
        let mut finished = Vec::new();
        while under_way > 0 {
            queue.reap(memory, &mut finished);
            if finished.is_empty() {
                match self.load.poll {
                    true => std::hint::spin_loop(),
                    false => queue.wait(memory, PATIENCE)?,
                }
                continue;
            }
            let (now, stopping, before) = (Instant::now(), stop.load(Ordering::Relaxed), self.report.ios);
            for (slot, status) in finished.drain(..) {
                match status {
                    0 => {
                        self.report.ios += 1;
                        let sent = self.sent[usize::from(slot)];
                        self.report.latency.add(Nanos(now.duration_since(sent).as_nanos() as u64));
                    }
                    _ => self.report.errors += 1,
                }
                match stopping {
                    true => under_way -= 1,
                    false => self.ask(|kind, sector, bytes| queue.submit(memory, slot, kind, sector, bytes), slot),
                }
            }
            done.fetch_add(self.report.ios - before, Ordering::Relaxed);
            queue.kick(memory);
        }
        Ok(())
    }

    fn ask(&mut self, submit: impl FnOnce(u32, u64, u32), slot: u16) {
        let block = if self.load.sequential { self.issued } else { next_random(&mut self.random) };
        self.issued += 1;
        let sector = block % self.blocks * u64::from(self.load.block_bytes) / SECTOR_BYTES;
        let kind = if self.load.writes { request_type::WRITE } else { request_type::READ };
        self.sent[usize::from(slot)] = Instant::now();
        submit(kind, sector, self.load.block_bytes);
    }
}
