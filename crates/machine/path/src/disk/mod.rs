//! The disk: block layer, rings, buffers and timers of one target on one thread.
//!
//! ```text
//! submit ──► block layer ──► send: the scheduler's choice into the ring ──► wait ──► reap ──► events
//!                 ▲                                                                    │
//!                 └────────────────────────── completions ◄────────────────────────────┘
//! ```
//!
//! The clock is read once a turn: what a turn finds was completed then, and what is submitted before the next has that time.

mod commands;
mod drivers;
mod event;
mod in_device;
mod in_virtual;
mod page_cache;
mod readiness;
mod receive;
mod receives;
mod send;
mod signal;
mod slots;
mod sockets;
mod to_sleep;
mod wait;
mod waker;
mod watch;
mod watches;

#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Instant;

use dumbwaiter_block::{BlockLayer, Config, Errno, Finished, Flags, Io, Nanos, Op, Plug, SECTOR_BYTES, Stack, Tenants};

use crate::arena::Arena;
use crate::buffer::{Data, MAX_IOVECS};
use crate::clock::Clock;
use crate::completion::CompletionSupport;
use crate::hybrid::Sleeper;
use crate::observer::Observer;
use crate::options::Batching;
use crate::ring::{Ring, why_no_ring};
use crate::rings::Rings;
use crate::spinner::Spinner;
use crate::virtual_device::VirtualDevice;
use crate::{Error, Target};

