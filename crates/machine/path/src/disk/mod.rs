//! The disk: block layer, rings, buffers and timers of one target on one thread.
//!
//! ```text
//! submit ──► block layer ──► send: the scheduler's choice into the ring ──► wait ──► reap ──► events
//!                 ▲                                                                    │
//!                 └────────────────────────── completions ◄────────────────────────────┘
//! ```
//!
//! The clock is read once a turn: what a turn finds was completed then, and what is submitted before the next has that time.
//!
//! Structs own what they guard, each in a file of its own: [`Admission`], [`Slots`] (I/Os), [`Held`] (requests in the device), [`Scratch`],
//! [`PageCache`], [`VirtualTarget`], [`Waiter`] and [`Listeners`]. Over them stand `send`, `receive`, `wait` and `in_virtual`, and on top `turn`.

mod admission;
mod drivers;
mod event;
mod in_device;
mod in_virtual;
mod listeners;
mod page_cache;
mod readiness;
mod receive;
mod scratch;
mod send;
mod signal;
mod slots;
mod sockets;
mod turn;
mod underway;
mod virtual_target;
mod wait;
mod waiter;
mod waker;
mod watch;
mod watches;

#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Instant;

use dumbwaiter_block::{BlockLayer, Config, Finished, Flags, Io, Nanos, Plug, SECTOR_BYTES, Stack, Tenants};

use crate::buffer::Data;
use crate::clock::Clock;
use crate::completion::CompletionSupport;
use crate::observer::Observer;
use crate::options::Batching;
use crate::ring::{Ring, why_no_ring};
use crate::rings::Rings;
use crate::virtual_device::VirtualDevice;
use crate::{Error, Target};

use self::admission::Admission;
pub use self::event::{Event, Outcome, RequestFailure};
use self::in_device::Held;
pub use self::listeners::DriverCommand;
use self::listeners::Listeners;
use self::page_cache::PageCache;
pub use self::readiness::{Interest, Readiness, WatchId};
use self::scratch::Scratch;
use self::slots::Slots;
use self::virtual_target::VirtualTarget;
use self::waiter::Waiter;
pub use self::waker::Waker;

/// How a disk serves.
pub struct DiskOptions {
    /// How completions are found; see [`Target::check`].
    pub completion: CompletionSupport,
    /// A kernel thread takes submissions from the ring (`IORING_SETUP_SQPOLL`), so that submitting needs no system call.
    pub sqpoll: bool,
    /// Completions may wait a little to be taken together.
    pub batching: Batching,
    /// The disk has buffers of its own for [`Data::Scratch`]: one for each request that the device may hold, as large as the
    /// largest request. They are registered with the kernel, which pins those of up to 64 KiB.
    pub scratch: bool,
    /// Scratch buffers are filled with bytes from this seed that no device can shorten; else with zeroes.
    pub scratch_seed: Option<u64>,
    /// Sees the requests and their scratch data.
    pub observer: Option<Box<dyn Observer>>,
    /// Do I/O through the page cache without the kernel's worker threads where that is possible. Without effect on targets
    /// past the page cache.
    pub bypass_workers: bool,
    /// On a loop device with few requests under way: look at the ring for up to 64 us before a wait sleeps, where trials show that this is
    /// faster. For a thread that has its CPU to itself.
    pub spins: bool,
    /// Requests that one system call submits at most, 1 or more, unless a receive or a driver's command is under way; the next call submits
    /// the rest. For reads from the page cache, which the call does itself: clients go on with the first answers while it does more.
    pub submit_batch: u32,
    /// Takes the place of the target's file; for a target of [`Target::virtual_device`].
    pub device: Option<Box<dyn VirtualDevice>>,
    /// Time stands still but for waits, and a wait is over at once: the clock jumps to what is due next. Tests run a program around a disk with
    /// a virtual device so, many times faster than in real time and with the same result each time.
    pub manual_clock: bool,
}

