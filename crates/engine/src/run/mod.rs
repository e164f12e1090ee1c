//! One run: threads and block layer in real time, over a ring.
//!
//! One turn of the loop: what is due happens, threads ask, the scheduler chooses, and a single system call hands everything
//! over and waits. The clock is read once a turn: what a turn finds was completed then. Nothing is allocated per I/O.

mod device;
mod life;
pub(crate) mod rings;
mod threads;
mod wait;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use dumbwaiter_block::{BlockLayer, Config, Finished, Ledger, Nanos, Plug, RequestId, Scheduler, TaskId, Tenants};
use dumbwaiter_load::{Change, Thread};
use dumbwaiter_measure::{Completed, Recorder, TaskSpec};

use crate::arena::Arena;
use crate::clock::{Clock, Usage, exact_timers};
use crate::hybrid::Sleeper;
use crate::ring::{Finding, Ring, why_no_ring};
use crate::target::Way;
use crate::verify::Verifier;
use crate::{Error, Target};

use dumbwaiter_experiment::Control;

use self::device::InDevice;
use self::rings::Together;
use self::threads::{Slot, ThreadState};

/// When a run ends.
#[derive(Clone, Copy)]
pub(crate) struct Until {
    pub(crate) time: Nanos,
    pub(crate) ios: u64,
}

/// Everything a run is made of.
pub(crate) struct Parts<'a> {
    pub(crate) target: &'a Target,
    pub(crate) way: Way,
    pub(crate) config: Config,
    pub(crate) scheduler: Box<dyn Scheduler>,
    pub(crate) tenants: Tenants,
    pub(crate) task_specs: Vec<TaskSpec>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) changes: Vec<(Nanos, Change)>,
    pub(crate) recorder: Recorder,
    pub(crate) verifier: Option<Verifier>,
    pub(crate) until: Until,
    pub(crate) seed: u64,
    pub(crate) control: &'a Control,
    /// What all rings of this run share.
    pub(crate) together: &'a Together,
}

/// What a run leaves behind.
pub(crate) struct Outcome {
    pub(crate) recorder: Recorder,
    pub(crate) ledger: Ledger,
    /// What the scheduler counted.
    pub(crate) counters: BTreeMap<String, f64>,
    pub(crate) closed: Closed,
    pub(crate) submitted_by_tenant: Vec<u64>,
    pub(crate) issued_late: u64,
    pub(crate) rounded: u64,
    pub(crate) cancelled: bool,
    /// The first failed I/O, in words.
    pub(crate) failure: Option<String>,
    /// Failed requests by error.
    pub(crate) failures: BTreeMap<String, u64>,
    pub(crate) verifier: Option<Verifier>,
    pub(crate) notes: Vec<String>,
    /// System calls on rings.
    pub(crate) enters: u64,
    /// Rings that it went through.
    pub(crate) rings: usize,
    /// What came of the applications, by their first tasks.
    pub(crate) applications: Vec<(TaskId, dumbwaiter_workloads::ApplicationOutcome)>,
}

/// How things stood when the measured part ended.
#[derive(Clone, Copy)]
pub(crate) struct Closed {
    pub(crate) end: Nanos,
    pub(crate) usage: Usage,
    pub(crate) outstanding: u64,
    pub(crate) oldest: Nanos,
}

pub(crate) struct Run<'a> {
    target: &'a Target,
    way: Way,
    layer: BlockLayer,
    // Rings before the buffers: they are closed first.
    ring: Ring,
    /// For what a polled ring does not take: flushes, discards.
    side: Option<Ring>,
    arena: Arena,
    /// The kernel knows the buffers.
    registered: bool,
    recorder: Recorder,
    threads: Vec<ThreadState>,
    task_specs: Vec<TaskSpec>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    plug: Plug,
    clock: Clock,
    now: Nanos,
    wakes: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Threads that may have more to ask.
    ready: Vec<u32>,
    /// Of requests in the device, by their id.
    held: Vec<InDevice>,
    in_ring: u32,
    in_side: u32,
    done: Vec<(u64, i32)>,
    finished: Vec<Finished>,
    /// What finished in this turn and is to be measured, with the task's number in its thread.
    unmeasured: Vec<(Completed, u16)>,
    /// Mean service time, ns.
    service: u64,
    sleeper: Option<Sleeper>,
    /// Requests that nobody slept for yet, and until when that would be; of our own hybrid polling.
    to_sleep: VecDeque<(Nanos, RequestId, u64)>,
    issues: u64,
    until: Until,
    submitted: u64,
    submitted_by_tenant: Vec<u64>,
    open: bool,
    stopping: bool,
    stage: Option<u32>,
    several_stages: bool,
    live: usize,
    changes: VecDeque<(Nanos, Change)>,
    issued_late: u64,
    rounded: u64,
    failure: Option<String>,
    failures: BTreeMap<String, u64>,
    verifier: Option<Verifier>,
    notes: Vec<String>,
    enters: u64,
    begin: Option<std::time::Instant>,
    /// Where finished I/Os are written down.
    records: Option<Box<dyn std::io::Write>>,
    control: &'a Control,
    together: &'a Together,
}