use self::commands::Commands;
pub use self::commands::DriverCommand;
pub use self::event::{Event, Outcome, RequestFailure};
use self::in_device::InDevice;
use self::page_cache::{InPlaceWrites, PageCacheMode, WriterThread};
pub use self::readiness::{Interest, Readiness, WatchId};
use self::receives::Receives;
use self::slots::Slots;
use self::to_sleep::ToSleep;
pub use self::waker::Waker;
use self::watches::Watches;

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
    /// Size of the target.
    sectors: u64,
    /// Sectors of a logical block, a power of two, less one.
    block_mask: u64,
    layer: BlockLayer,
    rings: Rings,
    completion: CompletionSupport,
    batching: Batching,
    /// Scratch buffers.
    arena: Option<Arena>,
    /// The kernel knows the scratch buffers.
    registered: bool,
    observer: Option<Box<dyn Observer>>,
    slots: Slots,
    plug: Plug,
    /// Of requests in the device, by their id.
    held: Vec<InDevice>,
    /// Memory of requests in the device whose data is the caller's, by their id.
    iovecs: Vec<Vec<libc::iovec>>,
    watches: Watches,
    receives: Receives,
    commands: Commands,
    device: Option<Box<dyn VirtualDevice>>,
    virtual_done: Vec<(u32, Result<(), Errno>)>,
    page_cache: PageCacheMode,
    writer: Option<WriterThread>,
    in_place_writes: InPlaceWrites,
    /// How far the virtual device has come.
    virtual_now: Nanos,
    clock: Clock,
    now: Nanos,
    done: Vec<(u32, i32)>,
    finished: Vec<Finished>,
    /// Mean service time, ns.
    service: u64,
    sleeper: Option<Sleeper>,
    submit_batch: u32,
    /// For a device that a thread of this machine serves.
    spinner: Option<Spinner>,
    to_sleep: ToSleep,
    /// The kernel passes messages between rings.
    signals: bool,
    /// Nothing happened since all that may go was sent.
    all_sent: bool,
    issues: u64,
    waits: u64,
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
        let rings = Rings::new(options.completion.ring, |mode| {
            Ring::new(entries, mode, options.sqpoll).map_err(|e| no_ring(&e, options.sqpoll))
        })?;
        let registering = |source| Error::Ring { what: "the file cannot be registered with the ring", source };
        rings.register_file(target.file().as_raw_fd()).map_err(registering)?;
        let mut notes = Vec::new();
        let (arena, registered) = match options.scratch {
            true => {
                let bytes = config.limits.max_sectors as usize * SECTOR_BYTES as usize;
                let (arena, registered) = scratch(&rings, depth, bytes, options.scratch_seed, &mut notes)?;
                (Some(arena), registered)
            }
            false => (None, false),
        };
        let by_interrupts = options.completion == CompletionSupport::default() && !options.sqpoll;
        let spins = options.spins && by_interrupts && target.is_loop() && !options.manual_clock;
        let room = 2 * entries as usize;
        let page_cache = match options.bypass_workers && options.device.is_none() {
            true => PageCacheMode::of(&target),
            false => PageCacheMode::Ring,
        };
        let mut disk = Disk {
            sectors: target.sectors(),
            block_mask: u64::from(target.facts().logical_block) / SECTOR_BYTES - 1,
            target,
            layer: BlockLayer::new(config, stack, tenants),
            signals: rings.passes_messages(),
            rings,
            sleeper: options.completion.sleep.map(Sleeper::new),
            submit_batch: options.submit_batch.max(1),
            spinner: spins.then(Spinner::new),
            completion: options.completion,
            batching: options.batching,
            arena,
            registered,
            observer: options.observer,
            slots: Slots::default(),
            plug: Plug::default(),
            held: Vec::new(),
            iovecs: Vec::new(),
            watches: Watches::default(),
            receives: Receives::default(),
            commands: Commands::default(),
            device: options.device,
            virtual_done: Vec::new(),
            page_cache,
            writer: None,
            in_place_writes: InPlaceWrites::new(),
            virtual_now: Nanos::ZERO,
            clock: if options.manual_clock { Clock::Manual(Nanos::ZERO) } else { Clock::start() },
            now: Nanos::ZERO,
            done: Vec::with_capacity(room),
            finished: Vec::with_capacity(room),
            service: 0,
            to_sleep: ToSleep::default(),
            all_sent: false,
            issues: 0,
            waits: 0,
            notes,
            not_send: PhantomData,
        };
        if disk.page_cache == PageCacheMode::WriterThread && disk.target.options().allow_writes {
            let waker = disk.waker()?;
            let failed = |source| Error::Ring { what: "the thread for buffered writes cannot be started", source };
            disk.writer = Some(WriterThread::start(Arc::clone(&disk.target), waker).map_err(failed)?);
        }
        Ok(disk)
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

    /// Sends what the scheduler chooses, waits, and appends what happened to `events`.
    ///
    /// Returns as soon as something happened, at `deadline` at the latest (at once if it has passed), or early without an
    /// event, as after a signal. Without a deadline it sleeps until a completion, a timer of the scheduler, a watched
    /// descriptor or a waker ends that; where there can be none of these, that is [`Error::Stalled`]. After an error the disk
    /// serves nothing more.
    pub fn turn(&mut self, deadline: Option<Nanos>, events: &mut Vec<Event>) -> Result<(), Error> {
        let before = events.len();
        if !self.all_sent || self.watches.to_arm() {
            self.queue(events)?;
        }
        let due = if events.len() > before || !self.done.is_empty() || !self.all_sent {
            Some(self.now)
        } else {
            let device = self.device.as_ref().and_then(|device| device.next_event());
            [self.layer.next_timer(), deadline, device].into_iter().flatten().min()
        };
        self.wait(due)?;
        self.now = self.clock.now();
        self.reap(events)?;
        if self.device.is_some() {
            self.run_virtual(events)?;
            self.deliver(events);
        }
        if self.layer.next_timer().is_some_and(|at| at <= self.now) {
            self.all_sent = false;
            self.layer.timer(self.now);
        }
        Ok(())
    }

    /// Hands the device what the scheduler chooses now, without waiting. A turn does the same first; in between the caller
    /// can work while the device does. Appends I/Os that need nothing from the device. A single request may go with the next turn, whose
    /// system call submits it and waits for it.
    pub fn send(&mut self, events: &mut Vec<Event>) -> Result<(), Error> {
        self.queue(events)?;
        if self.goes_with_the_wait() {
            return Ok(());
        }
        self.rings.main.submit().map_err(|source| Error::Ring { what: "the ring takes no requests", source })
    }

    /// Hands the kernel what is queued for it, receives and watches too, so that [`Disk::has_news`] sees their ends.
    pub fn hand_over(&mut self) -> Result<(), Error> {
        self.rearm_watches()?;
        self.rings.submit().map_err(|source| Error::Ring { what: "the ring takes no requests", source })
    }

    /// Would a turn find something that ended? Asks memory, not the kernel, so that a caller can look for a while before it sleeps. On
    /// kernels before 5.19 and in polled rings it may answer no where a turn would find something.
    pub fn has_news(&mut self) -> bool {
        self.rings.has_news()
    }

    /// Queues what the scheduler chooses now; the next call on the ring hands it over.
    fn queue(&mut self, events: &mut Vec<Event>) -> Result<(), Error> {
        self.unplug();
        let mut left = if self.receives.any() || self.commands.any() { u32::MAX } else { self.submit_batch };
        while left > 0
            && let Some(id) = self.layer.poll(self.now)
        {
            self.issue(id)?;
            left -= 1;
        }
        self.layer.finish_idle(self.now, &mut self.finished);
        self.deliver(events);
        self.check_fault()?;
        self.rearm_watches()?;
        if let Some(writer) = &mut self.writer {
            writer.submit();
        }
        self.all_sent = left > 0;
        Ok(())
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
        self.waits
    }

    /// Checks an I/O, and keeps its data; the block layer gets it with the number of its slot.
    #[inline]
    fn admit(&mut self, mut io: Io, data: Data) -> Result<Io, Error> {
        if !self.is_plain(&io, &data) {
            if let Some(reason) = self.objection(&io, &data) {
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

    /// Is it a read, or a write where that is allowed, of whole blocks within the target and of scratch data? There is nothing
    /// to object to then.
    #[inline]
    fn is_plain(&self, io: &Io, data: &Data) -> bool {
        let sectors = u64::from(io.sectors);
        let transfer = io.op == Op::Read || (io.op == Op::Write && self.target.options().allow_writes);
        let within = sectors > 0 && io.sector < self.sectors && self.sectors - io.sector >= sectors;
        let whole = (io.sector | sectors) & self.block_mask == 0;
        transfer && within && whole && self.arena.is_some() && !data.is_foreign()
    }

    fn objection(&self, io: &Io, data: &Data) -> Option<String> {
        let bytes = u64::from(io.sectors) * SECTOR_BYTES;
        if !self.target.options().allow_writes && !matches!(io.op, Op::Read | Op::Flush) {
            return Some("the target was opened for reading only".into());
        }
        if io.op == Op::Flush {
            return None;
        }
        if io.sectors == 0 {
            return Some("expected a length above 0".into());
        }
        if io.sector.checked_add(u64::from(io.sectors)).is_none_or(|end| end > self.sectors) {
            return Some(format!("the target ends at sector {}", self.sectors));
        }
        if (io.sector | u64::from(io.sectors)) & self.block_mask != 0 {
            return Some(format!("the target takes multiples of {} bytes only", self.target.facts().logical_block));
        }
        if !io.op.carries_data() {
            return None;
        }
        if matches!(data, Data::InFile) && (io.op != Op::Read || self.device.is_some()) {
            return Some("only reads of a real target can leave their data in the file".into());
        }
        match data.bytes() {
            None if self.arena.is_none() => Some("this disk has no buffers of its own".into()),
            Some(given) if given != bytes => Some(format!("{given} bytes of memory for {bytes} bytes of data")),
            Some(_) if data.count() > MAX_IOVECS => {
                Some(format!("{} pieces; expected at most {MAX_IOVECS}", data.count()))
            }
            _ => None,
        }
    }

    fn check_fault(&self) -> Result<(), Error> {
        self.layer.fault().map_or(Ok(()), |fault| Err(Error::Fault(*fault)))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.writer = None;
        self.commands.leak();
        let received = self.end_receives();
        if received.is_err() {
            self.receives.leak();
        }
        if self.rings.drain().is_ok() {
            return;
        }
        // The kernel may still write to this memory, so it is leaked.
        if let Some(arena) = &mut self.arena {
            arena.leak();
        }
        let borrowed = self.slots.leak();
        std::mem::forget(std::mem::take(&mut self.iovecs));
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

/// Scratch buffers for `depth` requests of up to `bytes`, and whether the kernel knows them.
fn scratch(
    rings: &Rings,
    depth: u32,
    bytes: usize,
    seed: Option<u64>,
    notes: &mut Vec<String>,
) -> Result<(Arena, bool), Error> {
    let mut arena =
        Arena::new(depth, bytes).map_err(|source| Error::Ring { what: "no memory for the buffers", source })?;
    if let Some(seed) = seed {
        arena.fill(seed);
    }
    let registered = rings.main.register_buffers(&arena);
    if let Err(e) = &registered {
        notes.push(format!(
            "buffers of {} MiB are not registered ({e}): each I/O costs more CPU; `ulimit -l` raises the limit of locked memory",
            arena.registered().1 >> 20
        ));
    }
    Ok((arena, registered.is_ok()))
}