impl Default for DiskOptions {
    /// Interrupts, batching, and no buffers of its own.
    fn default() -> DiskOptions {
        DiskOptions {
            completion: CompletionSupport::default(),
            sqpoll: false,
            batching: Batching::default(),
            scratch: false,
            scratch_seed: None,
            observer: None,
            bypass_workers: false,
            spins: false,
            submit_batch: u32::MAX,
            device: None,
            manual_clock: false,
        }
    }
}

/// A block layer with its scheduler over a [`Target`], in real time.
///
/// A disk stays on the thread that made it; other threads reach it through a [`Waker`]. Being idle is a normal state.
/// Dropping it waits for everything that is in the device, and hands nothing back; what waits in the scheduler is discarded.
pub struct Disk {
    target: Arc<Target>,
    admission: Admission,
    layer: BlockLayer,
    plug: Plug,
    rings: Rings,
    clock: Clock,
    now: Nanos,
    /// The I/Os.
    slots: Slots,
    /// Requests in the device.
    held: Held,
    /// The device, if it is a virtual one.
    device: Option<VirtualTarget>,
    scratch: Scratch,
    page_cache: PageCache,
    waiter: Waiter,
    listeners: Listeners,
    observer: Option<Box<dyn Observer>>,
    finished: Vec<Finished>,
    submit_batch: u32,
    /// Nothing happened since all that may go was sent.
    all_sent: bool,
    notes: Vec<String>,
    /// The ring accepts calls of the thread that made it only.
    not_send: PhantomData<*const ()>,
}

impl Disk {
    /// A disk over `target`, with a scheduler, which was made with `config.setup`, and its controllers. Long because it names every part of a disk.
    ///
    /// A caller that submits scattered pages ([`Data::Iovec`]) sets `config.limits.segment_bytes` to the size of a page: only
    /// I/Os of no more pieces than that limit counts are merged.
    pub fn new(
        target: Arc<Target>,
        config: Config,
        stack: impl Into<Stack>,
        tenants: Tenants,
        options: DiskOptions,
    ) -> Result<Disk, Error> {
        let depth = config.setup.device_depth.max(1);
        let refuse = |reason: String| Error::Setup { path: target.path().to_owned(), reason };
        if config.limits.max_discard_segments > 1 {
            let ranges = config.limits.max_discard_segments;
            return Err(refuse(format!(
                "discards of {ranges} ranges were asked for; expected 1: a discard is sent as one range"
            )));
        }
        let entries = (depth + 8).next_power_of_two();
        let mut rings = Rings::new(options.completion.ring, |mode| {
            Ring::new(entries, mode, options.sqpoll).map_err(|e| no_ring(&e, options.sqpoll))
        })?;
        let registering = |source| Error::Ring { what: "the file cannot be registered with the ring", source };
        rings.register_file(target.file().as_raw_fd()).map_err(registering)?;
        let mut notes = Vec::new();
        let scratch = match options.scratch {
            true => {
                let bytes = config.limits.max_sectors as usize * SECTOR_BYTES as usize;
                Scratch::new(&rings, depth, bytes, options.scratch_seed, &mut notes)?
            }
            false => Scratch::default(),
        };
        let by_interrupts = options.completion == CompletionSupport::default() && !options.sqpoll;
        let spins = options.spins && by_interrupts && target.is_loop() && !options.manual_clock;
        let room = 2 * entries as usize;
        let mut listeners = Listeners::default();
        let page_cache = match options.bypass_workers && options.device.is_none() {
            true => PageCache::of(&target, || listeners.watches.waker(&mut rings))?,
            false => PageCache::default(),
        };
        Ok(Disk {
            admission: Admission::new(Arc::clone(&target), options.scratch, options.device.is_none()),
            target,
            layer: BlockLayer::new(config, stack, tenants),
            plug: Plug::default(),
            rings,
            clock: if options.manual_clock { Clock::Manual(Nanos::ZERO) } else { Clock::start() },
            now: Nanos::ZERO,
            slots: Slots::default(),
            held: Held::new(room),
            device: options.device.map(VirtualTarget::new),
            scratch,
            page_cache,
            waiter: Waiter::new(options.completion, options.batching, spins),
            listeners,
            observer: options.observer,
            finished: Vec::with_capacity(room),
            submit_batch: options.submit_batch.max(1),
            all_sent: false,
            notes,
            not_send: PhantomData,
        })
    }