/// How often the outside is told and asked.
const LOOK_EVERY: Nanos = Nanos::from_ms(50);

impl<'a> Run<'a> {
    /// Sets up rings and buffers; nothing has happened yet.
    pub(crate) fn new(parts: Parts<'a>) -> Result<Run<'a>, Error> {
        let depth = parts.config.setup.device_depth.max(1);
        let entries = (depth + 8).next_power_of_two();
        let options = parts.target.options();
        let mut notes = Vec::new();
        let no_ring = |e: std::io::Error| Error::NoRing(why_no_ring(&e));
        let registering = |source| Error::Ring { what: "the file cannot be registered with the ring", source };
        let make = |finding| -> Result<Ring, Error> {
            let ring = match Ring::new(entries, finding, options.sqpoll) {
                Err(e) if options.sqpoll && e.raw_os_error() == Some(libc::EPERM) => {
                    return Err(Error::NoRing(
                        "a kernel thread that takes submissions (SQPOLL) needs root before Linux 5.11 or CAP_SYS_NICE before 5.13; leave it out".into(),
                    ));
                }
                other => other.map_err(no_ring)?,
            };
            ring.register_file(parts.target.file().as_raw_fd()).map_err(registering)?;
            Ok(ring)
        };
        let ring = make(parts.way.finding)?;
        let side = if ring.polled() { Some(make(Finding::Interrupt)?) } else { None };
        let slot_bytes = parts.config.limits.max_sectors as usize * 512;
        let memory = |source| Error::Ring { what: "no memory for the buffers", source };
        let mut arena = Arena::new(depth, slot_bytes).map_err(memory)?;
        if options.allow_writes {
            arena.fill(parts.seed ^ 0x9e37_79b9_7f4a_7c15);
        }
        let registered = match ring.register_buffers(&arena) {
            Ok(()) => true,
            Err(e) => {
                notes.push(format!(
                    "buffers of {} MiB are not registered ({e}): each I/O costs more CPU; `ulimit -l` raises the limit of locked memory",
                    arena.registered().1 >> 20
                ));
                false
            }
        };
        let several_stages = parts.threads.iter().any(|t| t.stage != parts.threads[0].stage);
        let outstanding = parts.threads.iter().map(|t| t.depth.min(1024) as usize).sum::<usize>();
        Ok(Run {
            submitted_by_tenant: vec![0; parts.tenants.tenant_slots()],
            layer: BlockLayer::new(parts.config, parts.scheduler, parts.tenants),
            target: parts.target,
            sleeper: parts.way.own.map(Sleeper::new),
            way: parts.way,
            ring,
            side,
            arena,
            registered,
            recorder: parts.recorder,
            live: parts.threads.len(),
            threads: parts.threads.into_iter().map(ThreadState::new).collect(),
            task_specs: parts.task_specs,
            slots: Vec::with_capacity(outstanding),
            free: Vec::with_capacity(outstanding),
            plug: Plug::default(),
            clock: Clock::start(),
            now: Nanos::ZERO,
            wakes: BinaryHeap::new(),
            ready: Vec::new(),
            held: Vec::new(),
            in_ring: 0,
            in_side: 0,
            done: Vec::with_capacity(2 * entries as usize),
            finished: Vec::with_capacity(2 * entries as usize),
            unmeasured: Vec::with_capacity(2 * entries as usize),
            service: 0,
            to_sleep: VecDeque::new(),
            issues: 0,
            until: parts.until,
            submitted: 0,
            open: true,
            stopping: false,
            stage: None,
            several_stages,
            changes: parts.changes.into(),
            issued_late: 0,
            rounded: 0,
            failure: None,
            failures: BTreeMap::new(),
            verifier: parts.verifier,
            notes,
            enters: 0,
            begin: None,
            records: None,
            control: parts.control,
            together: parts.together,
        })
    }

    /// Begins at this moment, not at once.
    pub(crate) fn begin_at(&mut self, begin: std::time::Instant) {
        self.begin = Some(begin);
    }

    /// Writes down every I/O that finishes in the measured time.
    pub(crate) fn tap(&mut self, records: Box<dyn std::io::Write>) {
        self.records = Some(records);
    }

    /// Runs to the end and lets everything drain; what finishes after the end is not measured.
    pub(crate) fn finish(mut self) -> Result<Outcome, Error> {
        exact_timers(true);
        let result = self.turns();
        exact_timers(false);
        // The kernel may still be writing into the buffers of a run that broke off.
        self.abandon();
        if result.is_err() {
            self.together.stop();
        }
        let (closed, cancelled) = result?;
        let outcome = |t: &ThreadState| Some((t.running.thread.task, t.running.thread.workload.outcome(closed.end)?));
        let applications = self.threads.iter().filter_map(outcome).collect();
        if let Some(records) = &mut self.records {
            records.flush().map_err(|source| Error::Ring { what: "finished I/Os cannot be written down", source })?;
        }
        let mut counters = BTreeMap::new();
        self.layer.scheduler().counters(&mut |name, count| {
            counters.insert(name.to_owned(), count as f64);
        });
        Ok(Outcome {
            recorder: self.recorder,
            ledger: *self.layer.ledger(),
            counters,
            closed,
            submitted_by_tenant: self.submitted_by_tenant,
            issued_late: self.issued_late,
            rounded: self.rounded,
            cancelled,
            failure: self.failure,
            failures: self.failures,
            verifier: self.verifier,
            notes: self.notes,
            enters: self.enters,
            rings: 1,
            applications,
        })
    }

    fn turns(&mut self) -> Result<(Closed, bool), Error> {
        let before = Usage::now();
        self.clock = self.begin.map_or_else(Clock::start, Clock::start_at);
        let mut closed = None;
        let mut cancelled = false;
        let mut looked = Nanos::ZERO;
        let mut counted = 0;
        self.start_stage();
        loop {
            if self.layer.next_timer().is_some_and(|at| at <= self.now) {
                self.layer.timer(self.now);
            }
            self.change_due();
            self.wake_due();
            self.pump_ready()?;
            self.serve()?;
            let idle = self.slots.len() == self.free.len();
            if self.now.since(looked) >= LOOK_EVERY {
                self.tell(&mut counted);
                looked = self.now;
                cancelled |= self.open && self.control.cancel.load(Ordering::Relaxed);
            }
            if self.open {
                let over = idle && (self.live == 0 || self.submitted >= self.until.ios);
                if over || self.now >= self.until.time || self.stopping || self.together.stopped() || cancelled {
                    closed = Some(self.close(&before));
                }
            }
            if !self.open && idle {
                self.measure();
                break;
            }
            self.wait()?;
            self.now = self.clock.now();
            self.reap();
        }
        self.tell(&mut counted);
        let closed = match closed {
            Some(closed) => closed,
            None => self.close(&before),
        };
        Ok((closed, cancelled))
    }

    /// Tells the outside how far it is; `counted` is how many it was told of.
    fn tell(&self, counted: &mut u64) {
        let finished = self.recorder.finished();
        self.control.finished.fetch_add(finished - *counted, Ordering::Relaxed);
        self.control.elapsed_ns.fetch_add(self.together.advance(self.now).0, Ordering::Relaxed);
        *counted = finished;
    }

    fn close(&mut self, before: &Usage) -> Closed {
        self.open = false;
        if self.stopping {
            self.together.stop();
        }
        let mut waiting = vec![true; self.slots.len()];
        for slot in &self.free {
            waiting[*slot as usize] = false;
        }
        let since = self.slots.iter().zip(&waiting).filter(|(_, waits)| **waits).map(|(slot, _)| slot.submit).min();
        Closed {
            end: self.now,
            usage: Usage::now().since(before),
            outstanding: (self.slots.len() - self.free.len()) as u64,
            oldest: since.map_or(Nanos::ZERO, |since| self.now.since(since)),
        }
    }
}