    /// Takes an I/O at [`Disk::now`]. It reaches the device with the next [`Disk::turn`] or [`Disk::send`] at which the
    /// scheduler chooses it, and comes back as [`Event::Completed`].
    #[inline]
    pub fn submit(&mut self, io: Io, data: Data) -> Result<(), Error> {
        let io = self.admit(io, data)?;
        self.all_sent = false;
        self.layer.submit(self.now, io, None);
        Ok(())
    }

    /// As [`Disk::submit`], but held back in a plug, where neighbours merge, until [`Disk::unplug`] or the next turn. A plug
    /// is for I/Os of one task.
    #[inline]
    pub fn submit_plugged(&mut self, io: Io, data: Data) -> Result<(), Error> {
        let io = self.admit(io, data)?;
        self.all_sent = false;
        self.layer.submit(self.now, io, Some(&mut self.plug));
        Ok(())
    }

    /// Lets go of what [`Disk::submit_plugged`] holds back.
    #[inline]
    pub fn unplug(&mut self) {
        if !self.plug.is_empty() {
            self.layer.unplug(self.now, &mut self.plug);
        }
    }

    /// The time of this turn, since the disk was made or [`Disk::start_clock`].
    #[inline]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Counts time from `origin`, and sleeps until then. Before the first I/O only.
    pub fn start_clock(&mut self, origin: Instant) {
        debug_assert_eq!(self.layer.ledger().submitted, 0, "time goes backwards for I/Os that were submitted");
        self.clock = Clock::start_at(origin);
        self.now = Nanos::ZERO;
    }

    /// The block layer: its ledger, scheduler, tenants and requests.
    #[inline]
    pub fn layer(&self) -> &BlockLayer {
        &self.layer
    }

    /// The block layer, to change tenants, tasks, settings and the scheduler. A caller that submits, polls or completes
    /// requests here makes the disk fail.
    pub fn layer_mut(&mut self) -> &mut BlockLayer {
        self.all_sent = false;
        &mut self.layer
    }

    /// The file or device below it.
    pub fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// Notes for people, on features that are missing.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Number of system calls that waited for completions.
    pub fn waits(&self) -> u64 {
        self.waiter.waits
    }

    /// Checks an I/O, and keeps its data; the block layer gets it with the number of its slot.
    #[inline]
    fn admit(&mut self, mut io: Io, data: Data) -> Result<Io, Error> {
        if !self.admission.is_plain(&io, &data) {
            if let Some(reason) = self.admission.objection(&io, &data) {
                return Err(Error::Refused { op: io.op, sector: io.sector, sectors: io.sectors, reason });
            }
            // More pieces than the layer counts segments: merged with others they might be too many for one call.
            if data.count() > usize::from(self.layer.config().limits.segments(&io)).max(1) {
                io.flags = io.flags.with(Flags::NOMERGE);
            }
        }
        io.token = u64::from(self.slots.put(io.token, data));
        Ok(io)
    }

    fn check_fault(&self) -> Result<(), Error> {
        self.layer.fault().map_or(Ok(()), |fault| Err(Error::Fault(*fault)))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.page_cache.end();
        self.listeners.end(&mut self.rings);
        if self.rings.drain().is_ok() {
            return;
        }
        // The kernel may still write to this memory, so it is leaked.
        self.scratch.leak();
        self.held.leak();
        let borrowed = self.slots.leak();
        if borrowed {
            // The caller may free its memory once the disk is dropped, and a drop cannot fail.
            eprintln!("dumbwaiter: completions of I/O under way cannot be read, so its memory cannot be released");
            std::process::abort();
        }
    }
}

fn no_ring(error: &std::io::Error, sqpoll: bool) -> Error {
    Error::NoRing(match error.raw_os_error() {
        Some(libc::EPERM) if sqpoll => "a kernel thread that takes submissions (SQPOLL) needs root before Linux 5.11 or CAP_SYS_NICE before 5.13; leave it out".into(),
        _ => why_no_ring(error),
    })
}
